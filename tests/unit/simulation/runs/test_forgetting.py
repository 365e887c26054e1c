"""What is left of clients who left: closed forms of the scale, by vectors whose luck is drawn, and
marks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core.cohorts import cosine
from foltr.core.seeds import stream
from foltr.core.world.population import iid
from foltr.experiment import Experiment
from foltr.simulation.runs.forgetting import LeavingDocuments, Trace, compared, mean_product
from foltr.simulation.runs.run import Run


def lucky(seed, *address, d=400, around=0.0):
    return around + stream(seed, *address).normals(d)


def test_a_scale_by_hand():
    """r = (0, 0), (2, 0), (1, 3); before (5, 5)."""
    r = [np.array(each, float) for each in ((0, 0), (2, 0), (1, 3))]
    b = np.array([5.0, 5.0])
    # <b - r_i, b - r_j>: (5,5)(3,5) = 40, (5,5)(4,2) = 30, (3,5)(4,2) = 22
    assert mean_product(b, b, r) == pytest.approx((40 + 30 + 22) / 3)
    trace = Trace.of(b, np.array([1.0, 1.0]), r)
    # u = (1, 1): (1,1)(3,5) = 8, (1,1)(4,2) = 6; (-1,1)(5,5) = 0, (-1,1)(4,2) = -2; (0,-2)(5,5) =
    # (0,-2)(3,5) = -10
    assert trace.left == pytest.approx((8 + 6 + 0 - 2 - 10 - 10) / 6 / (92 / 3))
    # luck: squared distances 4, 10, 10, halved
    assert trace.visible == pytest.approx(1 - 4 / (92 / 3))
    # where r_1 stands by the two others: (-2,0)(4,2) = -8, (-1,-3)(3,5) = -18, halved
    assert trace.retrained[0] == pytest.approx(-13 / (92 / 3))


@given(st.integers(0, 1000), st.integers(3, 5))
def test_before_stands_at_one(seed, k):
    b = lucky(seed, "b", d=20, around=5.0)
    trace = Trace.of(b, b, [lucky(seed, "r", i, d=20) for i in range(k)])
    assert trace.left == pytest.approx(1.0)


@given(st.integers(0, 1000), st.floats(-1.0, 2.0))
def test_it_is_linear_in_what_is_left(seed, share):
    """A ranker that goes the same part of the way from every retrained one to the one before
    stands there."""
    b, r = lucky(seed, "b", d=20, around=5.0), [lucky(seed, "r", i, d=20) for i in range(3)]
    one, other = lucky(seed, "u", d=20), lucky(seed, "v", d=20)
    between = Trace.of(b, (1 - share) * one + share * other, r).left
    assert between == pytest.approx(
        (1 - share) * Trace.of(b, one, r).left + share * Trace.of(b, other, r).left
    )


def test_one_more_retraining_stands_at_zero_on_average_and_not_at_a_half():
    """Where clients leave no trace all distances are luck; with the same retraining in both
    factors it would be 1/2."""
    stands, halves = [], []
    for seed in range(200):
        b, u, *r = (lucky(seed, name) for name in ("b", "u", "r", "s", "t"))
        stands.append(mean_product(u, b, r) / mean_product(b, b, r))
        halves.append(((u - r[0]) * (b - r[0])).sum() / np.square(b - r[0]).sum())
    # six standard errors: over seeds they are .005 and .003
    assert abs(np.mean(stands)) < 0.035 and np.mean(halves) == pytest.approx(0.5, abs=0.02)


def test_clients_without_a_trace_are_not_judged():
    seen = []
    for seed in range(40):  # over seeds .04 with an sd of .06, and half of them 0
        b, u, *r = (lucky(seed, name) for name in ("b", "u", "r", "s", "t"))
        seen.append(Trace.of(b, u, r).visible)
    assert np.mean(seen) < 0.1 and seen.count(0.0) > 3
    apart = Trace.of(r[0], u, r)  # before is one of them
    assert apart.left is None and apart.visible == 0.0 and apart.retrained == ()


def test_a_cosine():
    assert cosine(np.array([1.0, 0.0]), np.array([3.0, 4.0])) == pytest.approx(0.6)
    assert cosine(np.zeros(2), np.ones(2)) is None


def marked(**more):
    return Experiment(
        data="Marked(data=Synthetic(queries=60), users=5)",
        partition="ByUser()",
        clients=5,
        rounds=60,
        history=5,
        learner="PDGD(sessions=4)",
        **more,
    )


def theirs(e, leaving):
    population = Run(e, None).context.population
    return LeavingDocuments.of(population, np.array(leaving), np.setdiff1d(np.arange(5), leaving))


def test_features_of_theirs_alone():
    e = marked()
    width = e.data.load("train").width
    for leaving in ([2], [0, 4]):
        assert np.flatnonzero(theirs(e, leaving).own).tolist() == [
            width - 5 + client for client in leaving
        ]
    assert not theirs(replace(e, partition="IID()"), [2]).own.any()


def test_a_mark_is_what_their_features_add():
    """Two blocks of two documents; feature 1 is theirs. Scores (1 + 2 w, 0), (0, 3): with w = 1
    the mark raises one score by 2; within blocks scores deviate by 1.5, so that is 4/3 of their
    standard deviation."""
    docs = np.array([[1, 2], [0, 0], [0, 0], [3, 0]], np.float32)
    here = LeavingDocuments(docs, np.array([0, 2, 4]), np.array([False, True]))
    assert here.mark(Linear(), np.array([1.0, 1.0])) == pytest.approx(4 / 3)
    assert here.mark(Linear(), np.array([1.0, 0.0])) == 0.0
    assert here.mark(Linear(), np.array([0.0, 0.0])) == 0.0
    assert (
        LeavingDocuments(docs, np.array([0, 2, 4]), np.array([False, False])).mark(
            Linear(), np.ones(2)
        )
        is None
    )


def test_opinions_count_what_changes_a_ranking():
    docs = np.array([[1, 5], [3, 5], [4, 5], [7, 7]], np.float32)
    here = LeavingDocuments(docs, np.array([0, 2, 3, 4]), np.zeros(2, bool))
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        here.centred_scores(Linear(), np.array([2.0, 9.0])), [-half, half, 0, 0], atol=1e-6
    )
    # rounding is no opinion
    np.testing.assert_allclose(here.centred_scores(Linear(), np.array([0.0, 0.1])), 0.0, atol=0)


def test_documents_that_all_clients_hold_are_looked_at_once():
    data = Experiment(data="Synthetic(queries=20)").data.load("train")
    here = LeavingDocuments.of(iid(data, Cascade(), 4, 1), np.array([0, 2]), np.array([1, 3]))
    assert len(here.docs) == data.documents and not here.own.any()


METHODS = {"FedEraser(sessions=2)": 0.0, "Retrain(luck=9)": 0.0, "FineTune(rounds=20)": 1.0}


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=8)"])
def test_the_check_distinguishes_forgetting_from_not_forgetting(ranker, tmp_path):
    """Nobody is poisoned. Who starts again has forgotten client 2's mark; fine-tuning by others
    cannot touch it."""
    e = marked(ranker=ranker)
    before = e.run(tmp_path)
    again = [
        replace(e, unlearning=f"Retrain(luck={i})", leaving=((2,),)).run(tmp_path)
        for i in range(3)
    ]
    for method, left in METHODS.items():
        run = Run(replace(e, unlearning=method, leaving=((2,),)), tmp_path)
        told = compared(run.context, before, run.result(), again)
        mark, own = told["mark"], told["own_ndcg@10"]
        assert mark["before"] > 0.5 and own["before"] > max(
            own[f"retrained {i}"] for i in (1, 2, 3)
        )
        if ranker == "Linear()":
            assert [mark[f"retrained {i}"] for i in (1, 2, 3)] == [0.0, 0.0, 0.0]  # exactly
            assert left or mark["after"] == 0.0
        assert mark["after"] == pytest.approx(left * mark["before"], abs=0.25 * mark["before"])
        assert told["influence"]["left"] == pytest.approx(left, abs=0.35)
        assert told["influence"]["visible"] > 0.5
        assert told["distance"]["retrained 1"] == 0.0 and told["cosine"][
            "retrained 1"
        ] == pytest.approx(1.0)


def test_two_retrainings_do_not_show_how_far_luck_goes():
    e = marked()
    again = [replace(e, unlearning=f"Retrain(luck={i})", leaving=((2,),)).run() for i in range(2)]
    assert "influence" not in compared(
        Run(again[0].experiment, None).context, e.run(), again[0], again
    )
