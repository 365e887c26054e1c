"""A federation in this process gives the bits of a simulation, whatever some of its nodes send."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="NO FEDERATION WAS TESTED: pip install 'foltr[deploy]'")
pytest.importorskip("cryptography", reason="NO SECURE SUM WAS TESTED: pip install 'foltr[deploy]'")

from flwr.app import Message

from foltr.core import Ask
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.federated.exchange import Interrupted
from foltr.federated.frames import (
    Frame,
    Kind,
    read_parts,
    read_updates,
    write_parts,
    write_updates,
)
from foltr.federated.messages import NewSession
from foltr.runs.in_process import InProcess
from foltr.runs.interruptions import Stopped
from foltr.runs.setup import population_of
from foltr.seeds import stream
from foltr.system.threads import Threads

pytestmark = pytest.mark.loopback

DATA = "Synthetic(queries=40)"
SHARES = "GammaShares(epsilon=5.0, sensitivity=2.0)"
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


def experiment(**changes):
    usual = {"data": DATA, "clients": 10, "rounds": 4, "learner": "PDGD(sessions=3)", "seed": 5}
    return Experiment(**{**usual, **changes})


def equal(one, other):
    np.testing.assert_array_equal(one.params, other.params)
    for name in ("ndcg@10", "mrr@10"):
        np.testing.assert_array_equal(one.curve(name), other.curve(name))


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


@dataclass(frozen=True)
class Tampered:
    """A federation in which `change` (engine) has replaced something."""

    change: object
    nodes: int = 4
    noise: str = "address"
    checkpoint_seconds: float | None = 0.0
    name = "in-process"

    def __call__(self, *parts):
        engine = InProcess(nodes=self.nodes, noise=self.noise)(*parts)
        self.change(engine)
        return engine


def run_with(e, change, nodes=4):
    """The result, and the counts of what was left out."""
    engines = []

    def changed(engine):
        engine.greeted = set(engine.reachable())  # before it is disturbed
        change(engine)
        engines.append(engine)

    return e.run(engine=Tampered(changed, nodes)), engines[0].failures


def answering(node, how):
    """Change what a node answers: `how` (ask, answer) -> bytes; both are frames."""

    def change(engine):
        honest = engine.grid.nodes[node]

        def answer(text):
            return how(Frame.from_bytes(text), Frame.from_bytes(honest(text)))

        engine.grid.nodes[node] = answer

    return change


def fails(ask, answer):
    raise RuntimeError("a node that never answers")


def only(*rows):
    """The answer with some of its rows only."""

    def how(ask, answer):
        updates, weights = read_updates(answer.payload, len(answer.clients))
        kept = [row for row in range(len(answer.clients)) if row in rows]
        ids = tuple(answer.clients[row] for row in kept)
        return ask.answer(
            Kind.LEARNED, ids, write_updates(updates[kept], weights[kept])
        ).to_bytes()

    return how


def changed(row, change):
    """The answer after `change` (updates, weights)."""

    def how(ask, answer):
        updates, weights = read_updates(answer.payload, len(answer.clients))
        updates, weights = change(updates.copy(), weights.copy(), row)
        return replace(answer, payload=write_updates(updates, weights)).to_bytes()

    return how


def set_update(value):
    def change(updates, weights, row):
        updates[row, 1] = value
        return updates, weights

    return change


def set_weight(value):
    def change(updates, weights, row):
        weights[row] = value
        return updates, weights

    return change


ONE_ROW = {
    "NaN": set_update(np.nan),
    "infinite": set_update(-np.inf),
    "huge": set_update(1e30),
    "no weight": set_weight(0.0),
    "negative weight": set_weight(-3.0),
    "heavy": set_weight(4.0),
    "weight NaN": set_weight(np.nan),
    "weight infinite": set_weight(np.inf),
}


@pytest.mark.parametrize("name", ONE_ROW)
def test_a_client_whose_message_is_impossible_has_not_answered(name):
    e = experiment(clients=12)  # three clients in each of four nodes
    made, failures = run_with(e, answering(3, changed(1, ONE_ROW[name])))
    expected, none = run_with(e, answering(3, only(0, 2)))
    equal(expected, made)
    assert failures == {"message": 4} and not none


def of_another_round():
    first = []

    def how(ask, answer):
        first.append(answer.to_bytes())
        return first[0] if ask.round else b"late"

    return how


def other_kind(ask, answer):
    updates, weights = read_updates(answer.payload, len(answer.clients))
    return replace(answer, payload=write_updates(updates.view(np.uint32), weights)).to_bytes()


def wider(ask, answer):
    updates, weights = read_updates(answer.payload, len(answer.clients))
    wide = np.concatenate([updates, updates[:, :1]], axis=1)
    return replace(answer, payload=write_updates(wide, weights)).to_bytes()


WHOLE_NODE = {
    "garbage": lambda ask, answer: b"\0\1\2" * 99,
    "nothing": lambda ask, answer: b"",
    "no bytes": lambda ask, answer: None,
    "its own ask": lambda ask, answer: ask.to_bytes(),
    "an old round": of_another_round(),
    "another nonce": lambda ask, answer: replace(answer, nonce=bytes(16)).to_bytes(),
    "another federation": lambda ask, answer: replace(answer, federation=bytes(16)).to_bytes(),
    "in another's name": lambda ask, answer: replace(answer, clients=(0, 1, 2)).to_bytes(),
    "for all": lambda ask, answer: replace(answer, clients=(0, 3, 4, 5)).to_bytes(),
    "another kind": lambda ask, answer: replace(answer, kind=Kind.SUMMED).to_bytes(),
    "longer": lambda ask, answer: answer.to_bytes() + b"x",
    "shorter": lambda ask, answer: answer.to_bytes()[:-1],
    "no payload": lambda ask, answer: replace(answer, payload=b"").to_bytes(),
    "fewer clients": lambda ask, answer: replace(answer, clients=(3, 4)).to_bytes(),
    "wider": wider,
    "integers": other_kind,
    "2^32 - 1 numbers": lambda ask, answer: ask.answer(
        Kind.LEARNED, (), b"f\xff\xff\xff\xff"
    ).to_bytes(),
    "a refusal": lambda ask, answer: ask.answer(Kind.REFUSED, (), b"\xff" * 9).to_bytes(),
}


@pytest.mark.parametrize("rule", ["Mean()", "Krum(malicious=2)"])
@pytest.mark.parametrize("name", WHOLE_NODE)
def test_a_node_that_answers_what_was_not_asked_has_not_answered(name, rule):
    e = experiment(clients=12, aggregator=rule)
    made, failures = run_with(e, answering(3, WHOLE_NODE[name]))
    expected, _ = run_with(e, answering(3, fails))
    equal(expected, made)
    assert sum(failures.values()) in ((0,) if "2^32" in name else (4, 12))


def test_an_answer_that_is_sent_twice_counts_once():
    e = experiment(clients=12)

    def twice(engine):
        pull = engine.grid.pull_messages
        engine.grid.pull_messages = lambda ids: [reply for reply in pull(ids) for _ in range(3)]

    made, failures = run_with(e, twice)
    equal(e.run(), made)
    assert not failures


def test_a_node_that_replies_to_anothers_message_is_not_heard():
    """Its garbage would else end the exchange with the node that was asked."""
    e = experiment(clients=12)

    def forged(engine):
        grid, pull = engine.grid, engine.grid.pull_messages

        def pulled(ids):
            replies = list(pull(ids))
            if len(replies) < 2:
                return replies
            metadata = replace_source(replies[0], replies[1].metadata.src_node_id)
            return [Message(replies[1].content, metadata=metadata), *replies]

        grid.pull_messages = pulled

    made, failures = run_with(e, forged)
    equal(e.run(), made)
    assert not failures


def replace_source(reply, node):
    from flwr.app import Metadata

    about = reply.metadata
    return Metadata(
        run_id=about.run_id,
        message_id="forged",
        src_node_id=node,
        dst_node_id=about.dst_node_id,
        reply_to_message_id=about.reply_to_message_id,
        group_id=about.group_id,
        created_at=about.created_at,
        ttl=about.ttl,
        message_type=about.message_type,
    )


def test_a_client_whose_code_raises_is_left_out():
    e = experiment(clients=12)

    def raising(engine):
        device = engine.grid.nodes[3].__self__
        make = device.engine_for

        def engine_for(sessions):
            inner = make(sessions)
            collect = inner.collect

            def broken(ask, clients):
                if 4 in clients.tolist():
                    raise ValueError("a secret of client 4")
                return collect(ask, clients)

            inner.collect = broken
            return inner

        device.engine_for = engine_for

    made, failures = run_with(e, raising)
    expected, _ = run_with(e, answering(3, only(0, 2)))
    equal(expected, made)
    assert not failures


@pytest.mark.parametrize("message", ["garbage", "another's", "replayed", "bits"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_node_that_disturbs_a_sum_drops_out_of_it(step, message):
    """At any step: the sum is that of a federation in which it failed at this step."""
    e = experiment(clients=12, channel="SecureSum()", rounds=2)  # 8 of 12
    seen = Counter()

    def at_step(how):
        count = Counter()

        def change(ask, answer):
            count[ask.round] += 1
            seen[step] += count[ask.round] == step
            return how(ask, answer) if count[ask.round] == step else answer.to_bytes()

        return answering(3, change)

    last = {}

    def disturbed(ask, answer):
        parts = read_parts(answer.payload, len(answer.clients))
        match message:
            case "garbage":
                parts = [b"garbage"] * len(parts)
            case "another's":
                parts = parts[1:] + parts[:1]
            case "replayed":
                parts, last[0] = last.get(0, [b""] * len(parts)), parts
            case "bits":
                parts = [part[:-1] for part in parts]
        return replace(answer, payload=write_parts(parts)).to_bytes()

    made, failures = run_with(e, at_step(disturbed))
    expected, _ = run_with(e, at_step(fails))
    equal(expected, made)
    assert failures["sum"] >= 3 and "withheld" not in failures and seen[step]


@pytest.mark.parametrize(
    ("weight", "kind"), [(-100.0, "withheld"), (100.0, "weight"), (0.0, "weight")]
)
def test_a_sum_of_impossible_weights_is_not_used(weight, kind):
    """One client's weight cannot be seen; where equal weights are needed, their sum tells."""
    e = experiment(clients=12, channel="SecureSum()", privacy=SHARES)

    def heavy(engine):
        sums = engine.grid.nodes[3].__self__.sums
        honest = sums.protocol

        class Heavy(type(honest)):
            def words(self, update, given, n):
                return super().words(update, weight, n)

        sums.protocol = Heavy(honest.fraction_bits, honest.consistency)

    made, failures = run_with(e, heavy)
    assert failures == {kind: 4} and made.params.tolist() == start_of(e).tolist()


