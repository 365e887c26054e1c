"""Which clients are malicious, and what becomes of their messages."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.core import Ask, Cohort
from foltr.core.errors import Mistake
from foltr.core.kinds import ChangesMessages
from foltr.core.seeds import stream
from foltr.experiment.malicious import Malicious, MaliciousRewrite


def test_the_malicious_are_the_same_in_every_round_unless_they_roam():
    everybody = np.arange(20)
    fixed, roaming = Malicious(20, 5, False, 1), Malicious(20, 5, True, 1)
    assert {tuple(fixed(t, everybody)) for t in range(30)} == {tuple(fixed(0, everybody))}
    assert len({tuple(roaming(t, everybody)) for t in range(30)}) > 20
    for t in range(30):
        assert fixed(t, everybody).sum() == roaming(t, everybody).sum() == 5
        np.testing.assert_array_equal(np.flatnonzero(roaming(t, everybody)), roaming.members(t))
    some = np.array([19, 3, 7])  # a round's clients, in any order
    np.testing.assert_array_equal(fixed(0, some), np.isin(some, fixed.members(0)))


def test_who_is_malicious_depends_on_the_seed_and_never_on_the_server():
    assert len({tuple(Malicious(20, 5, False, seed).members(0)) for seed in range(20)}) > 15
    hosts = np.array([20, 21])
    assert (
        not Malicious(20, 19, False, 1)(0, hosts).any()
        and not Malicious(20, 19, True, 1)(3, hosts).any()
    )


@dataclass(frozen=True)
class Sends(ChangesMessages):
    rows: np.ndarray

    def craft(self, cohort, malicious, ask, rng):
        return self.rows


COHORT = Cohort(np.arange(3), np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3))
ASK = Ask(np.zeros(2, np.float32), 0, 3)
SECOND = lambda t, clients: clients == 1  # noqa: E731


def test_an_attack_changes_the_messages_of_the_malicious_alone():
    before = COHORT.updates.copy()
    sent = MaliciousRewrite(Sends(np.full((1, 2), 9, np.float32)), SECOND)(COHORT, ASK, stream(1))
    np.testing.assert_array_equal(sent.updates, [[0, 1], [9, 9], [4, 5]])
    np.testing.assert_array_equal(COHORT.updates, before)
    nobody = MaliciousRewrite(Sends(np.zeros((0, 2))), lambda t, clients: clients == 7)
    assert nobody(COHORT, ASK, stream(1)) is COHORT


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(
        Mistake, match=r"Sends.craft gave float64 of shape \(2, 2\) for 1 malicious clients"
    ):
        MaliciousRewrite(Sends(np.zeros((2, 2))), SECOND)(COHORT, ASK, stream(1))
    with pytest.raises(Mistake, match="Sends sends numbers that are not finite"):
        MaliciousRewrite(Sends(np.array([[np.inf, 0]])), SECOND)(
            COHORT, replace(ASK, t=5), stream(1)
        )
    # its square overflows, it does not
    huge = MaliciousRewrite(Sends(np.full((1, 2), 3e38, np.float32)), SECOND)
    assert np.isfinite(huge(COHORT, ASK, stream(1)).updates).all()
