"""The whole audit, on small synthetic data."""

import json
from dataclasses import replace

import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.spec import learners
from foltr.experiment import Experiment
from foltr.simulation.audits.audit import Effort, audit
from foltr.simulation.audits.text import lines

SMALL = {"data": "Synthetic(queries=60)", "clients": 20, "rounds": 5, "evaluate_every": 5}
QUICK = Effort(queries=12, games=400, trials=100)


def audited(**fields):
    e = Experiment(**{**SMALL, **fields})
    return audit(e, e.run().params, None, QUICK)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"privacy": "Laplace(epsilon=1.2, clip=0.5)"},
        {"privacy": "Gaussian(noise=1.0, clip=0.5, where='server')", "ranker": "MLP(hidden=2)"},
        {
            "privacy": "GammaShares(epsilon=1.2, sensitivity=3.0)",
            "channel": "SecureSum()",
            "dropout": 0.1,
        },
        {"privacy": "RandomizedReward(p=0.5)", "learner": "ES()", "optimizer": "Adam(lr=0.001)"},
        {"learner": "ES(objective='ctr', antithetic=False)", "users": "PositionBased()"},
    ],
    ids=str,
)
def test_every_kind_of_experiment_is_audited_and_described(fields):
    found = audited(**fields)
    assert not found.broken and found.labels and found.games
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert (
        plain["ledger"]["mechanism"].split("(")[0]
        == str(fields.get("privacy", "none")).split("(")[0]
    )
    text = "\n".join(lines(found))
    assert "which documents were clicked?" in text and "guarantee" in text
    assert ("Membership inference" in text) == ("ES" not in fields.get("learner", ""))
    if "channel" in fields:
        assert (
            found.view.kind == "sum"
            and found.view.arriving == 14
            and "what this server sees" in text
        )
        assert str(found.view) in plain["promises"]


def test_what_is_not_audited_is_said():
    assert audited().left_out == [] and "left out" not in "\n".join(lines(audited()))
    found = audited(
        partition="ByLabel(labels=1)", clients=12, attack="LittleIsEnough()", malicious=2
    )
    assert found.left_out == ["ByLabel()", "LittleIsEnough()"] == found.plain()["left_out"]
    assert "honest and alike. Left out: ByLabel(), LittleIsEnough()." in "\n".join(lines(found))


def test_the_same_audit_gives_the_same_numbers():
    one, two = (
        audited(privacy="Laplace(epsilon=2.0, clip=0.5)"),
        audited(privacy="Laplace(epsilon=2.0, clip=0.5)"),
    )
    assert one.plain() == two.plain()


def test_other_users_may_click():
    e = Experiment(**SMALL)
    noisy = Experiment(**SMALL, users="Cascade(kind='informational')").users
    found = audit(e, e.run().params, noisy, QUICK)
    assert found.users == noisy and found.clicked >= 11  # nearly everybody clicks


def test_a_broken_guarantee_is_reported_and_counts(monkeypatch):
    """Laplace noise for epsilon 4 that says of itself that it is for 0.2."""
    from foltr.components.privatizers.laplace import Laplace
    from foltr.core.events import LaplaceNoise

    boast = (LaplaceNoise(scale=5.0, l1=1.0, d=1, seen="message"),)
    monkeypatch.setattr(Laplace, "events", lambda self, setting: boast)
    found = audited(privacy="Laplace(epsilon=4.0, clip=0.5)")
    assert found.broken and found.plain()["broken"]
    assert "BROKEN" in "\n".join(lines(found)) and "FAILED" in "\n".join(lines(found))


def test_what_cannot_be_audited_is_refused(tmp_path):
    e = Experiment(**SMALL, baseline="LeastSquares()")
    with pytest.raises(Mistake, match="nothing to attack"):
        audit(e, np.zeros(46))
    e = Experiment(**SMALL)
    with pytest.raises(Mistake, match="3 weights"):
        audit(e, np.zeros(3))
    with pytest.raises(Mistake, match="nobody clicked"):
        audit(
            replace(e, users="Cascade(kind='custom', click=(0,0,0), stop=(0,0,0))"),
            np.zeros(46),
            None,
            QUICK,
        )
    (tmp_path / "mine.py").write_text(LEARNER)
    foltr.use(tmp_path / "mine.py")
    try:
        with pytest.raises(Mistake, match="does not know those of Quiet"):
            audit(Experiment(**SMALL, learner="Quiet()"), np.zeros(46))
    finally:
        # others look at all that is registered
        learners.forget(learners.members()["Quiet"].__module__)


LEARNER = """
from dataclasses import dataclass
from foltr.core.kinds import SendsUpdates
from foltr.core.spec import learner

@learner
@dataclass(frozen=True)
class Quiet(SendsUpdates):
    sessions: int = 1
    def learn(self, ranker, params, memory, user, rng, t, tell):
        return 0 * params, 1.0, memory
"""
