"""The same examples every day, and a hunt that can be repeated by its seed: a small run of pytest
in a folder of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import property_settings

pytestmark = pytest.mark.slow  # each runs pytest several times
PROPERTIES = """
import os
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from property_settings import examples

def record(name, value):
    with open(os.environ["PYTEST_RECORD"], "a") as file:
        print(name, repr(value), file=file)

@examples(10)
@given(st.tuples(st.text(), st.text(), st.text(), st.integers(), st.binary()))
def test_values(values):
    record("values", values)

@pytest.mark.parametrize("parameter", ["one", "two"])
@examples(5)
@given(st.binary())
def test_parameters(parameter, value):
    record(parameter, value)

@examples(3)
@given(st.integers(0, 10**6))
def test_small(value):
    record("small", value)
    assert value < 500_000

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        record("machine", "")

    @rule(value=st.integers())
    def step(self, value):
        record("step", value)

TestMachine = Machine.TestCase
TestMachine.settings = settings(examples(3), stateful_step_count=5)

def test_no_property():
    record("no property", "")
"""
PLUGINS = "-p", "property_settings", "-p", "no:cacheprovider", "-p", "no:random_order"
CONSTANTS = ", ".join(f"'constant {i}', b'{i} '" for i in range(200))


@pytest.fixture
def run(tmp_path):
    """Run the properties in a new process: its exit code, its output, and what was drawn."""
    (tmp_path / "test_first.py").write_text("def test_imports_nothing(): pass\n")
    (tmp_path / "test_second.py").write_text(PROPERTIES)
    (tmp_path / "foltr").mkdir()
    (tmp_path / "foltr" / "__init__.py").write_text("")
    (tmp_path / "foltr" / "full_of_constants.py").write_text(f"CONSTANTS = [{CONSTANTS}]")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = fuzz\n")
    tests = Path(property_settings.__file__).parent

    def run(*arguments: str, hash_seed: int = 0) -> tuple[int, str, list[str]]:
        record = tmp_path / "record"
        record.write_text("")
        process = subprocess.run(
            [sys.executable, "-m", "pytest", *PLUGINS, *arguments],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")]),
                "PYTHONHASHSEED": str(hash_seed),
                "PYTEST_RECORD": str(record),
                "PYTEST_ADDOPTS": "",
            },
            capture_output=True,
            text=True,
        )
        return process.returncode, process.stdout + process.stderr, record.read_text().split("\n")

    return run


def values(drawn: list[str], name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in drawn if line.startswith(f"{name} ")]


def count(drawn: list[str], name: str) -> int:
    return len(values(drawn, name))


def test_every_day_the_same_examples_whatever_was_imported_before(run, tmp_path):
    code, output, drawn = run()
    assert code == 0 and "hunting" not in output, output
    assert 10 <= count(drawn, "values") < 20
    assert "constant" not in "".join(drawn)
    assert count(drawn, "machine") >= 3 and count(drawn, "no property") == 1
    (tmp_path / "test_first.py").write_text("import foltr.full_of_constants\n")
    _, _, drawn_later = run("-n", "1", hash_seed=1)
    assert drawn_later == drawn


def test_a_hunt_is_repeated_by_the_seed_that_it_prints(run, tmp_path):
    code, output, drawn = run("-m", "fuzz", "-q")
    seed = re.findall(r"pytest -m fuzz --hypothesis-seed=(\d+) repeats it", output)
    assert code == 1 and len(seed) == 2 and seed[0] == seed[1]  # at the beginning and the end
    assert count(drawn, "values") >= 200 and count(drawn, "machine") >= 60
    assert count(drawn, "no property") == 0 and "'constant" in "".join(drawn)
    assert "value=500000" in output.replace("_", "") and "@reproduce_failure(" in output
    assert values(drawn, "one") != values(drawn, "two")
    (tmp_path / "test_first.py").write_text("import foltr.full_of_constants\n")
    arguments = "-m", "fuzz", "-n", "1", f"--hypothesis-seed={seed[0]}"
    code, output, drawn_again = run(*arguments, hash_seed=1)
    assert code == 1 and f"--hypothesis-seed={seed[0]} repeats it" in output
    assert drawn_again == drawn
    _, _, with_another_seed = run("-m", "fuzz", "-k", "test_values")
    assert with_another_seed[50:100] != drawn[50:100]


def test_a_seed_without_a_hunt_is_refused(run):
    code, output, drawn = run("--hypothesis-seed=1")
    assert code == pytest.ExitCode.USAGE_ERROR and drawn == [""]
    assert "--hypothesis-seed is for hunting: add -m fuzz" in output


def test_a_hunt_among_other_marks_is_refused(run):
    code, output, drawn = run("-m", "fuzz and not slow")
    assert code == pytest.ExitCode.USAGE_ERROR and drawn == [""]
    assert "-m fuzz stands alone" in output


@given(st.none())
def test_a_property_test_has_the_mark(request, nothing):
    assert request.node.get_closest_marker("fuzz")
