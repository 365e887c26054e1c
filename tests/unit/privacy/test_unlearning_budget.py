"""What unlearning spends: its rounds are composed with those of training, by hand and by another
accountant."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearners
from foltr.core.world.protocols import Past, Phase, PlannedPhase
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of, settings_in, stretches_of
from foltr.privacy.guarantee import ledger_of
from foltr.privacy.participation import COUNTED, Exposure, exposure_of, unexceeded

D = 46
BASE = Experiment(
    data="Synthetic(queries=40)",
    clients=10,
    rounds=20,
    history=4,
    learner="PDGD(sessions=4)",
    privacy="Laplace(epsilon=0.1, clip=0.1)",
)
TINY = 1e-60  # a delta at which adding up is the best that is known


def unlearned(method, leaving=((2,),), **fields):
    return replace(BASE, unlearning=method, leaving=leaving, **fields)


def epsilon(e, unit="client", who="server", delta=1e-5, **more):
    return ledger_of(e, D, delta, **more).guarantee(who, unit).epsilon


@pytest.mark.parametrize(
    ("method", "leaving", "rounds"),
    [
        ("Retrain()", ((2,),), 20 + 20),
        ("Retrain()", ((2,), (3, 5)), 20 + 20 + 20),
        ("FineTune(rounds=7)", ((2,),), 20 + 7),
        ("FineTune(rounds=7)", ((2,), (3,), (4,)), 20 + 3 * 7),
        # every fourth round of 20 is made again; then all of these
        ("FedEraser(sessions=2)", ((2,),), 20 + 5),
        ("FedEraser(sessions=2)", ((2,), (3,)), 20 + 5 + 5),
        ("FedRemove(fine_tune=6)", ((2,),), 20 + 6),
        ("FedRemove(fine_tune=0)", ((2,),), 20),
        # who leaves climbs, who remains fine-tunes: 5 rounds or 6, never 11
        ("GradientAscent(rounds=5, fine_tune=6)", ((2,),), 20 + 6),
        ("GradientAscent(rounds=9, fine_tune=6)", ((2,),), 20 + 9),
        # the second group fine-tunes without the first one, and climbs then
        ("GradientAscent(rounds=9, fine_tune=6)", ((2,), (3,)), 20 + 6 + 9),
        ("GradientAscent(rounds=9, fine_tune=6, stored=True)", ((2,),), 20 + 6),
    ],
)
def test_the_epsilons_of_training_and_unlearning_add_up(method, leaving, rounds):
    e = unlearned(method, leaving)
    assert epsilon(e, delta=TINY) == pytest.approx(rounds * 0.1, rel=1e-4)
    assert epsilon(e, "round", delta=TINY) == pytest.approx(0.1, rel=1e-4)
    titles = [each.title for each in ledger_of(e, D).views[0].guarantees]
    assert titles[-1] == f"one client, {rounds} rounds"


def test_rounds_of_fewer_clients_are_composed_with_their_own_noise():
    """Of 10 clients at least 7 arrive, of 8 at least 6: shares of .7 and .75 of the variance. The
    privacy loss of both together is that of dp-accounting, by another method."""
    import dp_accounting.pld.privacy_loss_distribution as pld

    noise = {"privacy": "Gaussian(noise=20, clip=0.1, where='shares')", "channel": "SecureSum()"}
    e = unlearned("FineTune(rounds=15)", ((2, 5),), dropout=0.05, history=None, **noise)
    (stretch,) = stretches_of(e)
    settings = setting_of(e, D), *settings_in(e, D, stretch)
    assert [(s.cohort, s.least_arriving) for s in settings] == [(10, 7), (8, 6)]
    made = pld.identity()
    for (n, least), rounds in (((10, 7), 20), ((8, 6), 15)):
        sd, moved = 2.0 * math.sqrt(least / n), 0.2
        one = pld.from_gaussian_mechanism(sd / moved, value_discretization_interval=1e-4)
        made = made.compose(one.self_compose(rounds))
    theirs = made.get_epsilon_for_delta(1e-5)
    for who in ("server", "models"):
        assert epsilon(e, who=who) == pytest.approx(theirs, rel=0.01)
    # neither all rounds as in training nor all as in unlearning
    assert epsilon(replace(e.base, rounds=35)) > epsilon(e) > epsilon(replace(e.base, rounds=33))
    assert epsilon(e, "round") == pytest.approx(epsilon(e.base, "round"))  # the worse one


def test_a_round_of_unlearning_may_be_worse_than_one_of_training():
    """All 100 shares arrive or 67 of them; of the 3 that remain, 2 may: no half of them more."""
    noise = {"privacy": "GammaShares(epsilon=1.2, sensitivity=3)", "channel": "SecureSum()"}
    leaving = (tuple(range(97)),)
    e = replace(BASE, clients=100, dropout=0.01, history=None, **noise)
    gone = replace(e, unlearning="FineTune(rounds=1)", leaving=leaving)
    assert epsilon(gone, "round") == pytest.approx(epsilon(e, "round"), rel=0.05)
    malicious = {"attack": "DataPoisoning()", "malicious": 1}
    e, gone = replace(e, **malicious), replace(gone, **malicious)
    still = not set(e.attackers.members(0).tolist()) <= set(leaving[0])
    assert math.isfinite(epsilon(e)) and math.isinf(epsilon(gone)) == still
    two = replace(e, unlearning="FineTune(rounds=1)", leaving="malicious")
    assert math.isfinite(epsilon(two))  # nobody of them is left


def test_more_colluding_clients_than_a_smaller_round_withstands_are_refused():
    noise = {"privacy": "Gaussian(noise=20, clip=0.1, where='shares')", "channel": "SecureSum()"}
    e = unlearned("Retrain()", ((0, 1, 2, 3, 4, 5),), history=None, **noise)
    assert math.isfinite(epsilon(e.base, colluding=4))
    with pytest.raises(Mistake, match="4 of 4 clients could together open every message"):
        ledger_of(e, D, colluding=4)


def test_rewards_are_answered_again():
    fields = {
        "learner": "ES(sessions=2)",
        "optimizer": "Adam(lr=0.001)",
        "privacy": "RandomizedReward(p=0.9)",
        "history": None,
    }
    e = unlearned("Retrain()", **fields)
    for unit, answers in (("interaction", 1), ("round", 2), ("client", 2 * 40)):
        one = epsilon(e.base, "interaction", delta=TINY)
        assert epsilon(e, unit, delta=TINY) <= answers * one * (1 + 1e-9)
    assert epsilon(e) > epsilon(e.base) and epsilon(e, "round") == epsilon(e.base, "round")
    assert epsilon(e) == pytest.approx(epsilon(replace(e.base, rounds=40)))


def test_who_was_drawn_is_secret_in_training_only():
    noise = {"privacy": "Gaussian(noise=5, clip=0.1, where='server')", "participation": 0.2}
    e = replace(BASE, clients=100, **noise)
    gone = replace(e, unlearning="FineTune(rounds=1)", leaving=((2,),))
    assert ledger_of(e, D).guarantee("models", "client").secret
    found = ledger_of(gone, D).guarantee("models", "client")
    assert not found.secret and found.epsilon > epsilon(e, who="models")
    assert any(
        "is not counted in runs with unlearning" in each for each in ledger_of(gone, D).remarks
    )


def test_what_devices_stored_without_noise_makes_one_round_last():
    e = unlearned("FedEraser(sessions=2)", privacy="Gaussian(noise=50, clip=0.1, where='server')")
    found = ledger_of(e, D)
    whole = found.guarantee("models", "client").epsilon
    assert found.guarantee("models", "round").epsilon == whole
    assert any("no noise of their own" in each for each in found.remarks)
    others = ledger_of(replace(e, privacy="Gaussian(noise=50, clip=0.1)"), D)
    assert others.guarantee("models", "round").epsilon < whole


def test_it_is_told_in_plain_words():
    told = " ".join(ledger_of(unlearned("FineTune(rounds=7)", ((2,), (3,))), D).remarks)
    assert "Unlearning makes up to 14 rounds after the 20 of training, of 8 or 9 clients" in told
    assert "Forgetting refunds nothing" in told
    plain = ledger_of(replace(BASE, privacy=None), D)
    assert ledger_of(unlearned("FineTune(rounds=7)", privacy=None), D) == plain


PRIVATIZERS = {
    "Laplace": {"privacy": "Laplace(epsilon=0.5, clip=0.1)"},
    "on clients": {"privacy": "Gaussian(noise=30, clip=0.1)"},
    "shares": {
        "privacy": "Gaussian(noise=30, clip=0.1, where='shares')",
        "channel": "SecureSum()",
        "dropout": 0.05,
    },
    "gamma": {"privacy": "GammaShares(epsilon=1.2, sensitivity=3)", "channel": "SecureSum()"},
    "server": {"privacy": "Gaussian(noise=30, clip=0.1, where='server')"},
    "rewards": {
        "privacy": "RandomizedReward(p=0.9)",
        "learner": "ES()",
        "optimizer": "Adam(lr=0.001)",
        "history": None,
    },
}
METHODS = (
    "Retrain()",
    "FineTune(rounds=3)",
    "FedEraser(sessions=3)",
    "FedRemove(fine_tune=2)",
    "GradientAscent(rounds=3, fine_tune=4)",
)
ACCEPTED = {
    *((noise, method) for noise in PRIVATIZERS for method in METHODS[:2]),
    *((noise, method) for noise in ("Laplace", "on clients") for method in METHODS),
    ("server", METHODS[2]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", PRIVATIZERS)
def test_unlearning_never_gives_budget_back(noise, method):
    """Every legal combination, for every unit and adversary, with all clients in a round or some,
    one group or two, and malicious clients."""
    tried = 0
    for participation in (1.0, 0.6):
        for leaving in (((4,),), ((4,), (0, 7)), "malicious"):
            fields = {**PRIVATIZERS[noise], "participation": participation, "clients": 20}
            if leaving == "malicious":
                fields |= {"attack": "DataPoisoning()", "malicious": 2}
            e = replace(BASE, **fields)
            try:
                gone = replace(e, unlearning=method, leaving=leaving)
            except Mistake:
                continue
            tried += 1
            before, after = ledger_of(gone.base, D), ledger_of(gone, D)
            first = ledger_of(e, D)
            for view in after.views:
                for each in view.guarantees:
                    for less in (first, before):
                        spent = less.guarantee(view.who, each.unit)
                        # an epsilon with a delta is taken if it is below .95 of one without
                        margin = 1.0 if spent.delta == each.bound.delta else 0.95
                        assert each.bound.epsilon >= margin * spent.epsilon
    assert bool(tried) == ((noise, method) in ACCEPTED)


REFUSED = [
    ("gamma", "FedEraser(sessions=3)", "FedEraser uses single messages, and only the sum"),
    ("shares", "FedEraser(sessions=3)", r"has the noise of Gaussian: use Retrain\(\) or FineTune"),
    ("server", "FedRemove()", "uses single stored messages, to which Gaussian adds no noise"),
    ("server", "GradientAscent()", "uses single stored messages, to which Gaussian adds no noise"),
    ("server", "GradientAscent(stored=True)", "to which Gaussian adds no noise"),
]


@pytest.mark.parametrize(("noise", "method", "reason"), REFUSED)
def test_what_would_reveal_single_messages_is_refused(noise, method, reason):
    with pytest.raises(Mistake, match=reason):
        unlearned(method, **PRIVATIZERS[noise])


@pytest.mark.parametrize("method", ["FedRemove()", "GradientAscent()"])
def test_shares_of_noise_are_no_noise_of_stored_messages(method):
    bare = {"privacy": "GammaShares(epsilon=1.2, sensitivity=3)"}  # and no channel
    with pytest.raises(Mistake, match="uses single messages, and only the sum of a round's"):
        unlearned(method, **bare)


def test_behind_a_secure_sum_a_server_cannot_clip_what_was_changed():
    server = {**PRIVATIZERS["server"], "channel": "SecureSum()"}
    unlearned("Retrain()", **server)
    with pytest.raises(Mistake, match="does not clip them again"):
        unlearned("FedEraser(sessions=3)", **server)


@dataclass(frozen=True)
class Unknown(UnlearnerDefaults):
    """It does not say which rounds it makes."""

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(3, past.sessions),)


@dataclass(frozen=True)
class Planning(UnlearnerDefaults):
    """It plans for some rounds, and makes others."""

    rounds: int = 3
    searches: int = 4
    negated: bool = False
    plan: int = 4

    def phases(self, past: Past) -> tuple[Phase, ...]:
        send = (lambda updates, clients, t: -updates) if self.negated else None
        return (Phase(self.rounds, self.searches, "remaining", send),)

    def planned(self, rounds, sessions, stored):
        return (PlannedPhase(3, self.plan),)


@pytest.fixture
def own():
    for each in (Unknown, Planning):
        unlearners.register(each)
    yield
    unlearners.forget(__name__)


def test_an_unlearner_that_does_not_say_its_rounds_is_refused(own):
    unlearned("Unknown()", privacy=None)
    with pytest.raises(Mistake, match=r"Unknown does not say which rounds it makes \(`planned`\)"):
        unlearned("Unknown()")


@pytest.mark.parametrize("made", ["rounds=4", "rounds=2", "searches=5", "negated=True"])
def test_other_rounds_than_the_ledger_counts_are_not_made(own, made):
    unlearned(f"Planning({made})", privacy=None).run()
    with pytest.raises(Mistake, match=r"other rounds than Planning\.planned"):
        unlearned(f"Planning({made})").run()


def test_shares_must_lie_on_the_grid_of_a_channel_in_unlearning_too(own):
    """Steps of 2^-15 in messages of 4 searches are multiples of 2^-13, in those of 2 they are
    not."""
    noise = {"privacy": "Gaussian(noise=20, clip=0.1, where='shares')"}
    channel = {"channel": "SecureSum(fraction_bits=13)"}
    unlearned("Planning()", **noise, **channel)
    with pytest.raises(Mistake, match="times 2 searches are not multiples"):
        unlearned("Planning(plan=2)", **noise, **channel)


def test_rounds_as_planned_are_made(own):
    final = unlearned("Planning()").run().final
    assert final["rounds"] == 3 and final["interactions"] == 3 * 9 * 4  # of 9 clients that remain


# Who takes part how often.


def test_the_most_exposed_clients_are_those_that_no_other_exceeds():
    counts = np.array([[3, 1], [2, 2], [3, 0], [1, 1], [2, 2], [0, 5]])
    assert sorted(unexceeded(counts).tolist()) == [[0, 5], [2, 2], [3, 1]]
    line = np.stack([np.arange(100), 100 - np.arange(100)], axis=1)  # too many to compare
    assert unexceeded(line).tolist() == [[99, 100]]


def test_the_worse_of_two_experiments():
    one, other = Exposure(((3, 1), (2, 2)), (1, 0)), Exposure(((3, 2),), (0, 2))
    assert one.or_worse(other) == Exposure(((3, 2),), (1, 2))
    assert one.times == 3 and one.malicious == 1


def test_too_many_rounds_to_draw_count_for_everybody():
    e = unlearned("Retrain()", participation=0.5, rounds=COUNTED // 2)
    assert exposure_of(e).takes == ((COUNTED // 2, COUNTED // 2),)
