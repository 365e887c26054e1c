"""Answers that nobody asked for, or that no learner sends: their clients have not answered."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from flwr.app import Message
from in_process import SHARES, answering, equal, experiment, fails, run_with, start_of

from foltr.deployment.protocol.frames import (
    Kind,
    read_parts,
    read_updates,
    write_parts,
    write_updates,
)

pytestmark = pytest.mark.loopback


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
