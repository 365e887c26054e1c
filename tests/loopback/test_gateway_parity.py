"""Devices behind gateways, with real processes on this machine: what they learn is what a
simulation learns, bit for bit."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.experiment import Experiment
from simulated_deployment import SimulatedDeployment

KINDS = {"mean": {}, "es": {"learner": "ES(sessions=4)"}, "sum": {"channel": "SecureSum()"}}


def same_as_local(folder, clients, gateways, rounds, seconds, deadline=30.0, **parts):
    """Run a federation behind gateways; its final model is that of the simulation."""
    e = Experiment(data="Synthetic(queries=40)", clients=clients, rounds=rounds, seed=5, **parts)
    # every round waits until all clients can be reached
    made = {"server": {"wait": 5.0, "deadline": deadline}, "agreed": {"fewest": clients}}
    with SimulatedDeployment(folder, e, nodes=gateways, **made) as here:
        here.start_all()
        here.wait_done(seconds)
        assert [about["answered"] for about in here.rounds()] == [clients] * rounds
        assert np.array_equal(here.model(), e.run().params), here.everything()


@pytest.mark.loopback
@pytest.mark.parametrize(("kind", "gateways"), [("mean", 1), ("es", 3), ("sum", 3)])
def test_a_few_devices_learn_what_a_simulation_learns(tmp_path, kind, gateways):
    same_as_local(tmp_path, 12, gateways, 3, 90.0, **KINDS[kind])


@pytest.mark.faults
@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_devices_learn_what_a_simulation_learns(tmp_path, kind, gateways):
    clients = 1000 if gateways == 1 else 1002
    rounds, deadline = (2, 120.0) if kind == "sum" else (4, 60.0)
    same_as_local(tmp_path, clients, gateways, rounds, 400.0, deadline, **KINDS[kind])
