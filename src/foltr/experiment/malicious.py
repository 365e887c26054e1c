"""Malicious clients of a simulation: which clients they are, and what they send instead of honest
messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr.core import Array, Ask, Cohort, guards
from foltr.core.seeds import Stream, stream
from foltr.core.world.population import HOSTS
from foltr.core.world.protocols import Attack


@dataclass(frozen=True)
class Malicious:
    """Which clients are malicious: the same ones in every round, or others in each (`roaming`)."""

    clients: int
    count: int
    roaming: bool
    seed: int

    def __call__(self, t: int, clients: Array) -> Array:
        """Which of these clients are malicious in round t: (n,) bool."""
        return (self._mask(t) if self.roaming else self._same)[clients]

    def members(self, t: int) -> Array:
        address = ("malicious", t) if self.roaming else ("malicious",)
        return stream(self.seed, *address).sample(self.clients, self.count)

    @cached_property
    def _same(self) -> Array:
        return self._mask(0)

    def _mask(self, t: int) -> Array:
        mask = np.zeros(self.clients + HOSTS, bool)  # the server's own are never malicious
        mask[self.members(t)] = True
        return mask


@dataclass(frozen=True)
class MaliciousRewrite:
    """A round's messages after malicious clients have replaced their honest ones."""

    attack: Attack
    malicious: Callable[[int, Array], Array]

    def __call__(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        malicious = self.malicious(ask.t, cohort.clients)
        count = int(np.count_nonzero(malicious))
        if not count:
            return cohort
        updates = cohort.updates.copy()
        # without the update of the server's own client, which nobody else knows
        known = Cohort(cohort.clients, cohort.updates, cohort.weights).sealed()
        made = self.attack.craft(known, malicious.copy(), ask, rng)
        crafted = guards.crafted_rows(self.attack, made, count, updates.shape[1])
        with np.errstate(over="ignore"):  # the next check finds it
            updates[malicious] = crafted
        guards.check_finite_messages(self.attack, updates, crafted)
        return cohort.sending(updates)
