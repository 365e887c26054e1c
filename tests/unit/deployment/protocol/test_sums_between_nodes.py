"""Secure sums between nodes, step by step: one sum in a round, of the agreed strength."""

import random
from dataclasses import replace

import numpy as np
import pytest
from small_federation import (
    PARAMS,
    Small,
    agreed,
    answered,
    ask_of,
    opening,
    participant_of,
    refused,
)

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.privatizers.laplace import Laplace
from foltr.core import Ask
from foltr.deployment.protocol.frames import Kind, read_parts, read_refusal, write_parts
from foltr.deployment.protocol.sums import SumParticipant, SumRound
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.keys import node_key
from foltr.secure_sum.messages import Kind as Step
from foltr.secure_sum.terms import LAYOUT, Terms, model_digest

EVERYBODY = tuple(range(9))
OF_NODES = (range(0, 4), range(4, 7), range(7, 9))
CHANNEL = SecureSum()  # 6 of 9
AGREED = agreed(asked=9, fewest=6, channel=CHANNEL, rounds=9)


class Sums:
    """The server and its nodes; `lost` says which (node, step) never arrives."""

    def __init__(self, agreement=AGREED, tmp_path=None, engine=None):
        self.agreement, self.tmp_path = agreement, tmp_path
        self.engine = engine or (lambda: Small(9, privacy=agreement.privacy))
        self.told, self.failed = [], []
        pairs = [node_key() for _ in OF_NODES]
        self.known = {
            id: public for (_, public), own in zip(pairs, OF_NODES, strict=True) for id in own
        }
        self.private = [private for private, _ in pairs]
        self.nodes = [self.node(i) for i in range(3)]

    def node(self, i):
        path = None if self.tmp_path is None else self.tmp_path / f"{i}.db"
        signs = self.agreement.protocol.consistency
        given = (self.private[i], lambda ids: self.known) if signs else (None, None)
        sums = SumParticipant(self.agreement.protocol, self.agreement.fewest, *given)
        return participant_of(self.agreement, self.engine(), OF_NODES[i], path, self.told, sums)

    def terms(self, t=0, params=PARAMS, fewest=None):
        ask = Ask(params, t, self.agreement.asked)
        return self.agreement.protocol.terms(ask, fewest or self.agreement.fewest)

    def begin(self, terms, t=0, params=PARAMS, how=(0, -1)):
        known = self.known if terms.consistency else {}
        self.now = SumRound(terms, np.arange(9), known, lambda *what: self.failed.append(what))
        payload = opening(EVERYBODY, terms, params, how)
        self.asks = {
            i: ask_of(self.agreement, Kind.OPEN, own, params, t, payload=payload)
            for i, own in enumerate(OF_NODES)
        }
        self.named, self.step = terms.to_bytes(), Step.KEYS

    def exchange(self, lost=()):
        """One step: who answers, and what comes next."""
        for i, ask in self.asks.items():
            if i in lost:
                continue
            answer = answered(self.nodes[i], ask)
            if answer.kind == Kind.REFUSED:
                self.failed.append(read_refusal(answer.payload))
                continue
            parts = read_parts(answer.payload, len(answer.clients))
            self.now.take(i, dict(zip(answer.clients, parts, strict=True)))
        self.step, post = self.now.close()
        asks = {}
        for i, own in enumerate(OF_NODES):
            left = tuple(id for id in own if id in post)
            if left and self.step is not None:
                parts = [bytes([self.step]), self.named, *(post[id] for id in left)]
                asks[i] = replace(
                    self.asks[i], kind=Kind.SUM, clients=left, payload=write_parts(parts)
                )
        self.asks = asks

    def summed(self, t=0, params=PARAMS, lost=None):
        self.begin(self.terms(t, params), t, params)
        while self.asks:
            self.exchange((lost or {}).get(self.step, ()))
        return self.agreement.protocol.mean(self.now.total())


@pytest.mark.parametrize("consistency", [False, True])
def test_the_sum_is_that_of_the_clients(consistency):
    channel = SecureSum(consistency=consistency)
    sums = Sums(agreed(asked=9, fewest=6, channel=channel))
    for t in range(2):
        mean, weight = sums.summed(t)
        np.testing.assert_allclose(mean, PARAMS + 5.0, rtol=1e-6)
        assert weight == 18.0 and sums.failed == []


