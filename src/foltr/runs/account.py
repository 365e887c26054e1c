"""The privacy ledger of an experiment, from its components, its sizes and its number of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from foltr.compatibility import setting_of
from foltr.errors import require
from foltr.events import Conditions
from foltr.experiment import Experiment
from foltr.federation import participants
from foltr.privacy.accounting import described
from foltr.privacy.ledger import Ledger, ledger
from foltr.seeds import stream
from foltr.simulation.malicious import Malicious

# rounds (of 500 clients) whose draws are counted; beyond, every client counts as taking part in
# every round
COUNTED = 50_000
DELTA = 1e-5


@dataclass(frozen=True)
class Exposure:
    """The worst case over the random draws of an experiment: the largest number over its rounds,
    or over its clients."""

    times: int  # rounds in which the client that is asked most often takes part
    malicious: int  # clients of one round

    def or_worse(self, other: Exposure) -> Exposure:
        return Exposure(max(self.times, other.times), max(self.malicious, other.malicious))


def ledger_of(
    e: Experiment,
    features: int,
    delta: float = DELTA,
    colluding: int = 0,
    exposure: Exposure | None = None,
) -> Ledger:
    """`colluding`: clients of a round that reveal their shares of the noise to the adversary,
    besides the malicious ones. `exposure` stands for experiments that differ in their draws."""
    params, users = e.ranker.init(features, stream(0)), stream(0, "users")
    d, found = len(params), exposure or exposure_of(e)
    shared = e.learner.user_draws(users, stream(0, "own")) is not users
    withstands, setting = (
        (None if e.channel is None else e.channel.withstands(e.cohort)),
        setting_of(e, d),
    )
    if withstands is not None and any(
        event.seen != "message" for event in described(e.privacy, setting)
    ):
        require(
            colluding <= withstands,
            f"{colluding:,} of {e.cohort:,} clients could together open every message of"
            f" {type(e.channel).__name__}, which withstands {withstands:,}: there would be no"
            " privacy guarantee",
        )
    given = Conditions(
        setting,
        e.rounds,
        found.times,
        # malicious clients know whether they were drawn
        clients=e.clients if e.attack is None else e.cohort,
        withstands=withstands,
        seed_is_shared=shared,
        remembers=len(e.device_learner.remembered(e.ranker, params)) > 0,
        separate=e.learner.separate_searches,
        colluding=colluding,
        malicious=found.malicious,
        overheard=e.attack is not None and e.attack.overhears,
        unbounded=e.attack is not None and e.attack.rewrites,
    )
    return ledger(e.privacy, given, delta)


def exposure_of(e: Experiment) -> Exposure:
    if e.participation == 1.0 or e.rounds * (1.0 + e.clients / 500) > COUNTED:
        return Exposure(e.rounds, min(e.malicious, e.cohort))
    return _exposure(e.clients, e.participation, e.seed, e.rounds, e.malicious, e.roaming)


@cache
def _exposure(
    clients: int, participation: float, seed: int, rounds: int, malicious: int, roaming: bool
) -> Exposure:
    asked, most, malicious_in = (
        np.zeros(clients, np.int64),
        0,
        Malicious(clients, malicious, roaming, seed),
    )
    for t in range(rounds):
        there = participants(clients, participation, seed, t)
        asked[there] += 1
        if malicious:
            most = max(most, int(np.count_nonzero(malicious_in(t, there))))
    return Exposure(int(asked.max()), most)
