"""What every measure must be true of. A new file is tested here without being mentioned."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from plain_things import each

from foltr.core import Cohort, Observed
from foltr.core.seeds import stream
from foltr.core.spec import measures
from foltr.core.world.measures import Lists, Round
from foltr.simulation.runs.columns import PLACES, TAKEN, usual_columns

each_one = each(measures)
each_offline = each(measures, lambda thing: thing.kind == "offline")
each_online = each(measures, lambda thing: thing.kind == "online")
each_run = each(measures, lambda thing: thing.kind == "run")
CLICKS = ((1.0, np.tile([0.1, 0.5, 0.9], (10, 1))),)


def lists(*rows, depth=None):
    """Queries whose documents have these labels, in the order of a ranking."""
    longest = max(map(len, rows))
    grades = np.array([[*row, *[-1] * (longest - len(row))] for row in rows])
    best = np.array([[*sorted(row, reverse=True), *[-1] * (longest - len(row))] for row in rows])
    return Lists(grades[:, :depth], best, 2, CLICKS)


MANY = lists((2, 0, 1), (0, 0, 1, 2, 0, 1), (1,), (0, 0), tuple([0] * 12 + [1] + [0] * 7))


def a_round(n=4, d=5, directions=None):
    if directions is None:
        directions = stream(1, "round", n, d).normals(n * d).reshape(n, d).astype(np.float32)
    seen = Observed(np.linspace(0.2, 0.8, n), np.full(n, 0.5))
    sent = Cohort(np.arange(n), directions.astype(np.float32), np.ones(n))
    return Round(3, np.zeros(d, np.float32), sent, directions, seen)


@each_one
def test_a_measure_says_what_it_is(thing):
    assert thing.kind in ("offline", "online", "run")
    assert thing.curve in ("points", "smoothed", "summed")
    assert type(thing.higher_is_better) is bool
    assert re.fullmatch(r"[^\W_][\w@=.+-]*", thing.name), thing.name
    assert thing.label and thing.label == thing.label.strip() and "\n" not in thing.label
    assert thing.name not in TAKEN and not thing.name.startswith(tuple(PLACES))
    usual = usual_columns().get(thing.name)
    assert usual is None or usual.measure == thing


@each_offline
def test_a_measure_has_one_number_for_each_query(thing):
    for depth in (None, thing.depth):
        values = np.asarray(thing.of_lists(replace(MANY, grades=MANY.grades[:, :depth])))
        assert values.shape == (5,) and not np.isinf(values.astype(float)).any()
        undefined = np.isnan(values)
        assert not undefined[[0, 1]].any()
        # the fourth query has no relevant document
        assert undefined[3] == (thing.relevant_from is not None)


@each_offline
def test_a_measure_looks_no_deeper_than_it_says(thing):
    other = MANY.grades.copy()
    if thing.depth is None:  # it looks at whole lists: a better last document changes it
        other[0, -1] = 2
        assert thing.of_lists(MANY)[0] != thing.of_lists(replace(MANY, grades=other))[0]
        return
    other[:, thing.depth :] = np.where(other[:, thing.depth :] >= 0, 2, -1)
    np.testing.assert_array_equal(
        thing.of_lists(MANY), thing.of_lists(replace(MANY, grades=other))
    )


@each_offline
def test_a_better_list_is_measured_as_better(thing):
    good, bad = lists((2, 1, 0, 0)), lists((0, 0, 1, 2))
    difference = thing.of_lists(good)[0] - thing.of_lists(bad)[0]
    assert difference >= 0.0 if thing.higher_is_better else difference <= 0.0


@each_offline
def test_queries_are_measured_one_by_one(thing):
    """The other queries of a data set do not matter, and nothing is written."""
    for array in (MANY.grades, MANY.best):
        array.setflags(write=False)
    together = thing.of_lists(MANY)
    for q in range(5):
        alone = replace(MANY, grades=MANY.grades[q : q + 1], best=MANY.best[q : q + 1])
        np.testing.assert_array_equal(thing.of_lists(alone), together[q : q + 1])


@each_online
def test_a_measure_of_a_round_is_one_number(thing):
    assert thing.curve in ("smoothed", "summed")
    value = thing.of_round(a_round())
    assert isinstance(value, float) and np.isfinite(value)
    nothing = Round(3, np.zeros(5, np.float32), Cohort.empty(5), np.empty((0, 5)), None)
    assert isinstance(thing.of_round(nothing), float)


@each_run
def test_a_measure_of_a_run_is_one_number_or_none(thing):
    run = SimpleNamespace(
        final={"ndcg@10": 0.5, "online": 3.0, "rounds": 3},
        curve=lambda name: (np.array([1, 2, 3]), np.array([0.1, 0.8, 0.9])),
    )
    value = thing.of_run(run)
    assert value is None or np.isfinite(value)
    curve = thing.curve_of(run)
    assert curve is None or len(curve[0]) == len(curve[1])
