"""A stock SuperLink with stock SuperNodes runs the template, and learns what a simulation learns,
bit for bit."""

import re
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")
from stock import Stock

from foltr import Experiment
from foltr.components.sources.synthetic import Synthetic
from foltr.deployment.server.state import ServerState

SEED, DATA = 7, Synthetic(queries=60)
PDGD = {"learner": "PDGD(sessions=4)"}


@dataclass(frozen=True)
class Case:
    """Fields of an experiment, as text."""

    name: str
    agreed: dict[str, str] = field(default_factory=lambda: PDGD)
    aggregator: str = "Mean()"
    rounds: int = 2

    def model(self, clients):
        """What the simulation learns."""
        parts = {"aggregator": self.aggregator, **self.agreed}
        how = {"clients": clients, "rounds": self.rounds, "seed": SEED}
        return Experiment(data=DATA, **parts, **how).run().params

    def write(self, stock):
        n = sum(stock.nodes)
        agreed = f'features = 46\nasked = {n}\nrounds = {self.rounds}\nnoise = "address"\n'
        agreed += "".join(f'{name} = "{spec}"\n' for name, spec in self.agreed.items())
        server = f'seed = {SEED}\naggregator = "{self.aggregator}"\ndeadline = 200.0'
        node = f'data = "{DATA!r}"\nseed = {SEED}\npopulation = {n}'
        stock.write(self.name, agreed, server, node)


CASES = (
    Case("krum", aggregator="Krum(malicious=2)"),
    Case("es", {"learner": "ES(sessions=4)"}),
    Case("gamma", {**PDGD, "privacy": "GammaShares(epsilon=4.0, sensitivity=3.0)"}),
    Case("memory", {"learner": "FedPer(learner=PDGD(sessions=4))", "ranker": "MLP(hidden=4)"}),
    Case("sum", {**PDGD, "channel": "SecureSum()"}),
    Case("signed", {**PDGD, "channel": "SecureSum(consistency=True)"}),
)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    yield from deployment(tmp_path_factory, (3, 2))


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    yield from deployment(tmp_path_factory, (4, 5, 3))


def deployment(tmp_path_factory, nodes, tls=False):
    started = Stock(tmp_path_factory.mktemp("stock"), nodes, tls)
    yield started
    started.close()


def check(stock, case, run=Stock.run):
    case.write(stock)
    expected = case.model(sum(stock.nodes))  # first: it compiles what the nodes need
    told, state = run(stock), ServerState(stock.folder / case.name / "state.db")
    rounds = state.rounds()
    answered = [about["answered"] for about in rounds]
    assert answered == [sum(stock.nodes)] * case.rounds, told + stock.told()
    np.testing.assert_array_equal(state.load().params, expected)
    print(f"{case.name}: {[about['seconds'] for about in rounds]} s a round")


@pytest.mark.loopback
def test_a_stock_deployment_learns_what_a_simulation_learns(two):
    check(two, Case("mean"))


@pytest.mark.faults
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_kind_of_federation(three, case):
    check(three, case)


@pytest.mark.faults
def test_nodes_are_known_by_the_keys_that_flower_has_checked(tmp_path_factory):
    for stock in deployment(tmp_path_factory, (3, 2), tls=True):
        check(stock, Case("tls"))
        assert "query.seat" not in stock.told()  # nobody had to sign


@pytest.mark.faults
def test_a_run_that_was_stopped_goes_on(three):
    def twice(stock):
        run = re.search(r"run (\d+)", stock.submit())[1]
        file, until = stock.folder / "stopped" / "state.db", time.monotonic() + 120.0
        while not (file.exists() and ServerState(file).rounds()) and time.monotonic() < until:
            time.sleep(0.2)
        stock.flwr("stop", run, "stock")
        told = stock.run()
        assert "continuing after round" in told
        return told

    check(three, Case("stopped", rounds=3), twice)
