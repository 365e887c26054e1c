"""An ask divided among devices, and their answers joined."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_settings import examples

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    PARAMS,
    SUMS,
    agreed,
    ask_of,
    learned,
    open_of,
    refused,
    rows,
    sum_of,
    summed,
    terms_of,
)

from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.deployment.gateway import steps
from foltr.deployment.gateway.steps import Step
from foltr.deployment.protocol.frames import (
    HEADER,
    Frame,
    Kind,
    Malformed,
    Model,
    Refusal,
    read_parts,
    read_refusal,
    write_updates,
)
from foltr.secure_sum.server import longest
from foltr.secure_sum.terms import model_digest

FLOATS = st.floats(-1e6, 1e6, width=32)
IDS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8, unique=True).map(sorted)


def step_of(ask=None, agreement=AGREED, models=None):
    return Step(ask_of() if ask is None else ask, agreement, models or {})


def checked(step, client, make=learned, **changes):
    return step.checked(client, make(step.ask_for(client), **changes))


@given(IDS)
def test_a_part_is_the_ask_for_one_client(ids):
    agreement = agreed(asked=8)
    ask = ask_of(agreement, clients=ids)
    step = step_of(ask, agreement)
    for id in ids:
        assert Frame.from_bytes(step.ask_for(id)) == replace(ask, clients=(id,))


@given(IDS, st.data())
def test_each_client_gets_its_own_message_of_a_secure_sum(ids, data):
    messages = {id: data.draw(st.binary(max_size=40)) for id in ids}
    ask = replace(sum_of(messages), n=8)
    step = step_of(ask, SUMS)
    which, terms = read_parts(ask.payload, 2 + len(ids))[:2]
    for id in ids:
        part = Frame.from_bytes(step.ask_for(id))
        assert part.clients == (id,)
        assert read_parts(part.payload, 3) == [which, terms, messages[id]]
        assert replace(part, clients=ask.clients, payload=ask.payload) == ask


@examples(50)
@given(st.dictionaries(st.integers(0, 7), st.tuples(*[FLOATS] * 3), min_size=1), st.data())
def test_joined_answers_are_what_one_node_would_send(updates, data):
    """In ascending order, with each client's own weight; who refuses is left out."""
    ask = ask_of(agreement := agreed(asked=8), clients=range(8))
    step = step_of(ask, agreement)
    weights = {id: data.draw(st.sampled_from([1.0, 2.0])) for id in updates}
    order = data.draw(st.permutations(range(8)))
    answers = {}
    for id in order:
        if id in updates:
            answers[id] = checked(step, id, update=updates[id], weight=weights[id])
        elif data.draw(st.booleans()):
            answers[id] = checked(step, id, refused)
    joined = step.joined(answers)
    ids = sorted(updates)
    numbers = np.array([updates[id] for id in ids], np.float32)
    expected = write_updates(numbers, np.array([weights[id] for id in ids]))
    assert joined == ask.answer(Kind.LEARNED, tuple(ids), expected)
    assert Frame.from_bytes(joined.to_bytes()) == joined and joined.answers(ask)


@given(st.dictionaries(st.integers(0, 7), st.binary(max_size=60), min_size=1))
def test_joined_messages_of_a_secure_sum_are_relayed_as_they_are(messages):
    agreement = agreed(asked=8, fewest=8, channel=SUMS.channel)
    step = step_of(open_of(agreement, range(8)), agreement)
    answers = {id: checked(step, id, summed, message=text) for id, text in messages.items()}
    joined = step.joined(answers)
    assert joined.kind == Kind.SUMMED and joined.clients == tuple(sorted(messages))
    expected = [text for _, text in sorted(messages.items())]
    assert read_parts(joined.payload, len(messages)) == expected


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"update": (1.0, 2.0)}, "not a message of PDGD"),
        ({"update": (1.0, 2.0, 3.0, 4.0)}, "not a message of PDGD"),
        ({"update": (1, 2, 3), "words": np.uint32}, "not a message of PDGD"),
        ({"update": (1.0, 2.0, np.nan)}, "not finite"),
        ({"update": (1.0, 2.0, np.inf)}, "not finite"),
        ({"weight": 3.0}, r"in \(0, 2\]"),
        ({"weight": 0.0}, "got 0"),
        ({"weight": -1.0}, "got -1"),
        ({"weight": float("nan")}, "got nan"),
    ],
)
def test_a_liar_with_another_dtype_length_or_weight_is_refused(changes, told):
    step = step_of()
    with pytest.raises(Malformed, match=told):
        checked(step, 10, **changes)
    assert rows(step.joined({11: checked(step, 11)})) == {11: ([1.0, 2.0, 3.0], 2.0)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"federation": bytes(16)}, "does not fit"),
        ({"round": 1}, "does not fit"),
        ({"model_round": 1}, "does not fit"),
        ({"model": bytes(32)}, "does not fit"),
        ({"features": bytes(32)}, "does not fit"),
        ({"nonce": bytes(16)}, "does not fit"),
        ({"n": 4}, "does not fit"),
        ({"clients": (11,)}, "does not fit"),
        ({"clients": (10, 11)}, "does not fit"),
        ({"clients": ()}, "must name the device's client"),
        ({"kind": Kind.SUMMED}, "does not fit"),
        ({"kind": Kind.WELCOME}, "does not fit"),
        ({"payload": b""}, "number type"),
        ({"payload": b"f"}, "number type"),
        ({"payload": b"f" + bytes(20)}, "bytes for 1 messages"),
    ],
)
def test_an_answer_must_be_to_this_ask_and_of_this_client(changes, told):
    with pytest.raises(Malformed, match=told):
        checked(step_of(), 10, **changes)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_answer(text):
    with pytest.raises(Malformed):
        step_of().checked(10, text)


