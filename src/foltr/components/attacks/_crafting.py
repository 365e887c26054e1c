"""Functions that attacks share: which updates are known, and messages that are made of them."""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np

from foltr.core import Array, Cohort


def others(cohort: Cohort, malicious: Array) -> Array:
    """The updates of the honest clients (n - m, d), or of the malicious ones if there are no
    others."""
    return cohort.updates[malicious if malicious.all() else ~malicious]


def known(cohort: Cohort, malicious: Array, knowledge: Literal["own", "all"]) -> Array:
    """The updates that the attackers know: their own before the attack, or those of honest
    clients."""
    return cohort.updates[malicious] if knowledge == "own" else others(cohort, malicious)


def mean(updates: Array) -> Array:
    """The unweighted mean of the rows in float64: (d,)."""
    return updates.sum(axis=0, dtype=np.float64) / len(updates)


def spread(updates: Array, centre: Array) -> Array:
    """The standard deviation of each coordinate, dividing by the number of rows: (d,)."""
    return np.sqrt(np.square(updates - centre).sum(axis=0) / len(updates))


def alike(message: Array, m: int) -> Array:
    """The same message (d,) from each of m clients: (m, d) float32."""
    sent = np.empty((m, len(message)), np.float32)
    sent[:] = message
    return sent


Direction = Literal["std", "unit", "sign"]


def away(updates: Array, centre: Array, direction: Direction) -> Array:
    """The direction p of an attack: -std, -sign(mean) or -mean / |mean| (Shejwalkar & Houmansadr,
    NDSS 2021)."""
    if direction == "std":
        return -spread(updates, centre)
    if direction == "sign":
        return -np.sign(centre)
    return -centre / max(sqrt(np.square(centre).sum()), 1e-300)
