"""Malicious clients of a simulation: who they are, and what they send in the place of honest
messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr.core import Array, Cohort
from foltr.errors import Mistake
from foltr.seeds import Stream, stream
from foltr.world.population import HOSTS
from foltr.world.protocols import Attack


@dataclass(frozen=True)
class Malicious:
    """Which clients are malicious: one set for good, or in each round another (`roaming`)."""

    clients: int
    count: int
    roaming: bool
    seed: int

    def __call__(self, t: int, clients: Array) -> Array:
        return (self._mask(t) if self.roaming else self._for_good)[clients]

    def members(self, t: int) -> Array:
        address = ("malicious", t) if self.roaming else ("malicious",)
        return stream(self.seed, *address).sample(self.clients, self.count)

    @cached_property
    def _for_good(self) -> Array:
        return self._mask(0)

    def _mask(self, t: int) -> Array:
        mask = np.zeros(self.clients + HOSTS, bool)  # the server's own are never malicious
        mask[self.members(t)] = True
        return mask


@dataclass(frozen=True)
class Attacked:
    """A round's messages after malicious clients have put theirs in the place of honest ones."""

    attack: Attack
    malicious: Callable[[int, Array], Array]

    def __call__(self, cohort: Cohort, params: Array, t: int, rng: Stream) -> Cohort:
        malicious = self.malicious(t, cohort.clients)
        count = np.count_nonzero(malicious)
        if not count:
            return cohort
        updates, name = cohort.updates.copy(), type(self.attack).__name__
        known = Cohort(
            cohort.clients, cohort.updates, cohort.weights
        ).sealed()  # nobody knows the server's own update
        crafted = np.asarray(self.attack.craft(known, malicious.copy(), params, rng))
        if crafted.shape != (count, cohort.updates.shape[1]) or crafted.dtype.kind != "f":
            given = f"{name}.craft gave {crafted.shape} of kind {crafted.dtype.kind!r}"
            raise Mistake(
                f"{given} for {count} malicious clients, not {count} rows of {updates.shape[1]}"
                " real numbers"
            )
        with np.errstate(over="ignore"):  # is looked for next
            updates[malicious] = crafted
        if not np.isfinite(np.vdot(updates, updates)) and not np.isfinite(updates).all():
            raise Mistake(
                f"round {t}: {name} sends what is not finite: what it makes of updates grew too"
                " large"
            )
        return cohort.sending(updates)
