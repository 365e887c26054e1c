"""Versions of the protocol: lists of clients, welcomes, answers on earlier models."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_federation import agreed, ask_of

from foltr.deployment.protocol import frames
from foltr.deployment.protocol.frames import (
    ALL_CLIENTS,
    FIRST,
    SINCE,
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


@given(IDS, st.sampled_from([1, 2]))
def test_a_list_is_read_as_it_was_written(ids, version):
    text = write_ids(np.array(ids, np.int64), version)
    found = read_ids(text, version)
    assert found.tolist() == ids and found.dtype == np.int64


@given(IDS)
def test_a_list_has_the_shorter_of_two_forms(ids):
    whole = 4 * len(ids)
    bits = 5 + (ids[-1] - ids[0]) // 8 if ids else whole
    assert len(write_ids(np.array(ids, np.int64), 2)) == 1 + min(whole, bits)
    assert len(write_ids(np.array(ids, np.int64), 1)) == whole


@given(IDS, st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_a_list_has_one_form(ids, where, version):
    """Bytes that differ are another list, or none."""
    text = bytearray(write_ids(np.array(ids, np.int64), version))
    if not text:
        return
    text[where % len(text)] ^= 1 + where % 255
    try:
        found = read_ids(bytes(text), version)
    except Malformed:
        return
    assert found.tolist() != ids and write_ids(found, version) == bytes(text)


@given(st.binary(max_size=60), st.sampled_from([1, 2]))
def test_random_bytes_are_malformed_or_a_list_in_its_one_form(text, version):
    try:
        found = read_ids(text, version)
    except Malformed:
        return
    assert (np.diff(found) > 0).all() and write_ids(found, version) == text


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
        read_ids(text, 2)


def test_a_list_of_bits_has_a_largest_size():
    assert len(read_ids(b"b" + bytes(4) + b"\xff" * (ALL_CLIENTS // 8), 2)) == ALL_CLIENTS
    with pytest.raises(Malformed):
        read_ids(b"b" + bytes(4) + b"\xff" * (ALL_CLIENTS // 8 + 1), 2)


# --- frames of version 1 ---


@pytest.mark.parametrize("kind", Kind)
def test_frames_of_version_1_are_read(kind):
    text = replace(ask_of(agreed(), kind), version=1).to_bytes()
    if SINCE.get(kind, 1) > 1:
        with pytest.raises(Malformed, match="unknown kind"):
            Frame.from_bytes(text)
    else:
        assert Frame.from_bytes(text).version == 1
        assert Frame.from_bytes(text).to_bytes() == text


def test_an_answer_of_another_version_does_not_fit():
    ask = ask_of(agreed())
    answer = ask.answer(Kind.LEARNED, (0,), b"")
    assert answer.answers(ask) and not replace(answer, version=1).answers(ask)


def test_a_later_foltr_still_understands_hello_and_nothing_else_of_version_1(monkeypatch):
    """Which is what lets it tell that it does not understand the rest."""
    monkeypatch.setattr(frames, "VERSION", 4)
    monkeypatch.setattr(frames, "OLDEST", 3)
    for kind in Kind:
        text = replace(ask_of(agreed(), kind), version=FIRST).to_bytes()
        if kind in (Kind.HELLO, Kind.WELCOME, Kind.REFUSED):
            assert Frame.from_bytes(text).kind == kind
        else:
            with pytest.raises(Malformed, match=r"version 1 .* understands 3 \.\. 4: the other"):
                Frame.from_bytes(text)
        second = replace(ask_of(agreed(), kind), version=2).to_bytes()
        with pytest.raises(Malformed, match="version 2"):
            Frame.from_bytes(second)


# --- welcomes ---


@given(
    st.integers(1, 9),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    st.integers(1, 9),
)
def test_a_welcome_is_read_as_it_was_written(version, roll, rounds, oldest):
    welcome = Welcome(max(version, oldest), roll, rounds, oldest)
    assert Welcome.from_bytes(welcome.to_bytes()) == welcome


def test_what_a_later_version_adds_to_a_welcome_is_ignored():
    text = json.dumps({"version": 7, "roll": True, "shape": [1, 2]}).encode()
    assert Welcome.from_bytes(text) == Welcome(7, True, None, 1)


@pytest.mark.parametrize(
    "content",
    [
        [],
        "x",
        {"version": "2"},
        {"version": 2.0},
        {"version": True},
        {"version": 0},
        {"version": 2, "roll": 1},
        {"version": 2, "oldest": 3},
        {"version": 2, "oldest": 0},
        {"version": 2, "oldest": "1"},
        {"version": 2, "answered": -1},
        {"version": 2, "answered": 2**32},
        {"version": 2, "answered": 1.0},
        {"version": 2, "more": "x" * 3000},
    ],
)
def test_malformed_welcomes_are_refused(content):
    with pytest.raises(Malformed):
        Welcome.from_bytes(json.dumps(content).encode())
    for text in (b"\xff", b"[" * 1999):
        with pytest.raises(Malformed):
            Welcome.from_bytes(text)


def test_a_node_with_no_version_in_common_gets_a_reason(monkeypatch):
    monkeypatch.setattr(frames, "VERSION", 3)
    monkeypatch.setattr(frames, "OLDEST", 2)
    for version, oldest in ((2, 1), (3, 2), (4, 3), (9, 1)):
        Welcome(version, oldest=oldest).check()
    with pytest.raises(Malformed, match=r"version 1 .* understands 2 \.\. 3: the other foltr is"):
        Welcome(1, oldest=1).check()
    with pytest.raises(Malformed, match=r"version 4 .* 2 \.\. 3: this foltr is older: update it"):
        Welcome(5, oldest=4).check()


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
    "changes", [{"round": 8}, {"nonce": b"x" * 16}, {"n": 4}, {"clients": (7,)}, {"version": 1}]
)
def test_only_the_model_of_an_answer_may_differ(changes):
    ask = ask_of(agreed(), t=7)
    answer = ask.answer(Kind.LEARNED, (0,), b"")
    early = replace(answer, model_round=6, model=b"x" * 32)
    assert early.answers(ask, 1) and not replace(early, **changes).answers(ask, 1)
