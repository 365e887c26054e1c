"""Lists of clients, welcomes, answers on earlier models, and frames of another version."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_federation import agreed, answered, ask_of, participant_of

from foltr.deployment.protocol.frames import (
    ALL_CLIENTS,
    Frame,
    Kind,
    Malformed,
    Welcome,
    read_ids,
    write_ids,
)

IDS = st.one_of(
    st.sets(st.integers(0, 2**32 - 1), max_size=30),
    st.sets(st.integers(0, 200), max_size=60),
    st.tuples(st.integers(0, 2**32 - 300), st.sets(st.integers(0, 250), max_size=99)).map(
        lambda pair: {pair[0] + i for i in pair[1]}
    ),
).map(sorted)


# --- lists of clients ---


@given(IDS)
def test_a_list_is_read_as_it_was_written(ids):
    text = write_ids(np.array(ids, np.int64))
    found = read_ids(text)
    assert found.tolist() == ids and found.dtype == np.int64


@given(IDS)
def test_a_list_has_the_shorter_of_two_forms(ids):
    whole = 4 * len(ids)
    bits = 5 + (ids[-1] - ids[0]) // 8 if ids else whole
    assert len(write_ids(np.array(ids, np.int64))) == 1 + min(whole, bits)


@given(IDS, st.integers(0, 10**6))
def test_a_list_has_one_form(ids, where):
    """Bytes that differ are another list, or none."""
    text = bytearray(write_ids(np.array(ids, np.int64)))
    text[where % len(text)] ^= 1 + where % 255
    try:
        found = read_ids(bytes(text))
    except Malformed:
        return
    assert found.tolist() != ids and write_ids(found) == bytes(text)


@given(st.binary(max_size=60))
def test_random_bytes_are_malformed_or_a_list_in_its_one_form(text):
    try:
        found = read_ids(text)
    except Malformed:
        return
    assert (np.diff(found) > 0).all() and write_ids(found) == text


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"l\1",
        b"b",
        b"b" + bytes(4),
        b"l" + np.array([3, 3], "<u4").tobytes(),
        b"l" + np.array([4, 3], "<u4").tobytes(),
        b"l" + np.arange(99, dtype="<u4").tobytes(),  # bits are shorter
        b"b" + bytes(4) + b"\1",  # a list is shorter
        b"b" + bytes(4) + b"\xff" * 9 + b"\0",  # a byte too many
        b"b" + bytes(4) + b"\xfe" + b"\xff" * 9,  # its first client is not its first bit
        b"b" + b"\xff" * 4 + b"\xff" * 9,  # beyond the largest number
    ],
)
def test_malformed_lists_are_refused(text):
    with pytest.raises(Malformed):
        read_ids(text)


def test_a_list_of_bits_has_a_largest_size():
    assert len(read_ids(b"b" + bytes(4) + b"\xff" * (ALL_CLIENTS // 8))) == ALL_CLIENTS
    with pytest.raises(Malformed):
        read_ids(b"b" + bytes(4) + b"\xff" * (ALL_CLIENTS // 8 + 1))


# --- welcomes ---


@given(st.booleans(), st.one_of(st.none(), st.integers(0, 2**32 - 1)))
def test_a_welcome_is_read_as_it_was_written(roll, rounds):
    welcome = Welcome(roll, rounds)
    assert Welcome.from_bytes(welcome.to_bytes()) == welcome


def test_other_keys_of_a_welcome_are_ignored():
    text = json.dumps({"version": 7, "roll": True, "shape": [1, 2]}).encode()
    assert Welcome.from_bytes(text) == Welcome(True, None)


@pytest.mark.parametrize(
    "content",
    [
        [],
        "x",
        {"roll": 1},
        {"answered": -1},
        {"answered": 2**32},
        {"answered": 1.0},
        {"answered": True},
        {"more": "x" * 3000},
    ],
)
def test_malformed_welcomes_are_refused(content):
    with pytest.raises(Malformed):
        Welcome.from_bytes(json.dumps(content).encode())
    for text in (b"", b"\xff", b"[" * 1999):
        with pytest.raises(Malformed):
            Welcome.from_bytes(text)


# --- answers on earlier models ---


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 12), st.integers(0, 4))
def test_an_answer_on_an_earlier_model_is_at_most_so_many_rounds_behind(t, since, made, behind):
    """The model of the ask was first sent in round `since`; the answer names that of `made`."""
    since = min(since, t)
    ask = ask_of(agreed(), t=t, model_round=since)
    answer = ask.answer(Kind.LEARNED, (0,), b"")
    other = replace(answer, model_round=made, model=b"x" * 32)
    assert other.answers(ask, behind) == (t - behind <= made < since)
    assert answer.answers(ask, behind)
    assert not replace(answer, model=b"x" * 32).answers(ask, behind)
    if made != since:
        assert not replace(answer, model_round=made).answers(ask, 0)


@pytest.mark.parametrize(
    "changes", [{"round": 8}, {"nonce": b"x" * 16}, {"n": 4}, {"clients": (7,)}]
)
def test_only_the_model_of_an_answer_may_differ(changes):
    ask = ask_of(agreed(), t=7)
    answer = ask.answer(Kind.LEARNED, (0,), b"")
    early = replace(answer, model_round=6, model=b"x" * 32)
    assert early.answers(ask, 1) and not replace(early, **changes).answers(ask, 1)


def test_a_node_tells_how_many_rounds_it_has_seen():
    agreement = agreed(rounds=99)
    participant = participant_of(agreement)
    hello = ask_of(agreement, Kind.HELLO, payload=agreement.text.encode())
    assert Welcome.from_bytes(answered(participant, hello).payload) == Welcome(answered=0)
    answered(participant, ask_of(agreement, t=6))
    assert Welcome.from_bytes(answered(participant, hello).payload).answered == 7


# --- another version ---


def of_version(version, text):
    """The bytes of a frame that names another version."""
    return text[:2] + bytes([version]) + text[3:]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("version", "older"), [(1, "the other foltr"), (3, "this foltr")])
def test_a_frame_of_another_version_says_which_side_to_update(kind, version, older):
    text = of_version(version, ask_of(agreed(), kind).to_bytes())
    with pytest.raises(Malformed) as refused:
        Frame.from_bytes(text)
    assert str(refused.value) == (
        f"version {version} of the protocol, but this foltr speaks version 2: {older} is older:"
        " update it"
    )
