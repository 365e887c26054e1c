"""Clients that take part once in s rounds, and answers that are made on an earlier model."""

from dataclasses import replace

import numpy as np
import pytest
from small_federation import PARAMS, agreed, answered, ask_of, learned, participant_of, refused

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from federation_in_process import InProcessGrid
from foltr.core import Ask
from foltr.core.errors import Mistake
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.frames import Frame, Kind

APART = agreed(separation=3, rounds=9)


def test_a_device_takes_part_once_in_three_rounds(tmp_path):
    path = tmp_path / "device.db"
    assert set(learned(participant_of(APART, path=path), ask_of(APART, clients=(0, 1), t=4))) == {
        0,
        1,
    }
    again = participant_of(APART, path=path)  # after a restart
    assert refused(again, ask_of(APART, clients=(0,), t=5)) == "separation"
    assert refused(again, ask_of(APART, clients=(0,), t=6)) == "separation"
    assert set(learned(again, ask_of(APART, t=6))) == {2}  # who has not answered may
    assert set(learned(again, ask_of(APART, clients=(0, 1), t=7))) == {0, 1}
    assert {r.spent for r in again.records.of((0, 1)).values()} == {2}


def test_the_same_ask_is_repeated_and_another_model_in_its_round_is_refused():
    participant = participant_of(APART)
    first = learned(participant, ask_of(APART, t=4))
    assert learned(participant, ask_of(APART, t=4)) == first
    assert refused(participant, ask_of(APART, params=PARAMS + 1, t=4)) == "separation"
    plain = agreed(rounds=9)  # without separation it costs the budget of another round
    other = participant_of(plain)
    learned(other, ask_of(plain, t=4))
    assert set(learned(other, ask_of(plain, params=PARAMS + 1, t=4))) == {0, 1, 2}


@pytest.mark.parametrize("wrong", [0, -1, 2**31])
def test_separation_is_a_number_of_rounds(wrong):
    with pytest.raises(Mistake, match="separation must be in 1"):
        agreed(separation=wrong)


ASK = ask_of(APART, t=10, model_round=9)


@pytest.mark.parametrize(
    ("made_on", "behind", "fits"),
    [(9, 0, True), (8, 0, False), (8, 1, False), (8, 2, True), (7, 2, False), (7, 3, True),
     (6, 3, False), (10, 9, False), (11, 99, False)],
)  # fmt: skip
def test_how_old_a_model_may_be(made_on, behind, fits):
    answer = ASK.answer(Kind.LEARNED, (0,), b"")
    digest = ASK.model if made_on == 9 else b"m" * 32
    assert replace(answer, model_round=made_on, model=digest).answers(ASK, behind) == fits


def test_the_current_model_cannot_have_another_digest():
    assert not replace(ASK.answer(Kind.LEARNED, (0,), b""), model=b"m" * 32).answers(ASK, 9)


class Stale:
    """A node of three clients that answers every ask with what it has learned `late` rounds
    before."""

    def __init__(self, agreement, late):
        self.participant, self.late, self.kept = participant_of(agreement), late, {}
        self.wrong_digest = False
        grid = InProcessGrid({7: self.answer})
        made = {"patience": 0.0, "message": grid.create_message}
        self.engine = Flower(grid, agreement, Members({7: range(3)}), **made)

    def answer(self, text):
        ask = Frame.from_bytes(text)
        if ask.kind != Kind.LEARN:
            return self.participant.answer(text)
        self.kept[ask.round] = ask
        older = self.kept.get(ask.round - self.late, ask)
        other = participant_of(self.participant.agreement)  # without a memory of its answers
        made = replace(ask, model_round=older.model_round, model=older.model)
        learned_then = Frame.from_bytes(other.answer(older.to_bytes()))
        digest = b"?" * 32 if self.wrong_digest else made.model
        return replace(
            made, kind=Kind.LEARNED, clients=(0, 1, 2), payload=learned_then.payload, model=digest
        ).to_bytes()

    def round(self, t):
        return self.engine.collect(Ask(PARAMS + np.float32(t), t, 3), np.arange(3)).arrived


def test_the_server_accepts_what_was_made_on_a_model_at_most_s_rounds_old():
    here = Stale(agreed(separation=2, rounds=99), late=2)
    first, _, third = (here.round(t) for t in range(3))
    assert third.updates.tolist() == first.updates.tolist() and not here.engine.failures


def test_the_server_refuses_an_older_one_and_one_that_it_never_sent():
    late = Stale(agreed(separation=2, rounds=99), late=3)
    assert [len(late.round(t)) for t in range(4)] == [3, 3, 3, 0]
    assert late.engine.failures == {"malformed": 1}
    invented = Stale(agreed(separation=2, rounds=99), late=1)
    assert len(invented.round(0)) == 3
    invented.wrong_digest = True
    assert len(invented.round(1)) == 0 and invented.engine.failures == {"malformed": 1}


def test_a_device_that_is_asked_names_the_current_model():
    answer = answered(participant_of(APART), ASK)
    assert (answer.model_round, answer.model) == (9, ASK.model)
