"""An experiment's entry in the privacy ledger: what its parts, sizes and numbers of rounds make of each other."""

from __future__ import annotations

from functools import cache

import numpy as np

from foltr.core import require
from foltr.experiment import Experiment
from foltr.federation import participants
from foltr.fit import setting_of
from foltr.privacy.ledger import Ledger, ledger
from foltr.seeds import stream

COUNTED = 50_000  # rounds (of 500 clients) whose draws are counted; beyond, everybody is taken to take part always
DELTA = 1e-5


def ledger_of(e: Experiment, features: int, delta: float = DELTA, colluding: int = 0) -> Ledger:
    """`colluding`: clients of a round who tell the adversary their shares of the noise."""
    d, users = len(e.ranker.init(features, stream(0))), stream(0, "users")
    shared = e.learner.luck(users, stream(0, "own")) is not users
    withstands = None if e.channel is None else e.channel.withstands(e.cohort)
    if withstands is not None:
        opened = (
            f"{colluding:,} of {e.cohort:,} clients could open every message of {type(e.channel).__name__} together"
        )
        require(colluding <= withstands, f"{opened} (it withstands {withstands:,}): then nothing would be promised")
    return ledger(
        e.privacy, setting_of(e, d), channel_is_secure=withstands is not None, seed_is_shared=shared,
        rounds=e.rounds, times=busiest(e), clients=e.clients, delta=delta, colluding=colluding,
    )  # fmt: skip


def busiest(e: Experiment) -> int:
    """In how many rounds the client that is asked most often takes part."""
    if e.participation == 1.0 or e.rounds * (1.0 + e.clients / 500) > COUNTED:
        return e.rounds
    return _busiest(e.clients, e.participation, e.seed, e.rounds)


@cache
def _busiest(clients: int, participation: float, seed: int, rounds: int) -> int:
    asked = np.zeros(clients, np.int64)
    for t in range(rounds):
        asked[participants(clients, participation, seed, t)] += 1
    return int(asked.max())
