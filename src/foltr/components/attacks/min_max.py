"""Min-Max (Shejwalkar & Houmansadr, NDSS 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import distances
from foltr.components.attacks._along_a_direction import AlongADirection
from foltr.core import Array
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class MinMax(AlongADirection):
    """Every malicious client sends mu + gamma p, at most as far from each known update as two of
    these are apart.

    gamma = max { g : max_i |mu + g p - u_i| <= max_ij |u_i - u_j| =: R } over the updates u_i of
    honest clients, or of the malicious ones before the attack (`knowledge='own'`); mu is their
    mean, and p is -(standard deviation) of each coordinate (`direction='std'`), -mu / |mu|
    ('unit') or -sign(mu) ('sign'). The paper searches by bisection; with a_i = mu - u_i the answer
    is min_i (sqrt((p.a_i)^2 + |p|^2 (R^2 - |a_i|^2)) - p.a_i) / |p|^2. Knows no rule. A single
    known update leaves no room: it is sent as it is."""

    def reach(self, known: Array, mu: Array, p: Array) -> float:
        apart, square = mu - known, np.square(p).sum()
        if square == 0.0:
            return 0.0
        along = np.einsum("nd,d->n", apart, p)
        room = np.maximum(0.0, distances(known).max() ** 2 - np.square(apart).sum(axis=1))
        return float((np.sqrt(along**2 + square * room) - along).min() / square)
