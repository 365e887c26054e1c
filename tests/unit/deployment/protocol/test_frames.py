"""Frames: one form for each, and nothing but Malformed for all other bytes."""

import random
import struct
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_federation import PARAMS, agreed, ask_of, participant_of

from foltr.core.scoring import names_hash
from foltr.deployment.protocol import frames
from foltr.deployment.protocol.frames import (
    ANSWERS,
    CODES,
    HEADER,
    Frame,
    Kind,
    Malformed,
    Model,
    printable,
    read_parts,
    read_refusal,
    read_updates,
    refusal,
    write_parts,
    write_updates,
)

WORD = st.integers(0, 2**32 - 1)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def any_frame(draw):
    clients = tuple(sorted(draw(st.sets(WORD, max_size=20))))
    return Frame(
        draw(st.sampled_from(Kind)),
        draw(st.binary(min_size=16, max_size=16)),
        draw(WORD),
        draw(WORD),
        draw(st.binary(min_size=32, max_size=32)),
        draw(st.binary(min_size=32, max_size=32)),
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(len(clients), 2**32 - 1)),
        clients,
        draw(st.binary(max_size=100)),
    )


@given(any_frame())
def test_a_frame_goes_there_and_back(frame):
    text = frame.to_bytes()
    assert Frame.from_bytes(text) == frame
    assert Frame.from_bytes(text).to_bytes() == text


@given(any_frame(), st.integers(0, 10**6))
def test_a_frame_has_one_form(frame, where):
    """Bytes that differ are another frame, or none."""
    text = bytearray(frame.to_bytes())
    text[where % len(text)] ^= 1 + where % 255
    try:
        other = Frame.from_bytes(bytes(text))
    except Malformed:
        return
    assert other != frame and other.to_bytes() == bytes(text)


