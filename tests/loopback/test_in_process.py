"""A federation in this process gives the bits of a simulation."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")


from in_process import SHARES, Tampered, answering, equal, experiment, fails, run_with

from federation_in_process import InProcess
from foltr.core import Ask
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.deployment.protocol.exchange import Interrupted
from foltr.deployment.protocol.frames import Kind
from foltr.deployment.protocol.messages import NewSession
from foltr.simulation.runs.interruptions import Stopped
from foltr.simulation.runs.setup import population_of

pytestmark = pytest.mark.loopback

CASES = {
    "mean": {},
    "median": {"aggregator": "Median()"},
    "krum": {"aggregator": "Krum(malicious=2)"},
    "multi-krum": {"aggregator": "MultiKrum(malicious=2)"},
    "adam": {"optimizer": "Adam(lr=0.01)"},
    "es": {"learner": "ES(sessions=4)", "optimizer": "Adam(lr=0.001)"},
    "es, one-sided": {"learner": "ES(antithetic=False)", "optimizer": "Adam(lr=0.001)"},
    "es with random rewards": {
        "learner": "ES(sessions=4, levels=2)",
        "optimizer": "Adam(lr=0.001)",
        "privacy": "RandomizedReward(p=0.8)",
    },
    "network": {"ranker": "MLP(hidden=8)"},
    "shares": {"privacy": SHARES},
    "shares in a sum": {"privacy": SHARES, "channel": "SecureSum()"},
    "sum": {"channel": "SecureSum()"},
    "sum of all": {"channel": "SecureSum(threshold=1.0)"},
    "signed sum": {"channel": "SecureSum(consistency=True)"},
    "sum of some": {"channel": "SecureSum()", "participation": 0.5, "clients": 20},
    "sum on a ring": {"channel": "SecureSum()", "clients": 130, "rounds": 1},
    "sum of a network": {"channel": "SecureSum()", "ranker": "MLP(hidden=4)"},
    "laplace": {"privacy": "Laplace(epsilon=100.0, clip=1.0)"},
    "gaussian": {"privacy": "Gaussian(noise=0.1, clip=1.0)"},
    "gaussian shares in a sum": {
        "privacy": "Gaussian(noise=0.1, clip=1.0, where='shares')",
        "channel": "SecureSum()",
    },
    "gaussian on the server": {"privacy": "Gaussian(noise=0.1, clip=1.0, where='server')"},
    "participation": {"participation": 0.4},
    "dropout": {"dropout": 0.3},
    "poisoned data": {"attack": "DataPoisoning()", "malicious": 3},
    "roaming attack": {"attack": "LittleIsEnough()", "malicious": 3, "roaming": True},
    "personal": {"learner": "Personal(learner=PDGD(sessions=3))"},
    "fed-per": {"learner": "FedPer(learner=PDGD(sessions=3))", "ranker": "MLP(hidden=4)"},
    "by label": {"partition": "ByLabel()", "clients": 9},
    "by volume": {"partition": "ByVolume()"},
}


@pytest.mark.parametrize("name", CASES)
def test_a_federation_gives_the_bits_of_a_simulation(name):
    e = experiment(**CASES[name])
    made = e.run(engine=InProcess(nodes=3))
    equal(e.run(), made)
    assert not any("left out" in note for note in made.final["notes"])
    assert made.final["engine"] == "in-process"


@pytest.mark.parametrize("nodes", [1, 2, 10, 50])
def test_any_number_of_nodes_gives_the_same_bits(nodes):
    e = experiment()
    equal(e.run(), e.run(engine=InProcess(nodes=nodes)))
    with pytest.raises(Mistake, match="nodes"):
        InProcess(nodes=0)


def test_two_nodes_that_claim_one_client_are_not_both_asked():
    e = experiment(clients=12)

    def claimed(engine):
        there = engine.reachable()
        engine.reachable = lambda: {**there, 99: range(2, 5), 98: range(12)}
        asked = Counter()
        exchange = engine.exchange

        def counted(asks, seconds=None):
            for frame in asks.values():
                if frame.kind != Kind.HELLO:
                    asked.update(frame.clients)
            assert max(asked.values(), default=1) == 1
            asked.clear()
            return exchange(asks, seconds)

        engine.exchange = counted
        engine.deadline = 0.2

    run_with(replace(e, rounds=1), claimed)


def test_a_lost_session_is_begun_anew_and_not_for_ever():
    e = experiment(clients=12)
    lost = Counter()

    def sometimes(engine):
        grid = engine.grid
        push, pull = grid.push_messages, grid.pull_messages

        def pushed(messages):
            lost["push"] += 1
            if lost["push"] % 3 == 0:
                raise NewSession
            return push(messages)

        def pulled(ids):
            lost["pull"] += 1
            if lost["pull"] % 2 == 0:
                raise NewSession
            return pull(ids)

        grid.push_messages, grid.pull_messages = pushed, pulled

    made, failures = run_with(e, sometimes)
    equal(e.run(), made)
    assert not failures and lost["push"] > 4

    def always(engine):
        def never(messages):
            raise NewSession

        engine.grid.push_messages, engine.deadline = never, 0.1

    made, failures = run_with(e, always)
    assert failures == {"session": e.rounds} and not made.params.any()


def test_a_node_that_is_late_or_unreachable_is_counted():
    e = experiment(clients=12, rounds=2)

    def unknown(engine):
        there = dict(engine.reachable())
        del engine.grid.nodes[3]
        engine.reachable, engine.deadline = (lambda: there), 0.2

    made, failures = run_with(e, unknown)
    expected, _ = run_with(e, answering(3, fails))
    equal(expected, made)
    assert failures == {"late": 2}


def test_a_run_that_is_stopped_in_a_round_repeats_that_round(tmp_path):
    """With the answers that devices gave before: the result is that of a run never stopped."""
    e, state = experiment(privacy="Laplace(epsilon=100.0, clip=1.0)"), tmp_path / "nodes"
    asked = Counter()

    @dataclass(frozen=True)
    class Stopping:
        checkpoint_seconds: float | None = 0.0
        name = "in-process"

        def __call__(self, *parts):
            engine = InProcess(nodes=3, state=state)(*parts)
            pull = engine.grid.pull_messages

            def pulled(ids):
                asked["pull"] += 1
                if asked["pull"] == 4:
                    engine.stopping.set()
                some = list(ids)
                return pull(some[:1] if asked["pull"] in (3, 4) else some)

            engine.grid.pull_messages = pulled
            return engine

    with pytest.raises((Interrupted, Stopped)):
        e.run(out=tmp_path / "runs", engine=Stopping())
    made = e.run(out=tmp_path / "runs", engine=InProcess(nodes=3, state=state))
    equal(e.run(), made)


def test_without_a_state_folder_a_run_cannot_be_continued(tmp_path):
    e = experiment()

    class Killed(BaseException):
        pass

    def kill(progress):
        if progress.t == 2:
            raise Killed

    for state, told in ((None, "kept nothing on disk"), (tmp_path / "nodes", None)):
        out = tmp_path / f"runs {told}"
        with pytest.raises(Killed):
            e.run(out=out, engine=InProcess(state=state), watch=kill)
        if told:
            with pytest.raises(Mistake, match=told):
                e.run(out=out, engine=InProcess(state=state))
        else:
            equal(e.run(), e.run(out=out, engine=InProcess(state=state)))


def test_what_an_in_process_federation_cannot_do_is_told():
    with pytest.raises(Mistake, match="own"):
        experiment(aggregator="FLTrust(queries=5)").run(engine=InProcess())
    with pytest.raises(Mistake, match="dropout"):
        experiment(channel="SecureSum()", dropout=0.1).run(engine=InProcess())


def messages(e, noise, t=0):
    """One round's messages of a federation: (n, p)."""
    data = e.data.load("train")
    params = e.ranker.init(data.width, stream(e.seed, "init")).astype(np.float64)
    parts = e, population_of(e, data), params, Threads(1), e.seed
    engine = InProcess(nodes=2, noise=noise)(*parts)
    ask = Ask(params.astype(np.float32), t, e.clients)
    return engine.collect(ask, np.arange(e.clients)).arrived


