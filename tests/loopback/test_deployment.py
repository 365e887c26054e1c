"""A deployment of real processes with TLS and node keys gives the bits of a simulation."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.deployment.local import Deployment
from foltr.experiment import Experiment

pytestmark = pytest.mark.loopback
CASES = {
    "mean": {},
    "krum": {"aggregator": "Krum(malicious=2)"},
    "es": {"learner": "ES()", "optimizer": "Adam(lr=0.001)"},
    "gamma shares": {"privacy": "GammaShares(epsilon=1.0, sensitivity=5.0)"},
    "secure sum": {"channel": "SecureSum()"},
}


@pytest.mark.parametrize("name", CASES)
def test_a_deployment_gives_the_bits_of_a_simulation(tmp_path, name):
    e = Experiment(clients=12, rounds=5, **CASES[name])
    with Deployment(tmp_path, e, nodes=2) as here:
        here.start_all().wait_done()
        assert all(about["answered"] == 12 for about in here.rounds()), here.everything()
        assert np.array_equal(here.model(), e.run().params), here.everything()