@given(any_frame(), st.binary(min_size=1, max_size=9))
def test_a_longer_or_shorter_frame_is_none(frame, more):
    text = frame.to_bytes()
    for wrong in (text + more, more + text, text[:-1], text[: len(text) // 2], b""):
        if wrong != text:
            with pytest.raises(Malformed):
                Frame.from_bytes(wrong)


@given(st.binary(max_size=400))
def test_other_bytes_are_no_frame(text):
    with pytest.raises(Malformed):
        Frame.from_bytes(text)


def header(**changes):
    fields = dict(
        zip(
            "magic version kind federation round model_round model features nonce n count length"
            .split(),
            (b"fF", 2, 3, bytes(16), 0, 0, bytes(32), bytes(32), bytes(16), 5, 0, 0),
            strict=True,
        )
    )  # fmt: skip
    return HEADER.pack(*(fields | changes).values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (header(magic=b"fS"), "begins with"),
        (header(version=0), "the other foltr is older"),
        (header(version=3), "update it"),
        (header(version=1), "the other foltr is older"),
        (header(kind=0), "unknown kind, 0"),
        (header(kind=99), "unknown kind, 99"),
        (header(count=1), "1 clients and 0 bytes announced"),
        (header(count=2**32 - 1), "announced"),
        (header(length=2**64 - 1), "announced"),
        (header(length=1), "announced"),
        (header(count=2) + struct.pack("<II", 3, 3), "ascending"),
        (header(count=2) + struct.pack("<II", 3, 2), "ascending"),
        (header(n=1, count=2) + struct.pack("<II", 2, 3), "2 clients in a round of 1"),
        (header()[:-1], "got 123"),
        ("text", "got str"),
        (bytearray(header()), "got bytearray"),
        (None, "got NoneType"),
    ],
)
def test_what_is_wrong_is_told(text, told):
    with pytest.raises(Malformed, match=told):
        Frame.from_bytes(text)


def test_announced_counts_allocate_nothing():
    """A header of 124 bytes that announces a million clients and 2^63 bytes."""
    with pytest.raises(Malformed):
        Frame.from_bytes(header(count=10**6, length=2**63, n=10**6))
    updates, weights = read_updates(b"f" + struct.pack("<I", 2**32 - 1), 0)
    assert updates.nbytes == weights.nbytes == 0
    with pytest.raises(Malformed):
        read_updates(b"f" + struct.pack("<I", 2**32 - 1) + bytes(8), 1)
    with pytest.raises(Malformed):
        read_parts(struct.pack("<II", 1, 2**32 - 1), 1)
    with pytest.raises(Malformed):
        read_parts(struct.pack("<I", 10**6), 10**6)


def test_a_frame_that_is_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr(frames, "LARGEST", 200)
    Frame.from_bytes(header(length=50) + bytes(50))
    with pytest.raises(Malformed, match="200 bytes"):
        Frame.from_bytes(header(length=80) + bytes(80))


@pytest.mark.parametrize(
    "changes",
    [
        {"federation": b"x" * 16},
        {"round": 8},
        {"model_round": 8},
        {"model": b"x" * 32},
        {"features": b"x" * 32},
        {"nonce": b"x" * 16},
        {"n": 4},
        {"clients": (0, 3)},
        {"clients": (7,)},
        {"kind": Kind.SUMMED},
        {"kind": Kind.WELCOME},
        {"kind": Kind.LEARN},
    ],
)
def test_an_answer_repeats_the_header_and_names_no_other_client(changes):
    ask = ask_of(agreed(), t=7)
    answer = ask.answer(Kind.LEARNED, (0, 2), b"numbers")
    assert answer.answers(ask) and ask.answer(Kind.REFUSED, (), b"").answers(ask)
    assert not replace(answer, **changes).answers(ask)


@pytest.mark.parametrize("kind", Kind)
def test_every_ask_has_one_kind_of_answer(kind):
    ask = ask_of(agreed(), kind)
    fits = {other for other in Kind if ask.answer(other, (), b"").answers(ask)}
    assert fits == ({ANSWERS[kind], Kind.REFUSED} if kind in ANSWERS else {Kind.REFUSED})


@given(st.lists(FLOATS, max_size=20), WORD, st.integers(-1, 2**63 - 1))
def test_a_model_goes_there_and_back(params, sessions, stored):
    model = Model(np.array(params, np.float32), sessions, stored)
    back = Model.from_bytes(model.to_bytes(), len(params))
    np.testing.assert_array_equal(back.params, model.params)
    assert (back.sessions, back.stored) == (sessions, stored)


@pytest.mark.parametrize(
    ("model", "d", "told"),
    [
        (Model(PARAMS), 2, "2 parameters"),
        (Model(PARAMS), 4, "4 parameters"),
        (Model(PARAMS * np.float32(np.inf)), 3, "not finite"),
        (Model(PARAMS * np.float32(np.nan)), 3, "not finite"),
        (Model(PARAMS, 0, -2), 3, "stored round -2"),
    ],
)
def test_what_is_no_model(model, d, told):
    with pytest.raises(Malformed, match=told):
        Model.from_bytes(model.to_bytes(), d)


@given(st.integers(0, 5), st.integers(0, 9), st.sampled_from([np.float32, np.uint32]), WORD)
def test_updates_go_there_and_back(n, p, kind, seed):
    draws = np.random.default_rng(seed)
    words = draws.integers(0, 2**32, (n, p), np.uint32)
    updates, weights = words.view(kind), draws.random(n)  # NaN among them: the learner refuses it
    back, w = read_updates(write_updates(updates, weights), n)
    assert back.dtype == kind and back.shape == (n, p)
    assert back.tobytes() == updates.tobytes() and w.tolist() == weights.tolist()


@given(st.binary(max_size=60), st.integers(0, 4))
def test_other_bytes_are_no_updates_and_no_parts(payload, n):
    """What is read is written by the same bytes."""
    with suppress(Malformed):
        assert write_updates(*read_updates(payload, n)) == payload
    with suppress(Malformed):
        assert write_parts(read_parts(payload, n)) == payload


@given(st.lists(st.binary(max_size=20), max_size=6), st.integers(0, 7))
def test_parts_go_there_and_back(parts, other):
    text = write_parts(parts)
    assert read_parts(text, len(parts)) == parts
    if other != len(parts):
        with pytest.raises(Malformed):
            read_parts(text, other)
    with pytest.raises(Malformed):
        read_parts(text + b"x", len(parts))


@given(st.sampled_from(sorted(CODES)), st.text(max_size=200).map(lambda text: text * 20))
def test_a_refusal_goes_there_and_back_as_printable_text(code, text):
    payload = refusal(code, text)
    got, told = read_refusal(payload)
    assert got == code and len(told) <= frames.TEXT
    assert told == printable(text, frames.TEXT) and all(" " <= c <= "~" for c in told)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"code": "n"}',
        b'{"code": "n", "text": 1}',
        b'{"code": "n", "text": "a", "more": "b"}',
        b"\xff",
        b"[" * 10**4,
        b"1" * 10**4,
        b'"' + b"a" * 20_000 + b'"',
    ],
)
def test_what_is_no_refusal(payload):
    with pytest.raises(Malformed):
        read_refusal(payload)