def start_of(e):
    width = e.data.load("train").width
    return e.ranker.init(width, stream(e.seed, "init")).astype(np.float64)


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
                some = list(ids)
                return pull(some[:1] if asked["pull"] in (3, 4) else some)

            engine.grid.pull_messages = pulled
            engine.stopping = lambda: asked["pull"] == 4
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
    assert abs(noise.mean()) < 5 * sd / many**0.5
    assert abs(noise.var() / sd**2 - 1) < 5 * ((kurtosis - 1) / many) ** 0.5
    assert 0.8 * kurtosis < np.mean(noise**4) / noise.var() ** 2 < 1.3 * kurtosis
    assert not (noisy == again).any(axis=1).all() and (noisy != again).mean() > 0.99
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 5 / many**0.5
    assert abs(np.corrcoef(noise, (again.astype(np.float64) - clean).ravel())[0, 1]) < 0.05


def test_shares_of_the_operating_system_add_up_to_laplace_noise():
    e = experiment(clients=100, privacy="GammaShares(epsilon=2.0, sensitivity=200.0)")
    clean = messages(experiment(clients=100), "address").updates
    sums = []
    for _ in range(8):
        noisy = messages(e, "system").updates.astype(np.float64)
        sums.append((noisy - clean).sum(axis=0))
    noise, scale = np.concatenate(sums), 100.0
    assert abs(noise.mean()) < 5 * 2**0.5 * scale / noise.size**0.5
    assert abs(np.abs(noise).mean() / scale - 1) < 5 / noise.size**0.5
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
        assert abs(kept - 0.8) < 5 * (0.8 * 0.2 / 600) ** 0.5
    assert abs((one[:, 1] == other[:, 1]).mean() - 0.68) < 5 * (0.68 * 0.32 / 600) ** 0.5


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
