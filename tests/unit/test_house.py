"""The rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foltr import spec

SOURCE = Path(__file__).resolve().parents[2] / "src" / "foltr"
FILES = sorted(SOURCE.rglob("*.py"))
FAMILIES = {registry.folder for registry in spec.FAMILIES} - {
    "data"
}  # which reads files: by kernels, and by their age


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_families_know_only_what_lies_below_them(file):
    family = file.relative_to(SOURCE).parts[0]
    names = {name.split(".")[1] for name in imported(file) if name.startswith("foltr.")}
    if family in FAMILIES:
        assert not names & (FAMILIES - {family})
        above = {"engines", "experiment", "running", "kernels", "simulation", "federation", "cli"}
        assert not names & (
            above - {"simulation"} if family == "partitions" else above
        )  # they make its tables
    if file.name == "core.py":
        assert names <= {"errors", "seeds", "privacy"}  # the latter two for annotations only


def test_compiled_code_depends_only_on_what_its_cache_is_named_by():
    from foltr.kernels import CONSTANTS

    for file in (SOURCE / "kernels").glob("*.py"):
        names = {name.split(".")[1] for name in imported(file) if name.startswith("foltr.")}
        if file.name not in ("__init__.py", "twins.py"):  # these two compile nothing
            assert names <= {"kernels", *(name.removesuffix(".py") for name in CONSTANTS)}, file


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_nothing_banned(file):
    text = file.read_text()
    assert not re.search(r"\bnp\.random\.|^\s*import random\b|\bhasattr\(", text, re.MULTILINE)
    if file.relative_to(SOURCE).parts[0] in {
        *FAMILIES,
        "kernels",
        "engines",
        "federation.py",
        "simulation.py",
    }:
        assert not re.search(r"\bimport (time|datetime)\b", text)  # results know no clock
    assert len(text.splitlines()) <= 300


BELOW_REPORTS = {
    "core",
    "errors",
    "files",
    "metrics",
    "record",
    "report",
    "results",
    "seeds",
    "spec",
    "tidy",
    "vectors",
}


@pytest.mark.parametrize("file", sorted((SOURCE / "report").glob("*.py")), ids=lambda f: f.name)
def test_reports_know_results_and_nothing_that_makes_them(file):
    names = {name.split(".")[1] for name in imported(file) if name.startswith("foltr.")}
    assert names <= BELOW_REPORTS, names - BELOW_REPORTS


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_only_the_command_line_knows_typer_and_no_family_knows_reports(file):
    inside = file.parent.name == "cli"
    assert inside or "typer" not in imported(file)
    if not inside and file.name != "__main__.py":
        assert not any(name.startswith("foltr.cli") for name in imported(file))
    if file.relative_to(SOURCE).parts[0] in {*FAMILIES, "data", "engines", "kernels"}:
        assert not {"foltr.results", "foltr.report"} & set(imported(file))


def test_an_engine_is_what_knows_kernels():
    """`import foltr` and every component load neither numba nor scipy."""
    code = (
        "import sys, foltr\nfrom foltr.spec import FAMILIES\n[family.members() for family in"
        " FAMILIES]\nimport foltr.experiment\nheavy = ('numba', 'scipy', 'sklearn',"
        " 'cryptography', 'dp_accounting', 'lightgbm')\nprint([m for m in heavy if m in"
        " sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