CLIENTS, D = 400, 46
ROUND = {"clients": CLIENTS, "learner": "PDGD(sessions=1)"}


@pytest.mark.parametrize(
    ("privacy", "sd", "kurtosis"),
    [
        ("Laplace(epsilon=10.0, clip=50.0)", 2**0.5 * 10.0, 6.0),
        ("Gaussian(noise=0.5, clip=50.0)", 25.0, 3.0),
        ("Gaussian(noise=0.5, clip=50.0, where='shares')", 25.0 / CLIENTS**0.5, 3.0),
    ],
)
def test_noise_of_the_operating_system_is_as_large_as_designed(privacy, sd, kurtosis):
    clean = messages(experiment(**ROUND), "address").updates
    noisy = messages(experiment(**ROUND, privacy=privacy), "system").updates
    again = messages(experiment(**ROUND, privacy=privacy), "system").updates
    noise = (noisy.astype(np.float64) - clean).ravel()
    many = noise.size
    assert many == CLIENTS * D
    assert abs(noise.mean()) < 6 * sd / many**0.5
    assert abs(noise.var() / sd**2 - 1) < 6 * ((kurtosis - 1) / many) ** 0.5
    assert 0.7 * kurtosis < np.mean(noise**4) / noise.var() ** 2 < 1.6 * kurtosis
    assert not (noisy == again).any(axis=1).all() and (noisy != again).mean() > 0.99
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 6 / many**0.5
    assert abs(np.corrcoef(noise, (again.astype(np.float64) - clean).ravel())[0, 1]) < 0.05


