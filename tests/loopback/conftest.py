"""Processes that tests of federations start find the modules beside the tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def modules(monkeypatch):
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
