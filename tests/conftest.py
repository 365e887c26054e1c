"""What all tests share: surroundings of their own, how many examples a property is tried on, and
closing lines that say what was skipped and why."""

import ctypes
import gc
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import surroundings

surroundings.isolate()

# of the packages of the extra `dev`, those without which pytest cannot even read the tests
for name in (
    "hypothesis",
    "cryptography",
    "starlette",
    "selectolax",
    "onnx",
    "pandas",
    "lightgbm",
):
    if find_spec(name) is None:
        pytest.exit(f"the tests need pip install -e '.[dev]': {name} is missing", returncode=4)
if sys.platform == "linux":
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:  # images of containers may lack it
        pytest.exit("LightGBM needs libgomp.so.1: apt install libgomp1", returncode=4)

import property_settings
import skips


def pytest_addoption(parser):
    skips.add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    config.pluginmanager.register(property_settings)
    if getattr(config.option, "dist", None) == "load" and not config.option.maxschedchunk:
        # Each worker begins with tests of its own, and so compiles other kernels than the others.
        config.option.dist = "worksteal"
    gc.disable()  # until all tests are collected: they stay


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if isinstance(collector, pytest.Module) and report.passed:
        surroundings.set_aside(collector.obj.__name__)
    return report


def pytest_collection_finish():
    gc.freeze()  # no collection of garbage looks through 10,000 tests and all modules
    gc.enable()


@pytest.fixture(autouse=True)
def _process_restored(request):
    with surroundings.restored(request.module.__name__):
        yield


def pytest_terminal_summary(terminalreporter, config):
    for line in skips.closing_lines(config, skips.reasons(terminalreporter)):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session, exitstatus):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and exitstatus == pytest.ExitCode.OK:
        if skips.unlisted(session.config, skips.reasons(terminal)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", params=["definitions", "kernels"])
def both_ways(request):
    """What a test computes is computed by definition, and once more by kernels."""
    from foltr.core.compiled import NO_KERNELS, using
    from foltr.simulation.engines.twins import KERNELS

    with using(KERNELS if request.param == "kernels" else NO_KERNELS):
        yield


@pytest.fixture
def closed_port():
    """A port of this machine at which nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture(scope="session")
def real_data():
    """The folder of real collections."""
    folder = Path(os.environ[surroundings.DATA_VARIABLE])
    if not (folder / "MQ2008").is_dir():
        pytest.skip("no real data: MQ2008 is not in the folder that FOLTR_DATA names")
    return folder


@pytest.fixture
def with_real_data(real_data, monkeypatch):
    monkeypatch.setenv("FOLTR_DATA", str(real_data))
    return real_data
