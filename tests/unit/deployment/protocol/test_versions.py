"""Versions of the protocol: server and nodes of neighbouring versions work together. The next
version is made up: a foltr that writes 3 and understands 2."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_federation import PARAMS, agreed, answered, ask_of, participant_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.components.channels.secure_sum import SecureSum
from foltr.core import Ask
from foltr.deployment.protocol import exchange, frames
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.frames import HEADER, Frame, Kind, Malformed, Welcome
from foltr.deployment.protocol.in_process import InProcessGrid
from foltr.deployment.protocol.sums import SumParticipant

AGREED = agreed(rounds=99)
OF_NODES = {10 + i: range(i, i + 1) for i in range(3)}
VERSION = 2  # byte of a frame that has its version


def version_of(text):
    return text[VERSION]


def of_version_1(answer):
    """A node of the first foltr: it knows one version, and its WELCOME is empty."""

    def older(text):
        assert version_of(text) == 1, "it would not understand this"
        frame = Frame.from_bytes(answer(text))
        return replace(
            frame, payload=b"" if frame.kind == Kind.WELCOME else frame.payload
        ).to_bytes()

    return older


def of_version_3(answer):
    """A node of the next foltr. It says so in its WELCOME, and adds a key that nobody knows."""

    def newer(text):
        assert version_of(text) in (1, 2)
        frame = Frame.from_bytes(answer(text))
        if frame.kind == Kind.WELCOME:
            frame = replace(frame, payload=b'{"version": 3, "roll": false, "news": [1]}')
        return frame.to_bytes()

    return newer


def engine_of(agreement, changed=lambda node, answer: answer, asked=None):
    participants = {node: participant_of(agreement, clients=own) for node, own in OF_NODES.items()}
    if agreement.protocol is not None:
        for participant in participants.values():
            participant.sums = SumParticipant(agreement.protocol, agreement.fewest)
    seen = [] if asked is None else asked

    def noted(node, participant):
        def answer(text):
            seen.append((node, version_of(text)))
            return participant.answer(text)

        return changed(node, answer)

    grid = InProcessGrid(
        {node: noted(node, participant) for node, participant in participants.items()}
    )
    made = {"patience": 0.0, "message": grid.create_message}
    return Flower(grid, agreement, lambda: OF_NODES, **made)


def rounds(engine, many=3):
    found = []
    for t in range(many):
        got = engine.collect(Ask(PARAMS, t, 3), np.arange(3)).arrived
        found.append(got.updates.tobytes() + got.weights.tobytes())
    assert not engine.failures
    return found


@pytest.mark.parametrize("changes", [{}, {"channel": SecureSum(), "fewest": 2}])
@pytest.mark.parametrize(
    ("other", "speaks"), [(of_version_1, 1), (of_version_3, 2), (lambda answer: answer, 2)]
)
def test_one_node_of_another_version_takes_part_like_the_others(changes, other, speaks):
    agreement, asked = agreed(rounds=99, **changes), []
    mixed = engine_of(agreement, lambda node, a: other(a) if node == 11 else a, asked)
    assert rounds(mixed) == rounds(engine_of(agreement))
    versions = [version for node, version in asked if node == 11]
    assert versions[0] == 1 and set(versions[1:]) == {speaks}  # HELLO is of the first one
    assert {version for node, version in asked[3:] if node != 11} == {2}


@pytest.mark.parametrize("changes", [{}, {"channel": SecureSum(), "fewest": 2}])
def test_a_server_of_the_next_version_works_with_the_nodes_of_this_one(changes, monkeypatch):
    agreement, asked = agreed(rounds=99, **changes), []
    before = rounds(engine_of(agreement))
    monkeypatch.setattr(exchange, "VERSION", 3)
    monkeypatch.setattr(exchange, "OLDEST", 2)
    assert rounds(engine_of(agreement, asked=asked)) == before
    assert [version for _, version in asked[:3]] == [1] * 3  # HELLO
    assert {version for _, version in asked[3:]} == {2}


def test_versions_that_do_not_meet_say_which_side_is_older(monkeypatch):
    hello = ask_of(AGREED, Kind.HELLO, clients=(0,), payload=AGREED.text.encode())
    with pytest.raises(Malformed, match=r"version 3 .* understands 1 \.\. 2: this foltr is older"):
        participant_of(AGREED, clients=range(1)).answer(replace(hello, version=3).to_bytes())
    monkeypatch.setattr(frames, "OLDEST", 3)
    monkeypatch.setattr(frames, "VERSION", 4)
    with pytest.raises(Malformed, match=r"version 2 .* understands 3 \.\. 4: the other foltr"):
        participant_of(AGREED, clients=range(1)).answer(hello.to_bytes())


def test_a_server_that_is_two_versions_ahead_leaves_out_the_node_and_counts_it(monkeypatch):
    engine, told = engine_of(AGREED), []
    engine.tell = lambda node, kind, text: told.append(text)
    for name, version in (("OLDEST", 3), ("VERSION", 4)):
        monkeypatch.setattr(frames, name, version)
    assert engine.agreeing() == {} and engine.failures == {"malformed": 3}
    assert "version 2 of the protocol, but this foltr understands 3 .. 4" in told[0]


def test_an_answer_has_the_version_of_its_ask():
    participant = participant_of(AGREED)
    for version in (1, 2):
        ask = replace(ask_of(AGREED, t=version), version=version)
        assert answered(participant, ask).version == version


def test_new_kinds_are_unknown_in_the_old_version():
    frame = ask_of(AGREED, Kind.ROLL, clients=(), payload=b"")
    assert Frame.from_bytes(frame.to_bytes()) == frame
    with pytest.raises(Malformed, match="unknown kind, 10"):
        Frame.from_bytes(replace(frame, version=1).to_bytes())
    assert HEADER.size == 124  # version 1 and 2 have one header


@given(st.integers(1, 10**6), st.booleans(), st.none() | st.integers(0, 2**32 - 1))
def test_a_welcome_goes_there_and_back(version, roll, answered):
    welcome = Welcome(version, roll, answered)
    assert Welcome.from_bytes(welcome.to_bytes()) == welcome


def test_an_empty_welcome_is_of_version_1():
    assert Welcome.from_bytes(b"") == Welcome(1, False, None)


@pytest.mark.parametrize(
    "payload",
    [
        b"{", b"[]", b"1", b'{"version": 0}', b'{"version": true}', b'{"version": "2"}',
        b'{"roll": 1}', b'{"answered": -1}', b'{"answered": 4294967296}', b'{"answered": 1.0}',
        b'{"a": "' + b"x" * 3000 + b'"}',
    ],
)  # fmt: skip
def test_a_welcome_that_is_none(payload):
    with pytest.raises(Malformed, match="a welcome must"):
        Welcome.from_bytes(payload)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_welcome_or_malformed(payload):
    try:
        assert isinstance(Welcome.from_bytes(payload), Welcome)
    except Malformed:
        pass


def test_a_node_tells_how_many_rounds_it_has_seen():
    participant = participant_of(AGREED)
    hello = ask_of(AGREED, Kind.HELLO, payload=AGREED.text.encode())
    assert Welcome.from_bytes(answered(participant, hello).payload) == Welcome(answered=0)
    answered(participant, ask_of(AGREED, t=6))
    assert Welcome.from_bytes(answered(participant, hello).payload).answered == 7
