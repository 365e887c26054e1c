"""What a help text says of a default is the default: help must not load what it speaks of."""

import inspect
import re
from dataclasses import fields, is_dataclass

import pytest

from foltr.cli import report
from foltr.cli.audit import audit
from foltr.cli.privacy import privacy
from foltr.cli.run import field_options, run
from foltr.core.spec import brief
from foltr.experiment import Experiment
from foltr.privacy.guarantee import DELTA
from foltr.report.study import COLUMNS, PAIRS
from foltr.simulation.runs.execution import ENGINES

OPTIONS = {option.name: option for option in field_options()}


def default(field):
    """As one types it."""
    value = field.default
    if value == ():
        return "nobody"  # who leaves
    if value is None:
        return "none"
    return brief(value) if is_dataclass(value) else str(value)


@pytest.mark.parametrize("field", fields(Experiment), ids=lambda field: field.name)
def test_run_names_every_field_and_its_default(field):
    said = re.search(r"Default: (.*)$", OPTIONS[field.name].help)
    assert said and said[1].lower() == default(field).lower()
    assert f"--{field.name.replace('_', '-')}" in OPTIONS[field.name].opts
    assert OPTIONS[field.name].help.startswith(field.metadata["help"])


@pytest.mark.parametrize(
    ("name", "metavar"),
    [
        ("learner", "SPEC"), ("attack", "SPEC"), ("clients", "INT"), ("history", "INT"),
        ("dropout", "FLOAT"), ("roaming", "BOOL"), ("leaving", "TEXT"), ("evaluate_on", "TEXT"),
    ],
)  # fmt: skip
def test_run_says_what_one_types_for_a_field(name, metavar):
    assert OPTIONS[name].metavar == metavar


def test_other_defaults():
    assert report.COLUMNS == ",".join(COLUMNS) and report.PAIRS == ",".join(PAIRS)
    for command in (privacy, audit):
        assert inspect.signature(command).parameters["delta"].default == DELTA
    assert inspect.signature(run).parameters["engine"].default == ENGINES[0]