@pytest.mark.parametrize("step", [Step.KEYS, Step.SHARES, Step.MASKED, Step.UNMASK])
def test_a_node_that_drops_out_at_any_step(step):
    """After its masked words have arrived it is in the sum, before it is not."""
    mean, weight = Sums().summed(lost={step: (1,)})
    inside = 5.0 if step == Step.UNMASK else np.mean([1, 2, 3, 4, 8, 9])
    np.testing.assert_allclose(mean, PARAMS + np.float32(inside), rtol=1e-6)
    assert weight == (18.0 if step == Step.UNMASK else 12.0)


def test_a_round_that_was_not_released_is_summed_again_with_the_same_updates(tmp_path):
    """The server crashed in the middle. The noise of the two is the same, though it came from the
    operating system."""
    noisy = agreed(asked=9, fewest=6, channel=CHANNEL, privacy=Laplace(epsilon=1.0, clip=10.0))
    sums = Sums(noisy, tmp_path)
    sums.begin(sums.terms())
    for _ in range(3):
        sums.exchange()
    assert sums.step == Step.UNMASK  # and the server is gone, with the masked sum
    stored = [
        record.payload for node in sums.nodes for record in node.records.of(EVERYBODY).values()
    ]
    sums.nodes = [sums.node(i) for i in range(3)]  # so are the nodes
    mean, _ = sums.summed()
    np.testing.assert_allclose(mean, np.mean(stored, axis=0), rtol=1e-5)


def test_a_second_sum_of_a_round_is_refused_whatever_its_survivors(tmp_path):
    sums = Sums(tmp_path=tmp_path)
    sums.summed(lost={Step.MASKED: (2,)})
    sums.nodes = [sums.node(i) for i in range(3)]
    for params in (PARAMS, -PARAMS):
        terms = sums.terms(0, params)
        for i in (0, 1):
            payload = opening(EVERYBODY, terms, params)
            ask = ask_of(AGREED, Kind.OPEN, OF_NODES[i], params, payload=payload)
            assert refused(sums.nodes[i], ask) == "released"
    # not even their budget was spent for it
    assert {r.spent for r in sums.nodes[0].records.of(EVERYBODY).values()} == {1}
    mean, _ = sums.summed(t=1)
    np.testing.assert_allclose(mean, PARAMS + 5.0, rtol=1e-6)


def test_a_server_that_unmasks_by_some_clients_has_released_all_of_the_node():
    """Client 3 is never asked to unmask, but the others of its node can unmask it: it may not be
    in a second sum of the round."""
    sums = Sums()
    sums.begin(sums.terms())
    for _ in range(3):
        sums.exchange()
    which, terms, *messages = read_parts(sums.asks[0].payload, 6)
    some = replace(
        sums.asks[0], clients=(0, 1, 2), payload=write_parts([which, terms, *messages[:3]])
    )
    assert answered(sums.nodes[0], some).kind == Kind.SUMMED
    assert {r.released for r in sums.nodes[0].records.of(EVERYBODY).values()} == {0}


def test_nothing_is_revealed_unless_that_can_be_stored():
    sums = Sums()
    sums.begin(sums.terms())
    for _ in range(3):
        sums.exchange()
    sums.nodes[0].records.close()
    assert refused(sums.nodes[0], sums.asks[0]) == "disk"


def test_steps_are_answered_once_and_repeated_bit_for_bit():
    sums = Sums()
    sums.begin(sums.terms())
    while sums.asks:
        for i, ask in sums.asks.items():
            first = sums.nodes[i].answer(ask.to_bytes())
            assert sums.nodes[i].answer(ask.to_bytes()) == first
        sums.exchange()
    np.testing.assert_allclose(AGREED.protocol.mean(sums.now.total())[0], PARAMS + 5.0, rtol=1e-6)


def test_another_message_of_a_step_that_was_answered_is_refused():
    """Other survivors after the first ones: the difference of the two sums would be one update."""
    sums = Sums()
    sums.begin(sums.terms())
    for _ in range(3):
        sums.exchange()
    ask = sums.asks[0]
    assert answered(sums.nodes[0], ask).kind == Kind.SUMMED
    which, terms, *messages = read_parts(ask.payload, 6)
    fewer = [bytearray(message) for message in messages]
    for message in fewer:
        message[-1] &= 0xFE  # the last client is no survivor any more
    parts = [which, terms, *map(bytes, fewer)]
    assert fewer[0] != messages[0]
    assert refused(sums.nodes[0], replace(ask, payload=write_parts(parts))) == "sum"


