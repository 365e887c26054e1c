"""Processes that tests of federations start: they find the modules beside the tests, and may be
watched."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """The many quick tests last: no worker waits at the end for one that takes long."""
    quick = "loopback/test_in_process", "loopback/test_tampered"
    items.sort(key=lambda item: any(name in item.nodeid for name in quick))


@pytest.fixture
def modules(monkeypatch):
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


WATCH = """
import os, sys

def noted(event, given):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        where = given[0] if event.startswith("socket.get") else given[1]
        host = where[0] if isinstance(where, tuple) else where
        with open(os.path.join({folder!r}, str(os.getpid())), "a") as file:
            file.write(f"{{event}} {{host}} {{' '.join(sys.orig_argv[1:4])}}\\n")

sys.addaudithook(noted)
"""


@pytest.fixture
def watched(modules, monkeypatch, tmp_path_factory):
    """A function that lists all hosts that processes of this test look up or connect to."""
    code, notes = tmp_path_factory.mktemp("watch"), tmp_path_factory.mktemp("notes")
    (code / "sitecustomize.py").write_text(WATCH.format(folder=str(notes)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(code), os.environ["PYTHONPATH"]]))

    def lines():
        return [line for file in notes.iterdir() for line in file.read_text().splitlines()]

    return lines
