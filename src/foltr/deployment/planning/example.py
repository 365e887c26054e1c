"""A message of a learner, made up: what a device would send, without data."""

from __future__ import annotations

import numpy as np

from foltr.core import Array, Learner, Ranker, Show
from foltr.core.seeds import stream

DOCUMENTS = 20  # of each search


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
