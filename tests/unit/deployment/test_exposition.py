"""Metrics in the text format of Prometheus, read back by Prometheus's own parser."""

import math

import prometheus_client.parser as parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.deployment.metrics import Histogram, counter, counters, exposition, gauge, gauges


def parsed(*families):
    """Family -> its kind, and (name, labels, value) of its samples."""
    found = parser.text_string_to_metric_families(exposition(families))
    return {
        f.name: (f.type, f.documentation, [(s.name, s.labels, s.value) for s in f.samples])
        for f in found
    }


def test_metrics_written_by_hand():
    text = exposition(
        [counter("a_total", "Things.", 3), gauges("b", "Two.", "kind", {"x": 1.5, "w": 2})]
    )
    assert text == (
        "# HELP a_total Things.\n# TYPE a_total counter\na_total 3.0\n"
        '# HELP b Two.\n# TYPE b gauge\nb{kind="w"} 2.0\nb{kind="x"} 1.5\n'
    )


def test_metrics_without_samples_are_left_out():
    assert exposition([gauges("b", "Two.", "kind", {})]) == ""


@given(st.text(), st.floats())
def test_any_text_and_number_come_back(label, value):
    (found,) = parsed(counters("a_total", "Things.", "l", {label: value})).values()
    kind, _, ((name, labels, got),) = found
    assert (kind, name, list(labels)) == ("counter", "a_total", ["l"])
    assert got == value or (math.isnan(got) and math.isnan(value))
    assert labels["l"] == label.encode("utf-8", "backslashreplace").decode()


HOSTILE = 'a\n# TYPE evil counter\nevil 1\n"} 2\\'


def test_hostile_text_makes_no_line():
    told = parsed(gauges("a", HOSTILE, "l", {HOSTILE: 1.0}))
    assert told == {"a": ("gauge", HOSTILE, [("a", {"l": HOSTILE}, 1.0)])}
    assert "a" in parsed(gauge("a", "", math.inf))


@given(st.lists(st.floats(0.0, 5_000.0), max_size=30))
def test_a_histogram_counts(values):
    made = Histogram((0.5, 1.0, 60.0))
    for value in values:
        made.observe(value)
    kind, _, samples = parsed(made.family("t_seconds", "Time."))["t_seconds"]
    found = {(name, labels.get("le")): value for name, labels, value in samples}
    assert kind == "histogram"
    for bound in (0.5, 1.0, 60.0):
        many = sum(value <= bound for value in values)
        assert found["t_seconds_bucket", f"{bound:g}" if bound != 0.5 else "0.5"] == many
    assert found["t_seconds_bucket", "+Inf"] == found["t_seconds_count", None] == len(values)
    assert found["t_seconds_sum", None] == pytest.approx(sum(values))


def test_a_histogram_ignores_nan_and_infinity():
    made = Histogram()
    made.observe(math.nan)
    made.observe(math.inf)
    assert parsed(made.family("t", ""))["t"][2][-1][2] == 0
