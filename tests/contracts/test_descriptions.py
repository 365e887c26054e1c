"""Whatever a user gives or writes is described: every field of every component and of an
experiment, and every member of the protocols and of their base classes. Formulas and tables fit a
terminal of 80 columns."""

import importlib.util
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.cli.components import around_fields, described
from foltr.components.users.cascade import TABLES, Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core import kinds
from foltr.core import types as core
from foltr.core.spec import FAMILIES
from foltr.core.world import measures, protocols
from foltr.experiment import Experiment

OURS = {
    name: (family.folder, cls)
    for family in FAMILIES
    for name, cls in family.members().items()
    if cls.__module__.startswith("foltr.")
}
# families whose components are a formula; of the others, some have one
COMPUTE = {"rankers", "learners", "attacks", "aggregators", "optimizers", "privatizers"}
WIDTH = 80


def reference():
    file = Path(__file__).resolve().parents[2] / "docs" / "reference.py"
    found = importlib.util.spec_from_file_location("reference_of_docs", file)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


REFERENCE = reference()
WRITTEN = [
    cls
    for module in (core, protocols, kinds, measures)
    for name, cls in vars(module).items()
    if isinstance(cls, type) and cls.__module__ == module.__name__ and name[0] != "_"
]


@pytest.mark.parametrize("name", [*OURS, "Experiment"])
def test_every_field_has_a_description(name):
    cls = Experiment if name == "Experiment" else OURS[name][1]
    told = dict(described(cls))
    assert len(told) == len(fields(cls)) and all(told.values()), told
    shown = CliRunner().invoke(app, ["show", name], env={"COLUMNS": str(WIDTH)}).stdout
    assert all(f"    {field.name}:" in shown for field in fields(cls))
    assert max(map(len, shown.splitlines())) <= WIDTH


@pytest.mark.parametrize("cls", WRITTEN, ids=lambda cls: cls.__name__)
def test_every_member_that_a_user_writes_has_a_description(cls):
    """As the reference shows it: by its docstring, a comment beside it, or the protocol."""
    page = "\n".join(REFERENCE._class(cls, cls.__name__)).replace("To be written. ", "")
    assert inspect.getdoc(cls) and not re.findall(r"^\| `.*` \|\s+\|$", page, re.M)


@pytest.mark.parametrize("name", [n for n, (f, _) in OURS.items() if f in COMPUTE])
def test_every_component_that_computes_has_its_formula(name):
    before, _ = around_fields(OURS[name][1])
    first, *rest = before.splitlines()
    assert "=" in first or any(line.startswith("    ") for line in rest)


def numbers(line):
    return [float(word) for word in re.findall(r"(?<![\w.])\d*\.?\d+(?!\w)", line)]


def test_cascade_shows_its_tables():
    lines = [line for line in around_fields(Cascade)[0].splitlines() if line.startswith("    ")]
    heads = [i for i, line in enumerate(lines) if "P(" in line]
    for which, at in enumerate(heads):  # clicks, then stops
        for line in lines[at + 1 : at + 1 + len(TABLES)]:
            kind, *_ = line.split()
            expected = [p for grades in (2, 3, 5) for p in TABLES[kind][grades][which]]
            assert numbers(line) == expected, line
    assert len(heads) == 2 and len(lines) == 2 * (1 + len(TABLES))


def test_position_based_shows_its_probabilities():
    lines = around_fields(PositionBased)[0].splitlines()
    (perfect,) = [line for line in lines if line.startswith("    ") and ".5    1  |" in line]
    assert numbers(perfect) == [p for grades in (2, 3, 5) for p in TABLES["perfect"][grades][0]]
    rows = [line for line in lines if line.startswith("    eta")]
    assert len(rows) == 4
    for line in rows:
        eta, *factors = numbers(line)
        click, stop = PositionBased(eta).tables(2, 10)
        assert factors == pytest.approx(click[:, 1], abs=0.00051) and not stop.any()
