"""What one round of a learner with memory reveals, on real data: the ledger used to state epsilon
1 for it."""

import numpy as np
import pytest
from guarantee_games import two_histories

from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.audits.noise import clipped

pytestmark = [pytest.mark.claims, pytest.mark.usefixtures("with_real_data")]


@pytest.mark.parametrize(
    ("learner", "ranker", "least", "most"),
    [
        ("Personal(pull=0.0)", "Linear()", 55.0, 80.0),
        ("Personal(pull=0.01)", "Linear()", 50.0, 75.0),
        ("FedPer()", "MLP(hidden=64)", 5.0, 20.0),
        ("PDGD()", "Linear()", 0.1, 1.0),
    ],
)
def test_replacing_the_first_round_alone(learner, ranker, least, most):
    """The sum over 100 rounds of L1 distance / scale, the server sending the same weights in
    each."""
    e = Experiment(
        data="MQ2008(fold=1)",
        users="Cascade(kind='informational')",
        learner=learner,
        ranker=ranker,
        clients=100,
        privacy="Laplace(epsilon=1.0, clip=0.1)",
        rounds=100,
    )
    data = e.data.load("train")
    worlds = [clipped(e.privacy, each.astype(float), 100) for each in two_histories(e, data)]
    loss = np.abs(worlds[0] - worlds[1]).sum() / e.privacy.scale
    found = ledger_of(e, data.width).guarantee("server", "round")
    print(f"{learner}: {loss:.1f}, guaranteed {found.epsilon:.2f}")
    assert least < loss < most
    assert found.epsilon == (1.0 if learner == "PDGD()" else pytest.approx(70.8, abs=0.1))