def test_shares_of_the_operating_system_add_up_to_laplace_noise():
    e = experiment(clients=100, privacy="GammaShares(epsilon=2.0, sensitivity=200.0)")
    clean = messages(experiment(clients=100), "address").updates
    sums = []
    for _ in range(8):
        noisy = messages(e, "system").updates.astype(np.float64)
        sums.append((noisy - clean).sum(axis=0))
    noise, scale = np.concatenate(sums), 100.0
    assert abs(noise.mean()) < 6 * 2**0.5 * scale / noise.size**0.5
    assert abs(np.abs(noise).mean() / scale - 1) < 6 / noise.size**0.5
    assert len(np.unique(noise)) > 0.9 * noise.size


def test_rewards_are_randomized_by_the_operating_system_as_often_as_designed():
    es = {"clients": 600, "learner": "ES(antithetic=False, sessions=1, levels=2)"}
    es |= {"optimizer": "Adam(lr=0.001)"}
    clean = messages(experiment(**es), "address").updates
    noisy = experiment(**es, privacy="RandomizedReward(p=0.8)")
    one, other = (messages(noisy, "system").updates for _ in range(2))
    np.testing.assert_array_equal(one[:, 0], clean[:, 0])  # the seed is the message's own
    for sent in (one, other):
        kept = (sent[:, 1] == clean[:, 1]).mean()
        assert abs(kept - 0.8) < 6 * (0.8 * 0.2 / 600) ** 0.5
    assert abs((one[:, 1] == other[:, 1]).mean() - 0.68) < 6 * (0.68 * 0.32 / 600) ** 0.5


def test_noise_of_the_operating_system_makes_two_runs_differ():
    e = experiment(privacy=SHARES, channel="SecureSum()")
    one, other = (e.run(engine=InProcess(noise="system")) for _ in range(2))
    assert (one.params != other.params).any()
    np.testing.assert_array_equal(
        experiment().run(engine=InProcess(noise="system")).params, experiment().run().params
    )


def test_a_round_of_10_000_clients_behind_one_node_is_carried():
    e = experiment(clients=10_000, rounds=2, learner="PDGD(sessions=1)")
    equal(e.run(), e.run(engine=InProcess(nodes=1)))


def test_a_federation_does_not_grow_with_its_rounds():
    e = experiment(rounds=30, channel="SecureSum()")
    engines = []
    e.run(engine=Tampered(engines.append, 3))
    (engine,) = engines
    assert not engine.grid._replies and not engine.failures
    for answer in engine.grid.nodes.values():
        device = answer.__self__
        assert len(device._engines) == 1 and device.sums.begun.round == 29
        assert len(device.records.of(range(10))) == len(device.clients)
