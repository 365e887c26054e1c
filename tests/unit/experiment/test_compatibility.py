"""What does not go together is refused when the experiment is built."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr import Experiment
from foltr.core.errors import Mistake
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregators, channels
from threshold_channel import AllOrNothing

SMALL = {"data": "Synthetic(queries=20)", "clients": 30, "rounds": 4, "evaluate_every": 4}


@dataclass(frozen=True)
class FirstRow(Memoryless):
    """Looks at single updates."""

    def combine(self, cohort):
        return cohort.updates[0].astype(np.float64)


@pytest.fixture(autouse=True)
def registered():
    aggregators.register(FirstRow), channels.register(AllOrNothing)
    yield
    aggregators.forget(__name__), channels.forget(AllOrNothing.__module__)


GAMMA = "GammaShares(epsilon=1.2, sensitivity=3)"


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"privacy": "RandomizedReward(p=0.9)"}, "PDGD sends none"),
        ({"privacy": GAMMA, "learner": "ES()"}, "ES sends rewards"),
        ({"privacy": "RandomizedReward(p=0.09)", "learner": "ES()"}, "p must be above 1 / 11"),
        (
            {"privacy": "RandomizedReward(p=0.3)", "learner": "ES(levels=3)"},
            "p must be above 1 / 3",
        ),
        ({"privacy": "RandomizedReward(p=1.1)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "RandomizedReward(p=0)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "GammaShares(epsilon=0, sensitivity=3)"}, "epsilon must be > 0, got 0"),
        ({"privacy": "GammaShares(epsilon=1, sensitivity=-3)"}, "sensitivity must be > 0, got -3"),
        ({"privacy": "Laplace(epsilon=1, clip=0)"}, "clip must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=0, clip=1)"}, "noise must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=1, clip=1, where='sever')"}, "'sever' is none of"),
        ({"privacy": GAMMA, "learner": "PDGD(max_norm=3)"}, "max_norm=3.0 is not the ball of 1.5"),
        ({"privacy": GAMMA, "aggregator": "FirstRow()"}, "FirstRow looks at single updates"),
        (
            {"privacy": "Gaussian(noise=1, clip=1, where='server')", "aggregator": "FirstRow()"},
            "made for their mean",
        ),
        ({"channel": "AllOrNothing()", "aggregator": "FirstRow()"}, "which AllOrNothing hides"),
        ({"channel": "AllOrNothing()", "learner": "ES()"}, "whose sum is no update"),
        ({"channel": "AllOrNothing()", "dropout": 0.5}, "about 15 of 30 messages arrive"),
        ({"channel": "AllOrNothing()", "participation": 0.5}, "no sum of fewer than 20"),
        ({"dropout": 1.0}, "dropout must be in"),
        (
            {"dropout": 0.8, "aggregator": "Krum(malicious=4)"},
            "about 6 of 30 messages arrive in a round, and that is too few (Krum",
        ),
        ({"baseline": "LeastSquares()", "privacy": GAMMA}, "sends nothing: leave out privacy"),
        ({"learner": "ES(sessions=3)"}, "even number of sessions, got 3"),
        ({"learner": "ES(sigma=0)"}, "sigma must be > 0"),
        ({"learner": "ES(levels=1)"}, "levels must be in 2 .. 10^6, got 1"),
        ({"learner": "ES(objective='dcg', k=20)"}, "give k <= 16"),
        ({"learner": "ES(objective='mrr')"}, "'mrr' is none of"),
        ({"learner": "FOLtRES()"}, "it is ES"),
        ({"baseline": "MSE()"}, "it is LeastSquares"),
    ],
)
def test_refused(fields, why):
    with pytest.raises(Mistake) as refused:
        Experiment(**{**SMALL, **fields})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"privacy": "Laplace(epsilon=1, clip=1)", "aggregator": "FirstRow()"},
        {"privacy": GAMMA, "learner": "PDGD(max_norm=1.5)"},
        {"privacy": GAMMA, "channel": "AllOrNothing()"},
        {"privacy": "none", "channel": "none", "dropout": "none"},
    ],
)
def test_allowed(fields):
    e = Experiment(**{**SMALL, **fields})
    assert Experiment(**e.config()) == e
    assert e.run().final["rounds"] == 4


def test_the_ball_is_the_learners():
    e = Experiment(**SMALL, privacy=GAMMA)
    assert e.learner.max_norm is None and e.device_learner.max_norm == 1.5
    full = Experiment(**SMALL, privacy=GAMMA.replace(")", ", clip='full')"))
    assert full.device_learner.max_norm == 3.0


def test_parts_that_are_not_there_leave_no_trace_in_the_config():
    """So that runs made before these parts existed keep their identity."""
    assert not {"privacy", "channel", "baseline", "dropout"} & set(Experiment(**SMALL).config())


def test_a_step_that_would_round_the_noise_away_is_refused():
    fields = {**SMALL, "privacy": "Gaussian(noise=5, clip=0.2, where='shares')"}
    with pytest.raises(Mistake, match="some noise would be lost: use finer steps"):
        Experiment(**fields, channel="SecureSum(fraction_bits=4)")
    Experiment(**fields, channel="SecureSum()")


@pytest.mark.parametrize(
    "privacy",
    [
        "Laplace(epsilon=1e-300, clip=1e10)",
        "Gaussian(noise=1e200, clip=1e200)",
        "Laplace(epsilon=1, clip=1e31)",
        "GammaShares(epsilon=1e-31, sensitivity=3)",
    ],
)
def test_noise_that_no_device_can_hold(privacy):
    with pytest.raises(Mistake, match="to fit into float32"):
        Experiment(**SMALL, privacy=privacy)


@pytest.mark.parametrize("dropout", [0.1, 0.2, 0.3, 0.32, 0.45])
def test_a_threshold_that_is_just_met(dropout):
    """0.7 x 90 is not 63 in floating point: no experiment may fail for that."""
    exact = [n for n in range(10, 400, 10) if round((1 - dropout) * n, 6) % 1 == 0]
    assert len(exact) >= 7
    for n in exact:
        e = Experiment(
            **{**SMALL, "clients": n},
            channel=f"SecureSum(threshold={1 - dropout})",
            dropout=dropout,
        )
        assert e.channel.fewest(n) == round((1 - dropout) * n)


SIX = Experiment(data="Synthetic(queries=30)", clients=6, rounds=4, learner="PDGD(sessions=3)")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"malicious": 2}, "malicious=2, roaming=False: that needs an attack"),
        ({"roaming": True}, "roaming=True: that needs an attack"),
        (
            {"attack": "DataPoisoning()"},
            "needs 1 .. 5 of 6 clients to be malicious, got malicious=0",
        ),
        ({"attack": "DataPoisoning()", "malicious": 6}, "got malicious=6"),
        (
            {"attack": "InnerProduct()", "malicious": 1, "learner": "ES()"},
            "messages of ES are rewards",
        ),
        ({"aggregator": "Krum(malicious=4)"}, "needs n > m [+] 2, at least 7 clients"),
        ({"aggregator": "Bulyan(malicious=1)"}, "at least 7 clients in a round: here n = 6"),
        ({"aggregator": "TrimmedMean(malicious=3)"}, "n > 2m"),
        ({"learner": "FedPer()"}, "Linear has no layer"),
        (
            {"aggregator": "FLTrust()", "privacy": "Laplace(epsilon=1, clip=1)"},
            "leave privacy out",
        ),
        ({"history": 0}, "history must be >= 1"),
        ({"history": 5, "learner": "ES()"}, "messages of ES are rewards: leave history out"),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_built(fields, told):
    with pytest.raises(Mistake, match=told):
        replace(SIX, **fields)


def test_what_no_proof_covers_runs_with_a_note():
    result = replace(
        SIX, aggregator="Krum(malicious=2)", attack="DataPoisoning()", malicious=2
    ).run()
    assert any(
        "Krum's proof needs n > 2m + 2 = 6: here n = 6, m = 2" in note
        for note in result.final["notes"]
    )
