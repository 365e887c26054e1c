"""What is declared and what is packed: lower bounds that can be tested, no folder by chance."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())


in_a_checkout = pytest.mark.skipif(
    not (ROOT / ".ci").exists(), reason="not in a checkout: .ci is missing"
)


def oldest_versions():
    spec = importlib.util.spec_from_file_location("oldest", ROOT / ".ci" / "oldest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@in_a_checkout
def test_every_dependency_has_a_lower_bound_that_the_script_finds():
    project = DECLARED["project"]
    found = oldest_versions().oldest(project)
    assert {"numpy", "scipy", "numba", "typer", "rich", "platformdirs"} <= set(found)
    assert "flwr" not in found  # its pins differ
    needed = oldest_versions().needed_by_tests(project)
    assert any(each.startswith("pytest>=") for each in needed) and "deploy" not in " ".join(needed)
    assert all(version[0].isdigit() for version in found.values())


@in_a_checkout
def test_a_dependency_without_a_lower_bound_is_refused():
    project = {"name": "x", "dependencies": ["numpy"], "optional-dependencies": {}}
    with pytest.raises(SystemExit, match="numpy"):
        oldest_versions().oldest(project)


@in_a_checkout
def test_the_highest_of_several_lower_bounds_counts():
    extras = {"a": ["y>=1.9", "z[q]>=2,<3"], "b": ["y>=1.10"], "deploy": ["w==1.*"]}
    project = {"name": "x", "dependencies": [], "optional-dependencies": extras}
    assert oldest_versions().oldest(project) == {"y": "1.10", "z": "2"}


def test_a_source_distribution_takes_folders_at_the_top_only():
    """A pattern without a slash at its start matches at any depth: `tests` would let in
    .venv/lib/python3.11/site-packages/numpy/tests."""
    packed = DECLARED["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert all(pattern.startswith("/") for pattern in packed["include"])
    assert all((ROOT / pattern[1:]).exists() for pattern in packed["include"])
    assert {"site-packages", "pyvenv.cfg"} <= set(packed["exclude"])
