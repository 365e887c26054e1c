"""Guarantees of an experiment whose messages go through a channel."""

import pytest

from foltr.core.errors import Mistake
from foltr.core.spec import channels
from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of
from threshold_channel import AllOrNothing

SMALL = {"data": "Synthetic(queries=20)", "clients": 30, "rounds": 4, "evaluate_every": 4}


@pytest.mark.parametrize("clients, channel, most", [
    (10, "SecureSum()", 6), (128, "SecureSum()", 85), (1000, "SecureSum()", 200),
    (1000, "SecureSum(consistency=True)", 666), (1000, "SecureSum(threshold=0.9)", 200),
])  # fmt: skip
def test_more_colluding_clients_than_a_channel_withstands_have_no_guarantee(
    clients, channel, most
):
    fields = {
        **SMALL,
        "clients": clients,
        "privacy": "Gaussian(noise=20, clip=0.1, where='shares')",
    }
    e = Experiment(**fields, channel=channel)
    assert ledger_of(e, 46, colluding=most).guarantee("server", "round").epsilon < 10.0
    with pytest.raises(Mistake, match=f"which withstands {most}"):
        ledger_of(e, 46, colluding=most + 1)


@pytest.fixture
def all_or_nothing():
    channels.register(AllOrNothing)
    yield
    channels.forget(AllOrNothing.__module__)


def test_a_channel_that_hides_nothing_is_no_secure_sum(all_or_nothing):
    privacy = "GammaShares(epsilon=1.2, sensitivity=3)"
    e = Experiment(**SMALL, privacy=privacy, channel="AllOrNothing()")
    assert ledger_of(e, 46).guarantee("server", "round").epsilon == float("inf")
