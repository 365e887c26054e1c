"""How many examples hypothesis tries. The tests of every day try the same ones each time; the hunt
for new ones (`pytest -m fuzz`) tries many more, drawn by a seed that it prints. A plugin of pytest
that tests/conftest.py registers."""

import functools
import random
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers

MARK = "fuzz"
HUNT_FACTOR = 20  # examples in a hunt, relative to every day
_factor = 1


def examples(number: int = 100) -> settings:
    """A test's number of examples, each of which may take as long as it needs:
    `@examples(30)` above `@given(...)`."""
    return settings(max_examples=number * _factor)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Choose between every day and the hunt, before hypothesis reads its seed and before any test
    module is imported. The workers of pytest-xdist inherit the seed."""
    global _factor
    # no limits of time: on a busy machine they would fail by luck
    patient = settings(
        deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
    settings.register_profile("every day", patient, derandomize=True)
    settings.register_profile(MARK, patient, derandomize=False, max_examples=100 * HUNT_FACTOR)
    if is_hunt(config):
        settings.load_profile(MARK)
        _factor = HUNT_FACTOR
        if config.option.hypothesis_seed is None:
            config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))
    else:
        settings.load_profile("every day")
        if config.option.hypothesis_seed is not None:
            raise pytest.UsageError(f"--hypothesis-seed is for hunting: add -m {MARK}")
    package = Path(find_spec("foltr").origin).parent
    _fix_constants(
        functools.partial(constants_below, package) if is_hunt(config) else no_constants
    )


def is_hunt(config) -> bool:
    marks = config.getoption("markexpr")
    if marks != MARK and re.search(rf"(?<!not )\b{MARK}\b", marks):
        raise pytest.UsageError(
            f"-m {marks!r}: -m {MARK} stands alone, choose tests by -k or path"
        )
    return marks == MARK


def _fix_constants(constants) -> None:
    """Hypothesis also draws constants of the source code that this process has imported by then,
    so that examples would depend on which tests ran before. Draw these instead."""
    providers._get_local_constants = functools.cache(constants)


def no_constants() -> constants_ast.Constants:
    return providers._local_constants  # sorted sets, which stay empty


def constants_below(folder: Path) -> constants_ast.Constants:
    """The constants of all modules in a folder, imported or not."""
    constants = no_constants()
    for path in sorted(folder.rglob("*.py")):
        constants |= constants_ast._constants_from_source(path.read_bytes(), limit=True)
    return constants


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items):
    for item in items:
        if is_property(item):
            item.add_marker(MARK)


def is_property(item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def pytest_runtest_setup(item):
    """In a hunt, draw other examples for each test and each of its parameters."""
    if is_hunt(item.config) and is_property(item):
        function = getattr(item.obj, "__func__", item.obj)
        seed(f"{item.config.option.hypothesis_seed} {item.nodeid}")(function)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """The seed, though -q hides the header of pytest, and though the hunt may be killed."""
    _write_seed(session.config)


def pytest_terminal_summary(config):
    _write_seed(config)


def _write_seed(config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if is_hunt(config) and terminal is not None:
        terminal.write_line(
            f"hunting with {HUNT_FACTOR} times the examples:"
            f" pytest -m {MARK} --hypothesis-seed={config.option.hypothesis_seed} repeats it"
        )
