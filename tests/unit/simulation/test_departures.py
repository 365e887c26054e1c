"""Who may leave, and by which method: what cannot be is refused before anything runs, with the way
out."""

from dataclasses import replace

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.experiment import Experiment

SMALL = {
    "data": "Synthetic(queries=30)",
    "clients": 6,
    "rounds": 10,
    "learner": "PDGD(sessions=4)",
    "history": 2,
}
LEAVING = {**SMALL, "unlearning": "FedEraser()", "leaving": ((1,),)}


def test_the_last_group_leaves_the_run_before_it():
    e = Experiment(**{**LEAVING, "leaving": ((1, 4), (0,))})
    assert e.departures.groups == ((1, 4), (0,))
    assert e.departures.left.tolist() == [0, 1, 4] and e.departures.remaining.tolist() == [2, 3, 5]
    assert e.base == Experiment(**{**LEAVING, "leaving": ((1, 4),)})
    assert e.base.base == Experiment(**SMALL)


def test_the_malicious_ones_leave_together():
    bad = {"attack": "CompromisedModel()", "malicious": 2}
    for seed in (1, 2, 3):
        e = Experiment(**{**LEAVING, **bad, "leaving": "malicious", "seed": seed})
        assert e.departures.groups == (tuple(stream(seed, "malicious").sample(6, 2).tolist()),)
        assert e.base == Experiment(**SMALL, **bad, seed=seed)


def test_a_config_names_who_leaves_and_is_silent_where_nobody_does():
    assert Experiment(**LEAVING).config()["leaving"] == [[1]]
    assert not {"leaving", "unlearning"} & set(Experiment(**SMALL).config())


@pytest.mark.parametrize(
    ("leaving", "message"),
    [
        ((), "say which clients leave"),
        (((),), "say which clients leave"),
        (((6,),), r"there is no client 6: they are 0 \.\. 5"),
        (((-1,),), "there is no client -1"),
        (((1, 1),), "client 1 leaves twice"),
        (((1,), (1,)), "client 1 leaves twice"),
        (((3, 1),), "ascending order"),
        (((0, 1, 2), (3, 4, 5)), "all 6 clients leave"),
        ((3,), "expected a tuple, got 3"),
        ("everybody", "leaving"),
        ("malicious", "needs an attack"),
    ],
)
def test_who_cannot_leave(leaving, message):
    with pytest.raises(Mistake, match=message):
        Experiment(**{**LEAVING, "leaving": leaving})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unlearning": None}, "needs an unlearner"),
        ({"history": None}, r"stores no history: set history=10 .*Retrain"),
        ({"unlearning": "FedEraser(sessions=5)"}, r"more than training's 4"),
        ({"privacy": "GammaShares(epsilon=1.0, sensitivity=1.0)"}, "only the sum of a round"),
        ({"learner": "ES()", "optimizer": "Adam(lr=0.001)"}, "rewards"),
        (
            {"unlearning": "FedRemove()", "optimizer": "Adam(lr=0.1)"},
            "subtracts single contributions",
        ),
        (
            {"unlearning": "FedRemove()", "dropout": 0.2},
            r"this run has Mean\(\), SGD\(lr=1.0\), lost messages: use",
        ),
        ({"unlearning": "GradientAscent()", "channel": "SecureSum(threshold=0.5)"}, "SecureSum"),
        (
            {"unlearning": "Retrain()", "baseline": "LeastSquares()", "history": None},
            "leave out unlearning",
        ),
        (
            {
                "attack": "CompromisedModel()",
                "malicious": 2,
                "roaming": True,
                "leaving": "malicious",
            },
            "not roaming",
        ),
    ],
)
def test_what_does_not_go_together(fields, message):
    with pytest.raises(Mistake, match=message):
        Experiment(**{**LEAVING, **fields})


def test_without_a_history_some_can_be_unlearned_all_the_same():
    for method in ("Retrain()", "FineTune(rounds=3)"):
        Experiment(**{**LEAVING, "unlearning": method, "history": None})
    rewards = {
        "learner": "ES()",
        "optimizer": "Adam(lr=0.001)",
        "history": None,
        "unlearning": "Retrain()",
    }
    assert Experiment(**{**LEAVING, **rewards}).run().final["rounds"] == 10


def test_as_many_sessions_as_in_training_are_remarked():
    notes = Experiment(**{**LEAVING, "unlearning": "FedEraser(sessions=4)"}).run().final["notes"]
    assert any("as many sessions per round as training" in note for note in notes)
    assert not Experiment(**LEAVING).run().final["notes"]


def test_rules_are_asked_about_those_who_remain():
    """Krum with one malicious client of four: three would leave it nothing to choose from."""
    krum = {**LEAVING, "clients": 4, "aggregator": "Krum(malicious=1)"}
    Experiment(**{**krum, "leaving": (), "unlearning": None})
    with pytest.raises(Mistake, match="Krum"):
        Experiment(**krum)


def test_devices_that_keep_something_can_only_start_again():
    per = {**LEAVING, "learner": "FedPer(learner=PDGD(sessions=4))", "ranker": "MLP(hidden=4)"}
    for method in ("FedEraser(sessions=2)", "Retrain()"):
        assert Experiment(**{**per, "unlearning": method}).run().final["rounds"] > 0
    with pytest.raises(Mistake, match="what FedPer keeps on devices is not stored in the run"):
        Experiment(**{**per, "unlearning": "FineTune()"})


def test_a_client_that_was_never_asked(tmp_path):
    """One of fifty clients in each of ten rounds: most never take part."""
    few = Experiment(**{**LEAVING, "clients": 50, "participation": 0.02})
    asked = {int(stream(1, "participation", t).sample(50, 1)[0]) for t in range(10)}
    absent = min(set(range(50)) - asked)
    with pytest.raises(Mistake, match=f"client {absent} never took part"):
        replace(few, leaving=((absent,),)).run(tmp_path)
    assert not list(tmp_path.iterdir())  # not even the run that it would have left
    there = replace(few, leaving=((min(asked),),)).run(tmp_path)
    assert np.isfinite(there.params).all()


def test_a_client_whose_rounds_were_not_stored(tmp_path):
    e = Experiment(
        **{
            **LEAVING,
            "clients": 50,
            "participation": 0.02,
            "history": 5,
            "unlearning": "FedRemove()",
        }
    )
    stored = {int(stream(1, "participation", t).sample(50, 1)[0]) for t in (0, 5)}
    asked = {int(stream(1, "participation", t).sample(50, 1)[0]) for t in range(10)}
    with pytest.raises(Mistake, match="took part in no round that was stored"):
        replace(e, leaving=((min(asked - stored),),)).run(tmp_path)