def weaker(terms, **changes):
    """Terms as bytes that no honest server makes."""
    names = "id round model clients words threshold degree quorum seed bits consistency".split()
    values = dict(zip(names, LAYOUT.unpack(terms.to_bytes()), strict=True))
    return LAYOUT.pack(*(values | changes).values())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"threshold": 5, "quorum": 5}, "terms"),
        ({"threshold": 2, "quorum": 2}, "terms"),
        ({"degree": 2, "quorum": 3}, "terms"),
        ({"round": 1}, "terms"),
        ({"model": bytes(32)}, "terms"),
        ({"model": model_digest(-PARAMS)}, "terms"),
        ({"clients": 10, "degree": 9}, "terms"),
        ({"words": 3}, "terms"),
        ({"words": 2**28 - 1}, "terms"),
        ({"bits": 31}, "terms"),
        ({"consistency": True}, "terms"),
    ],
)
def test_weaker_or_other_terms_are_refused_before_anything_is_learned(changes, code):
    sums = Sums()
    terms = weaker(sums.terms(), **changes)
    payload = opening(EVERYBODY, type("T", (), {"to_bytes": lambda self: terms})())
    assert refused(sums.nodes[0], ask_of(AGREED, Kind.OPEN, OF_NODES[0], payload=payload)) == code
    assert sums.nodes[0].records.of(EVERYBODY) == {}


@pytest.mark.parametrize(
    "everybody",
    [range(10), (0, 1, 2, 3, 4, 5, 6, 7, 7), (1, 2, 3, 4, 5, 6, 7, 8, 9), range(8, -1, -1)],
)
def test_the_clients_of_a_sum_are_no_more_than_agreed_in_order_and_this_nodes_among_them(
    everybody,
):
    sums = Sums()
    payload = opening(tuple(everybody), sums.terms())
    ask = ask_of(AGREED, Kind.OPEN, OF_NODES[0], payload=payload)
    assert refused(sums.nodes[0], ask) == "malformed"


@pytest.mark.parametrize(
    "payload",
    [b"", write_parts([b"", b"", b""]), write_parts([b"abc", b"", b""]), write_parts([b"a"] * 6)],
)
@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.SUM])
def test_damaged_asks_are_refused(kind, payload):
    node = Sums().nodes[0]
    assert refused(node, ask_of(AGREED, kind, OF_NODES[0], payload=payload)) in (
        "malformed",
        "sum",
    )


def test_a_sum_of_other_terms_or_of_another_round_is_not_joined():
    sums = Sums()
    sums.begin(sums.terms())
    sums.exchange()
    good = sums.asks[0]
    assert refused(sums.nodes[0], replace(good, round=1)) == "sum"
    which, terms, *messages = read_parts(good.payload, 6)
    for step in (b"\1", b"\2", b"\x63", b"", b"\3\3"):
        bad = replace(good, payload=write_parts([step, terms, *messages]))
        assert refused(sums.nodes[0], bad) == "malformed"
    other = write_parts([which, sums.terms().to_bytes(), *messages])
    assert refused(sums.nodes[0], replace(good, payload=other)) == "sum"
    assert answered(sums.nodes[0], good).kind == Kind.SUMMED
    assert refused(Sums().nodes[0], good) == "sum"  # another federation's node has no part in it


def test_a_repeated_open_answers_for_those_it_asks():
    sums = Sums()
    terms = sums.terms()
    ask = ask_of(AGREED, Kind.OPEN, OF_NODES[0], payload=opening(EVERYBODY, terms))
    first = answered(sums.nodes[0], ask)
    some = answered(sums.nodes[0], replace(ask, clients=(1, 2)))
    assert some.clients == (1, 2)
    assert read_parts(some.payload, 2) == read_parts(first.payload, 4)[1:3]
    seats = (0, 1, 2, 3, 4, 5, 6, 7, 20)
    other = replace(ask, payload=opening(seats, terms))
    assert refused(sums.nodes[0], other) == "sum"


