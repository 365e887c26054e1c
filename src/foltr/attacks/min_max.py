"""Min-Max (Shejwalkar & Houmansadr, NDSS 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.cohorts import distances
from foltr.core import Array, Cohort
from foltr.crafting import alike, away, mean, others
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class MinMax(ChangesMessages):
    """Every malicious client sends mu + gamma p, at most as far from each known update as two of these are apart.

    gamma = max { g : max_i |mu + g p - u_i| <= max_ij |u_i - u_j| =: R } over the updates u_i of honest clients, or of
    the malicious ones before the attack (`knowledge='own'`); mu is their mean, and p is -(standard deviation) of each
    coordinate (`direction='std'`), -mu / |mu| ('unit') or -sign(mu) ('sign'). The paper searches by bisection; with
    a_i = mu - u_i the answer is min_i (sqrt((p.a_i)^2 + |p|^2 (R^2 - |a_i|^2)) - p.a_i) / |p|^2.
    Knows no rule. A single known update leaves no room: it is sent as it is.
    """

    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = self.knowledge == "own" and m == 1
        return ("MinMax is void: a single malicious client that knows one update sends it as it is",) if alone else ()

    def craft(self, cohort: Cohort, malicious: Array, params: Array, rng: Stream) -> Array:
        known = cohort.updates[malicious] if self.knowledge == "own" else others(cohort, malicious)
        mu = mean(known)
        p = away(known, mu, self.direction)
        return alike(mu + _largest(known, mu, p) * p, int(malicious.sum()))


def _largest(known: Array, mu: Array, p: Array) -> float:
    apart, square = mu - known, np.square(p).sum()
    if square == 0.0:
        return 0.0
    along = np.einsum("nd,d->n", apart, p)
    room = np.maximum(0.0, distances(known).max() ** 2 - np.square(apart).sum(axis=1))
    return float((np.sqrt(along**2 + square * room) - along).min() / square)
