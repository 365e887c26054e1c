"""A federation of three features and a few clients, asked frame by frame."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core import Answers, Cohort
from foltr.core.guards import privatized
from foltr.core.seeds import SystemStream
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    Frame,
    Kind,
    Model,
    read_refusal,
    read_updates,
    write_ids,
    write_parts,
)
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.secure_sum.terms import model_digest

FEATURES = ("words", "age", "links")
PARAMS = np.array([0.5, -1.0, 2.0], np.float32)
_nonces = count(1)


def agreed(**changes):
    usual = {"asked": 3, "fewest": 1, "sessions": 2, "rounds": 4}
    given = {"ranker": Linear(), "learner": PDGD(sessions=2), "features": FEATURES}
    return Agreement(**{**given, **usual, **changes})


@dataclass
class Small:
    """Client c sends the model plus c + 1 and what its device keeps, and keeps one more."""

    clients: int = 3
    kept: int = 0
    privacy: object = None
    weight: float = 2.0
    kind: type = np.float32
    fails: set = field(default_factory=set)
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self.memory = np.zeros((self.clients, self.kept), np.float32)

    def collect(self, ask, clients):
        self.asked.append(clients.tolist())
        rows = []
        for c in clients.tolist():
            kept = self.memory[c].sum()
            self.memory[c] += 1
            if c in self.fails:
                raise ValueError(f"the secret of client {c} is 42")
            row = (ask.params + np.float32(c + 1) + kept).astype(np.float32)
            if self.privacy is not None:
                row = privatized(self.privacy, row, ask.n, SystemStream())
            rows.append(row.astype(self.kind))
        weights = np.full(len(clients), self.weight)
        return Answers(clients, Cohort(clients, np.stack(rows), weights), None)


def participant_of(agreement, engine=None, clients=range(3), path=None, told=None, sums=None):
    engine = Small(privacy=agreement.privacy) if engine is None else engine
    records = Records(path, agreement.id)
    tell = (lambda text: None) if told is None else told.append
    return Participant(agreement, clients, lambda sessions: engine, records, sums=sums, tell=tell)


def ask_of(
    agreement, kind=Kind.LEARN, clients=(0, 1, 2), params=PARAMS, t=0, how=(0, -1), **other
):
    """An ask with a fresh nonce; its payload is the model unless one is given."""
    fields = {
        "kind": kind,
        "federation": agreement.id,
        "round": t,
        "model_round": t,
        "model": model_digest(params),
        "features": agreement.feature_hash,
        "nonce": struct.pack("<QQ", next(_nonces), 0),
        "n": agreement.asked,
        "clients": tuple(clients),
        "payload": Model(params, *how).to_bytes(),
    }
    return Frame(**{**fields, **other})


def answered(participant, ask):
    """The answer as a frame, which is one to this ask."""
    answer = Frame.from_bytes(participant.answer(ask.to_bytes()))
    assert answer.answers(ask)
    return answer


def learned(participant, ask):
    """What the clients send: client -> (update, weight)."""
    answer = answered(participant, ask)
    assert answer.kind == Kind.LEARNED, read_refusal(answer.payload)
    updates, weights = read_updates(answer.payload, len(answer.clients))
    return {
        id: (update.tolist(), weight)
        for id, update, weight in zip(answer.clients, updates, weights.tolist(), strict=True)
    }


def refused(participant, ask):
    """The code of the refusal."""
    answer = answered(participant, ask)
    assert answer.kind == Kind.REFUSED and answer.clients == ()
    return read_refusal(answer.payload)[0]


def opening(everybody, terms, params=PARAMS, how=(0, -1)):
    """The payload of OPEN."""
    numbers = np.array(everybody)
    ids = b"l" + numbers.astype("<u4").tobytes()  # not in order
    if (numbers[:-1] < numbers[1:]).all():
        ids = write_ids(numbers)
    return write_parts([ids, terms.to_bytes(), Model(params, *how).to_bytes()])
