"""Values typed on a command line: one way to read them, and every earlier reading stays."""

import ast
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foltr.cli.tools import typed_choices, typed_fields, typed_value
from foltr.core import Aggregator
from foltr.core.errors import Mistake
from foltr.core.spec import coerce, hints_of
from foltr.experiment import Experiment
from foltr.report.results import Recorded, Runs
from foltr.simulation.runs.columns import Metrics

UNREAD = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)
HINTS = (
    bool, int, float, str, Any, int | None, float | None, str | None, int | str,
    Literal["skip", "true", "010"], Literal["malicious"] | tuple[tuple[int, ...], ...],
    tuple[float, ...], Aggregator, Aggregator | None,
)  # fmt: skip


def read_by_run(text):
    """How `foltr run` read its options."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    if text in ("true", "false"):
        return text == "true"
    with suppress(*UNREAD):
        return ast.literal_eval(text) if text.startswith("[") else text
    return text


def read_by_set(text):
    """How --set and --where read theirs."""
    try:
        return ast.literal_eval(text)
    except UNREAD:
        return text


def accepted(value, hint):
    """Whether a field takes a value, and as what."""
    try:
        taken = coerce(value, hint, "field")
    except Mistake:
        return None
    return type(taken), repr(taken)


WORDS = st.sampled_from(
    ["true", "false", "True", "None", "none", "010", "0_1", "nan", "-inf", "1e5", "٣", " 7",
     "0x10", "[1, 2]", "[[3], [7]]", "(1,)", "1,2", "'a'", "{1}", "Mean()", "Mean", "skip",
     "malicious", "["]
)  # fmt: skip
TEXTS = WORDS | st.text() | st.integers().map(str) | st.floats().map(str)


@given(TEXTS)
@example("9" * 5000)
def test_no_earlier_reading_is_lost(text):
    for hint in HINTS:
        if (before := accepted(read_by_set(text), hint)) is not None:
            assert accepted(typed_value(text), hint) == before
    for hint in hints_of(Experiment).values():
        if (before := accepted(read_by_run(text), hint)) is not None:
            assert accepted(typed_value(text), hint) == before


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("true", bool, True), ("false", bool, False), ("True", bool, True), ("010", int, 10),
        ("0x10", int, 16), ("1e5", float, 1e5), ("5", float, 5.0), ("010", str, "010"),
        ("true", str, "true"), ("(1, 2)", tuple[int, ...], (1, 2)), ("none", int | None, None),
        ("[[3], [7]]", hints_of(Experiment)["leaving"], ((3,), (7,))), ("true", int | str, "true"),
    ],
)  # fmt: skip
def test_the_field_says_what_is_meant(text, hint, value):
    taken = coerce(typed_value(text), hint, "field")
    assert taken == value and type(taken) is type(value)


def test_a_field_and_its_value():
    given_words = ["rounds=10", " learner.sessions = 2", "data.path=a=b"]
    read = {"rounds": 10, "learner.sessions": 2, "data.path": "a=b"}
    assert typed_fields(given_words, "--set") == read and typed_fields(None, "--set") == {}
    for wrong in ("rounds", "=3", ""):
        with pytest.raises(Mistake, match="--set needs FIELD=VALUE"):
            typed_fields([wrong], "--set")


def test_runs_are_found_by_values_of_any_kind(tmp_path):
    def run(name, roaming, method):
        config = {"roaming": roaming, "clients": 10}
        return Recorded(tmp_path / name, config, {}, {}, Metrics(), method=method)

    runs = Runs((run("a", True, "true"), run("b", False, "010"), run("c", True, "x")))

    def names(word):
        return [run.name for run in runs.where(**typed_fields([word], "--where"))]

    assert names("roaming=true") == names("roaming=True") == ["a", "c"]
    assert names("method=true") == ["a"] and names("method=010") == ["b"]
    assert names("clients=10") == names("clients=010") == ["a", "b", "c"]


@given(
    st.dictionaries(
        st.sampled_from(["seed", "data.fold", "method", "ranker"]),
        st.lists(
            st.integers(0, 99) | st.text("ab ,|=()'\"", min_size=1, max_size=8),
            min_size=1,
            max_size=3,
        ),
        max_size=3,
    )
)
def test_any_choices_can_be_typed(choices):
    """As Python literals: text in quotes may hold any sign."""
    word = ", ".join(
        f"{name}={'|'.join(map(repr, values))}" for name, values in choices.items()
    ).replace("\\'", "\\x27")
    assert typed_choices([word] if choices else None, "--only") == choices