def test_messages_of_es_are_whole_numbers_and_nothing_else():
    agreement = agreed(learner=ES(), sessions=ES().sessions)
    step = step_of(ask_of(agreement), agreement)
    sent = (7, *np.array([0.25, 0.5], np.float32).view(np.uint32).tolist())
    honest = {"weight": float(ES().sessions), "words": np.uint32, "update": sent}
    answers = {10: checked(step, 10, **honest), 12: checked(step, 12, **honest)}
    assert rows(step.joined(answers)) == dict.fromkeys((10, 12), (list(sent), honest["weight"]))
    for lie in (
        {"words": np.float32, "update": (1.0, 0.5, 0.5)},
        {"update": sent[:2]},
        {"update": (7, 2**32 - 1, 5)},  # a reward that is not a number
    ):
        with pytest.raises(Malformed):
            checked(step, 11, **{**honest, **lie})


def test_answers_of_another_form_are_left_out_and_damage_nobody():
    """Even if a learner accepted them: the form of most answers counts."""
    step = step_of()
    answers = {id: checked(step, id) for id in (10, 12)}
    short = write_updates(np.ones((1, 2), np.float32), np.ones(1))
    answers[11] = replace(answers[10], clients=(11,), payload=short)
    assert rows(step.joined(answers)).keys() == {10, 12}


@pytest.mark.parametrize("code", ["forget", "hello", "agreement", "clients"])
def test_what_devices_refuse_is_not_said_of_the_whole_gateway(code):
    """The server forgets and excludes a node that refuses with 'forget'."""
    step = step_of(ask_of(clients=(10,)))
    joined = step.joined({10: checked(step, 10, refused, code=code)})
    assert read_refusal(joined.payload) == ("failed", "no more (1 of 1 devices)")


def test_if_everybody_refuses_the_most_frequent_reason_is_told():
    step = step_of()
    answers = {10: checked(step, 10, refused, code="n"), 11: checked(step, 11, refused)}
    answers[12] = checked(step, 12, refused)
    joined = step.joined(answers)
    assert joined.kind == Kind.REFUSED and joined.clients == ()
    assert read_refusal(joined.payload) == ("budget", "no more (2 of 3 devices)")
    code, text = read_refusal(step.joined({}).payload)
    assert code == "failed" and "no device answered" in text


def test_a_refusal_must_be_a_code_and_a_text():
    step = step_of()
    for payload in (b"", b"{}", b"[" * 9000, b'{"code": 1, "text": "a"}'):
        with pytest.raises(Malformed, match="refusal"):
            checked(step, 10, refused, payload=payload)


@pytest.mark.parametrize("ask", [ask_of(SUMS), open_of(), sum_of({10: b"a", 11: b"b"})])
def test_a_refusal_that_names_its_client_is_none(ask):
    """It would be taken for a message when answers are joined, and spoil those of all devices."""
    step = step_of(ask, SUMS)
    with pytest.raises(Malformed, match="names no client"):
        checked(step, 10, refused, clients=(10,))


@pytest.mark.parametrize("payload", [b"", b"\1\0\0\0", b"\2\0\0\0" + bytes(8), bytes(4)])
def test_a_message_of_a_secure_sum_is_one_part(payload):
    step = step_of(open_of(), SUMS)
    with pytest.raises(Malformed):
        checked(step, 10, summed, payload=payload)