def test_nobody_can_fill_the_servers_counts_with_codes():
    assert read_refusal(refusal("<b>", "why")) == ("refused", "why")


def test_names_of_features_are_hashed_in_order():
    assert names_hash(("a", "b")) != names_hash(("b", "a")) != names_hash(("a", "b,"))


def mutated(rng, texts):
    """A frame that was damaged on its way, in one of many ways."""
    text = bytearray(rng.choice(texts))
    match rng.randrange(6):
        case 0:
            for _ in range(rng.randint(1, 4)):
                text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
        case 1:
            del text[rng.randrange(len(text)) :]
        case 2:
            text += rng.randbytes(rng.randint(1, 40))
        case 3:
            other = rng.choice(texts)
            text[rng.randrange(len(text)) :] = other[rng.randrange(len(other)) :]
        case 4:
            at = rng.randrange(len(text))
            text[at : at + rng.randint(1, 8)] = rng.randbytes(rng.randint(0, 8))
        case _:  # a whole header field of another value, with all lengths right
            at = rng.choice((3, 4, 20, 24, 28, 60, 92, 108, 124, 128))
            text[at : at + 4] = rng.choice((bytes(4), b"\xff" * 4, b"\1\0\0\0", rng.randbytes(4)))
    return bytes(text)


def test_100_000_damaged_frames_raise_nothing_but_malformed():
    rng, agreement = random.Random(1), agreed()
    texts = [ask_of(agreement, kind).to_bytes() for kind in Kind]
    read = 0
    for _ in range(100_000):
        text = mutated(rng, texts)
        try:
            assert Frame.from_bytes(text).to_bytes() == text
            read += 1
        except Malformed:
            continue
    assert 20_000 < read < 90_000


def test_a_device_answers_100_000_damaged_asks_or_finds_them_malformed():
    rng, agreement = random.Random(2), agreed(rounds=2**31 - 1)
    participant = participant_of(agreement)
    texts = [
        ask_of(agreement, kind, t=t, how=how).to_bytes()
        for kind, t, how in ((Kind.LEARN, 0, (0, -1)), (Kind.LEARN, 9, (1, -1)))
    ]
    texts += [ask_of(agreement, Kind.LEARN, how=(2, 0)).to_bytes()]
    texts += [ask_of(agreement, kind, payload=b"").to_bytes() for kind in Kind]
    parts = write_parts([b"\3", b"terms", b"a", b"b", b"c"])
    texts += [ask_of(agreement, Kind.SUM, payload=parts).to_bytes()]
    kinds = dict.fromkeys(Kind, 0)
    for _ in range(100_000):
        text = mutated(rng, texts)
        try:
            answer = Frame.from_bytes(participant.answer(text))
        except Malformed:
            continue
        assert answer.answers(Frame.from_bytes(text))
        kinds[answer.kind] += 1
    assert kinds[Kind.REFUSED] > 10_000 and kinds[Kind.WELCOME] > 100 and kinds[Kind.LEARNED] > 20
