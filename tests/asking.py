"""Rounds and single clients, asked in one line."""

import numpy as np

from foltr.core import Ask
from foltr.core.federation import Client
from foltr.core.seeds import stream


def collected(engine, params, t, clients):
    """What a round of these clients sends, and what is observed of them."""
    answers = engine.collect(Ask(params, t, len(clients)), clients)
    assert answers.asked is clients
    return answers.arrived, answers.observed


def client_step(learner, ranker, privacy, params, memory, user, client, n, t, seed):
    """One client's message in round t of n clients, and what its device keeps."""
    streams = stream(seed, "ranking", client), stream(seed, "privacy", client)
    return Client(client, learner, ranker, privacy, *streams).step(Ask(params, t, n), memory, user)


def asked_of(n, params=None, t=0):
    """What n clients are sent; a model of no parameters if none is given."""
    return Ask(np.empty(0, np.float32) if params is None else params, t, n)
