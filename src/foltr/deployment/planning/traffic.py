"""The bytes of a round, counted from the formats of the messages (`deployment/protocol/frames.py`,
`secure_sum/messages.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from foltr.core import Array, Learner, Ranker, Show
from foltr.core.seeds import stream
from foltr.deployment.protocol.frames import HEADER, MODEL
from foltr.secure_sum.arithmetic import SHARE
from foltr.secure_sum.messages import HEADER as SUM_HEADER
from foltr.secure_sum.terms import LAYOUT

DOCUMENTS = 20  # of each search of an example
ID = 4  # bytes of a client's number, and of a length
WEIGHT, WORD, SUM_WORD = 8, 4, 8
KIND = 5  # bytes before the weights of LEARNED
SIGNATURE = 64  # of a device, before its answer
CARD = 128  # keys of a client in a secure sum
COMMITMENT, DIGEST = 32, 16
SEALED = 2 * SHARE + 16
OWN = COMMITMENT + 2 * DIGEST  # of SHARES
ENTRY = 2 * DIGEST + SEALED  # of SHARES, for each neighbour


@dataclass(frozen=True)
class Bytes:
    """Bytes of frames: asks go down, answers go up."""

    down: float
    up: float

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(self.down + other.down, self.up + other.up)

    @property
    def both(self) -> float:
        return self.down + self.up


@dataclass(frozen=True)
class Traffic:
    """The frames of a round.

    asked: clients in the round
    population: clients of the federation
    parameters: numbers of the model
    words: numbers of a message
    degree: neighbours of a client in a secure sum; 0 without one"""

    asked: int
    population: int
    parameters: int
    words: int
    degree: int = 0

    @property
    def _messages(self) -> list[Bytes]:
        """Each step of a secure sum: the server's message to a client, and the client's."""
        known, k = ceil(self.asked / 8), self.degree
        down = [0, known + CARD * k, known + SEALED * k, known]
        up = [CARD, OWN + ENTRY * k, SUM_WORD * (1 + self.parameters), SHARE * (k + 1)]
        head = SUM_HEADER.size
        return [Bytes(a + head if a else 0, b + head) for a, b in zip(down, up, strict=True)]

    def _opening(self) -> float:
        """The payload of OPEN: who is asked, the terms, and the model."""
        listed = 1 + min(4 + ceil(self.population / 8), ID * self.asked)
        return 4 * ID + listed + LAYOUT.size + self._model

    @property
    def _model(self) -> int:
        return MODEL.size + WORD * self.parameters

    def steps(self, clients: int = 1) -> list[Bytes]:
        """The frames of each step, for so many clients in one frame: 1 for a device, more for its
        gateway."""
        head = HEADER.size + ID * clients
        if not self.degree:
            answers = KIND + clients * (WEIGHT + WORD * self.words)
            return [Bytes(head + self._model, head + answers)]
        found = []
        for place, message in enumerate(self._messages):
            ask = self._opening()
            if place:  # the step, the terms, and a message for each client
                ask = ID * (3 + clients) + 1 + LAYOUT.size + clients * message.down
            found.append(Bytes(head + ask, head + ID * (1 + clients) + clients * message.up))
        return found

    def of_device(self) -> Bytes:
        """All frames of one device in a round, and its signatures."""
        total = Bytes(0, 0)
        for step in self.steps():
            total += step + Bytes(0, SIGNATURE)
        return total

    def of_gateway(self, clients: int, reachable: int, rolls: float = 1.0) -> Bytes:
        """All frames between the server and a gateway in a round: the roll, and the steps."""
        total = Bytes(rolls * HEADER.size, rolls * (HEADER.size + ID * reachable + 1))
        for step in self.steps(clients):
            total += step
        return total

    def largest(self, clients: int) -> Bytes:
        """The largest frames of a gateway with so many clients in the round."""
        steps = self.steps(clients)
        return Bytes(max(step.down for step in steps), max(step.up for step in steps))


class ExampleUser:
    """A user who searches among random documents, and clicks on the first one."""

    def __init__(self, features: int, sessions: int) -> None:
        self.features, self.sessions, self._made = features, sessions, 0

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        drawn = stream(0, "example", self._made).uniforms(DOCUMENTS * self.features)
        docs = drawn.reshape(DOCUMENTS, self.features).astype(np.float32)
        self._made += 1
        ranking = show(docs)
        return docs, ranking, np.arange(len(ranking)) == 0


def example_message(
    learner: Learner, ranker: Ranker, features: int, sessions: int | None = None
) -> tuple[Array, float]:
    """A message (p,) that a device with this learner can send, and its weight. `sessions`: its
    searches; None for as many as the learner makes."""
    params = ranker.init(features, stream(0, "init")).astype(np.float32)
    user = ExampleUser(features, learner.sessions if sessions is None else sessions)
    memory = learner.remembered(ranker, params)

    def send_reward(reward: int, levels: int, search: int) -> int:
        return reward

    draws = stream(0, "ranking")
    sent, weight, _ = learner.learn(ranker, params, memory, user, draws, 0, send_reward)
    words = np.dtype(np.float32) if sent.dtype.kind == "f" else sent.dtype
    return sent.astype(words), weight