def test_a_client_whose_numbers_do_not_fit_drops_out_and_no_number_is_told():
    """The error names a number of its update: it is for the node's log."""

    class Huge(Small):
        def collect(self, ask, clients):
            answers = super().collect(ask, clients)
            answers.arrived.updates[answers.arrived.clients == 1] = 123456789.5e9
            return answers

    sums = Sums(engine=lambda: Huge(9))
    _, weight = sums.summed()
    assert weight == 16.0 and any("2.46914e+17" in text for text in sums.told)
    assert "2.46914e+17" not in repr(sums.failed)
    node, terms = sums.nodes[0], sums.terms(1)
    ask = ask_of(AGREED, Kind.OPEN, (1,), t=1, payload=opening(EVERYBODY, terms))
    answer = node.answer(ask.to_bytes())
    assert b"2.46914e+17" not in answer


def test_a_node_does_not_speak_for_anothers_client():
    """Node 1 sends what client 0 would: it is refused, and client 0 can still take part."""
    sums = Sums()
    terms = sums.terms()
    sums.begin(terms)
    forged = SumClient(terms, 0, PARAMS, least=None).advertise()
    sums.now.take(1, {4: forged})
    assert sums.failed == [(1, "sum", "client 4: the message names another client as its sender")]
    sums.now.take(1, {5: b"short"})
    mean, _ = sums.summed()
    np.testing.assert_allclose(mean, PARAMS + 5.0, rtol=1e-6)


def test_signatures_of_another_node_are_refused():
    sums = Sums(agreed(asked=9, fewest=6, channel=SecureSum(consistency=True)))
    sums.nodes[2].sums.key = node_key()[0]
    _, weight = sums.summed()
    assert weight == 14.0 and any("not signed" in text for *_, text in sums.failed)


def test_without_everybodys_keys_signed_sums_are_refused():
    sums = Sums(agreed(asked=9, fewest=6, channel=SecureSum(consistency=True)))
    del sums.known[8]
    payload = opening(EVERYBODY, sums.terms())
    ask = ask_of(sums.agreement, Kind.OPEN, OF_NODES[0], payload=payload)
    assert refused(sums.nodes[0], ask) == "terms"


def test_no_update_is_in_what_the_server_gets():
    """The bytes of each client's words, and of its numbers, are in no answer."""
    sums, seen = Sums(), []
    for node in sums.nodes:
        answer = node.answer
        node.answer = lambda text, answer=answer: seen.append(answer(text)) or seen[-1]
    sums.summed(params=PARAMS * np.float32(0.1234567))
    everything = b"".join(seen)
    for node in sums.nodes:
        for record in node.records.of(EVERYBODY).values():
            words = AGREED.protocol.words(record.payload, record.weight, 9)
            for secret in (words.tobytes(), words[1:2].tobytes(), record.payload.tobytes()):
                assert secret not in everything


def test_a_node_holds_one_sum_at_a_time():
    sums = Sums()
    for t in range(5):
        sums.summed(t)
        assert [node.sums.begun.round for node in sums.nodes] == [t] * 3


def test_terms_are_read_once_for_a_node_of_many_clients():
    """10,000 clients of one node: opening their sum grows with them, not with their square."""
    n = 2000
    agreement = agreed(asked=n, fewest=1334, channel=CHANNEL)
    public = node_key()[1]
    known = dict.fromkeys(range(n), public)
    sums = SumParticipant(agreement.protocol, 1334, node_key()[0], lambda ids: known)
    node = participant_of(agreement, Small(n), range(n), sums=sums)
    terms = agreement.protocol.terms(Ask(PARAMS, 0, n), 1334)
    payload = opening(tuple(range(n)), terms)
    answer = answered(node, ask_of(agreement, Kind.OPEN, range(n), payload=payload))
    assert len(answer.clients) == n
    sizes = {len(client._known) for client in sums.begun.clients.values()}
    assert sizes == {Terms.from_bytes(terms.to_bytes()).degree}


@pytest.mark.parametrize("steps", range(4))
def test_a_node_answers_any_damaged_message_of_a_sum(steps):
    """After so many steps, before and after the message that is due: an answer or a refusal."""
    rng, sums = random.Random(steps), Sums()
    sums.begin(sums.terms())
    for _ in range(steps):
        sums.exchange()
    for i, ask in sums.asks.items():
        for _ in range(500):
            payload = bytearray(ask.payload)
            for _ in range(rng.randint(1, 3)):
                payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
            answered(sums.nodes[i], replace(ask, payload=bytes(payload)))
        answered(sums.nodes[i], ask)