@pytest.mark.parametrize("ask", [open_of(), sum_of({10: b"a", 11: b"b"})])
def test_a_message_of_a_secure_sum_is_no_longer_than_honest_ones(ask):
    """Sixteen devices with 4 MB each would make an answer that the server does not take."""
    step, most = step_of(ask, SUMS), longest(terms_of())
    checked(step, 10, summed, message=bytes(most))
    with pytest.raises(Malformed, match=f"a message of {most + 1} bytes, {most} are enough"):
        checked(step, 10, summed, message=bytes(most + 1))
    with pytest.raises(Malformed):
        checked(step, 10, summed, message=bytes(4_000_000))


@pytest.mark.parametrize(("ask", "each"), [(ask_of(), 24), (open_of(), 8 + longest(terms_of()))])
def test_answers_that_fit_in_no_frame_are_not_asked_for(monkeypatch, ask, each):
    monkeypatch.setattr(steps, "LARGEST", 3 * each)
    step_of(ask, SUMS)
    monkeypatch.setattr(steps, "LARGEST", 3 * each - 1)
    with pytest.raises(Refusal, match="the answers of 3 devices are larger than a frame") as found:
        step_of(ask, SUMS)
    assert found.value.code == "size"


def test_rewards_are_few_whatever_the_size_of_the_model(monkeypatch):
    monkeypatch.setattr(steps, "LARGEST", 30)
    with pytest.raises(Refusal, match="larger than a frame"):
        step_of(ask_of())
    agreement = agreed(learner=ES(), sessions=ES().sessions)
    step = step_of(ask_of(agreement), agreement)
    assert Frame.from_bytes(step.ask_for(10)) == replace(step.ask, clients=(10,))


def test_an_answer_may_be_made_on_an_earlier_model_that_was_passed_on():
    """At most `separation` rounds old, and no other model."""
    agreement, old = agreed(separation=2), {t: bytes([t]) * 32 for t in (3, 4, 5, 6)}
    step = step_of(ask_of(agreement, t=6, model=old[6]), agreement, old)
    for t in (4, 5):
        answer = checked(step, 10, model_round=t, model=old[t])
        assert rows(step.joined({10: answer})).keys() == {10}
    for t, model in ((3, old[3]), (7, old[6]), (4, old[5]), (5, bytes(32)), (6, old[5])):
        with pytest.raises(Malformed):
            checked(step, 10, model_round=t, model=model)
    unknown = step_of(step.ask, agreement, {6: old[6]})
    with pytest.raises(Malformed, match="did not pass on"):
        checked(unknown, 10, model_round=5, model=old[5])


def test_without_separation_an_answer_is_made_on_the_model_of_the_ask():
    step = step_of(ask_of(t=6), models={5: bytes(32)})
    with pytest.raises(Malformed, match="does not fit"):
        checked(step, 10, model_round=5, model=bytes(32))


def test_the_weights_of_a_round_of_unlearning_are_smaller():
    agreement = agreed(learner=PDGD(sessions=4), sessions=4)
    step = step_of(ask_of(agreement, payload=Model(PARAMS, 1, 0).to_bytes()), agreement)
    checked(step, 10, weight=1.0)
    with pytest.raises(Malformed, match="weight"):
        checked(step, 10, weight=4.0)


@pytest.mark.parametrize(
    "ask",
    [
        ask_of(payload=b""),
        ask_of(payload=Model(PARAMS[:2]).to_bytes()),
        ask_of(payload=Model(PARAMS * np.float32(np.nan)).to_bytes()),
        ask_of(SUMS, Kind.OPEN),  # no list of clients
        ask_of(SUMS, Kind.OPEN, payload=b""),
        ask_of(SUMS, Kind.SUM),
        replace(sum_of({10: b"a", 11: b"b"}), clients=(10,)),
    ],
)
def test_an_ask_that_cannot_be_divided_is_malformed(ask):
    with pytest.raises(Malformed):
        step_of(ask, SUMS)


def test_the_largest_answers_fit_into_what_is_received():
    for step in (Step(open_of(), SUMS, {}), Step(sum_of({10: b"a", 11: b"b"}), SUMS, {})):
        text = summed(step.ask_for(10), bytes(step._longest))
        step.checked(10, text)
        assert len(text) == HEADER.size + 12 + step._longest <= step.most
    step = Step(ask_of(), AGREED, {})
    for text in (learned(step.ask_for(10)), refused(step.ask_for(10), "budget", "x" * 2000)):
        step.checked(10, text)
        assert len(text) <= step.most


def test_what_is_received_grows_with_the_model():
    wide = agreed(features=tuple(f"f{i}" for i in range(5000)))
    model = Model(np.zeros(5000, np.float32))
    ask = ask_of(wide, payload=model.to_bytes(), model=model_digest(model.params))
    assert Step(ask, wide, {}).most >= HEADER.size + 4 + 5 + 8 + 4 * 5000
