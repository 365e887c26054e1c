"""What a help text says of a default is the default: help must not load what it speaks of."""

import inspect
import re
from dataclasses import fields, is_dataclass

import pytest

from foltr.cli import report, run
from foltr.cli.audit import audit
from foltr.cli.privacy import privacy
from foltr.core.spec import brief
from foltr.experiment import Experiment
from foltr.privacy.guarantee import DELTA
from foltr.report.study import COLUMNS, PAIRS
from foltr.simulation.runs.execution import ENGINES

PARAMETERS = inspect.signature(run.run, eval_str=True).parameters


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
    (option,) = PARAMETERS[field.name].annotation.__metadata__
    said = re.search(r"Default: (.*)$", option.help)
    assert said and said[1].lower() == default(field).lower()


def test_other_defaults():
    assert report.COLUMNS == ",".join(COLUMNS) and report.PAIRS == ",".join(PAIRS)
    for command in (privacy, audit):
        assert inspect.signature(command).parameters["delta"].default == DELTA
    assert PARAMETERS["engine"].default == ENGINES[0]