class Overlapping:
    """A server that lies: in one round it opens sums of client 0 with ever new others, and has
    these unmask client 0, whose own node is never asked to."""

    def __init__(self, consistency, tmp_path):
        channel, others = SecureSum(consistency=consistency), 3
        self.agreement = agreed(asked=9, fewest=6, channel=channel, rounds=20)
        self.groups = [range(1), *(range(1 + 8 * k, 9 + 8 * k) for k in range(others))]
        pairs = [node_key() for _ in self.groups]
        named = zip(pairs, self.groups, strict=True)
        self.known = {id: public for (_, public), own in named for id in own}
        self.private, self.tmp_path = [private for private, _ in pairs], tmp_path
        self.nodes = [self.node(i) for i in range(len(self.groups))]

    def node(self, i):
        signs = self.private[i], lambda ids: {int(id): self.known[int(id)] for id in ids}
        given = signs if self.agreement.protocol.consistency else (None, None)
        sums = SumParticipant(self.agreement.protocol, self.agreement.fewest, *given)
        path = self.tmp_path / f"{i}.db"
        return participant_of(self.agreement, Small(25), self.groups[i], path, None, sums)

    def released(self, k, t):
        """Whether a sum of client 0 and group k is released; None if client 0's node refuses."""
        agreement, everybody = self.agreement, [0, *self.groups[k]]
        terms = agreement.protocol.terms(Ask(PARAMS, t, 9), agreement.fewest)
        known = self.known if terms.consistency else {}
        now = SumRound(terms, np.array(everybody), known, lambda *what: None)
        payload = opening(everybody, terms)
        asks = {
            i: ask_of(agreement, Kind.OPEN, self.groups[i], t=t, payload=payload) for i in (0, k)
        }
        while asks:
            for i, ask in asks.items():
                answer = answered(self.nodes[i], ask)
                if answer.kind == Kind.REFUSED:
                    assert read_refusal(answer.payload)[0] in ("released", "round")
                    return None
                parts = read_parts(answer.payload, len(answer.clients))
                now.take(i, dict(zip(answer.clients, parts, strict=True)))
            step, post = now.close()
            following = {}
            for i, ask in asks.items():
                left = tuple(id for id in self.groups[i] if id in post)
                if left and step is not None and not (step == Step.UNMASK and i == 0):
                    parts = [bytes([step]), terms.to_bytes(), *(post[id] for id in left)]
                    following[i] = replace(
                        ask, kind=Kind.SUM, clients=left, payload=write_parts(parts)
                    )
            asks = following
        now.total()
        return True


@pytest.mark.parametrize("consistency", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_clients_update_is_in_sums_of_one_list_of_clients(consistency, restarted, tmp_path):
    """With others' noise averaged over many sums, its own share alone would be left."""
    lie = Overlapping(consistency, tmp_path)
    assert lie.released(1, 0)  # the node of client 0 does not know whether it was released
    if restarted:
        lie.nodes[0] = lie.node(0)
    assert lie.released(2, 0) is None and lie.released(3, 0) is None
    assert lie.released(2, 1)  # another round, which costs budget
    assert lie.released(3, 0) is None  # going back does not help
    assert lie.nodes[0].records.of([0])[0].spent == 2


def test_a_sum_that_broke_off_is_repeated_with_the_same_clients(tmp_path):
    """The server crashed after the masked words: nothing was released yet."""
    sums = Sums(tmp_path=tmp_path)
    sums.begin(sums.terms())
    while sums.step != Step.UNMASK:
        sums.exchange()
    mean, weight = sums.summed()
    np.testing.assert_allclose(mean, PARAMS + 5.0, rtol=1e-6)
    assert weight == 18.0 and sums.failed == []


def test_without_all_keys_a_signed_sum_costs_no_budget():
    """An absent or revoked client has no key in the node's roster: refused before learning."""
    sums = Sums(agreed(asked=9, fewest=6, channel=SecureSum(consistency=True)))
    sums.known.pop(8)
    terms = sums.terms()
    payload = opening(EVERYBODY, terms)
    ask = ask_of(sums.agreement, Kind.OPEN, OF_NODES[0], payload=payload)
    assert refused(sums.nodes[0], ask) == "terms"
    assert sums.nodes[0].records.of(OF_NODES[0]) == {}


def test_a_text_about_a_seat_names_the_client():
    terms, ids = AGREED.protocol.terms(Ask(PARAMS, 0, 9), AGREED.fewest), 10 * np.arange(9)
    found = SumRound(terms, ids, {}, lambda *_: None)
    assert found._with_ids("client 2: the keys of client 7") == "client 20: the keys of client 70"
