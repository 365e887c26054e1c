"""Min-Sum: a shift limited by the largest sum of squared distances between known updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import lengths
from foltr.components.attacks._along_a_direction import AlongADirection
from foltr.core import Array
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class MinSum(AlongADirection):
    """Shift the mean update, within the largest sum of squared distances of a known update.

    Every malicious client sends mu + gamma p with
        gamma = max { g : sum_i |mu + g p - u_i|^2 <= max_i sum_j |u_i - u_j|^2 }
              = max_i |u_i - mu| / |p|

    over the known updates u_i with mean mu. The second line follows from sum_i |x - u_i|^2 = sum_i
    |mu - u_i|^2 + k |x - mu|^2 for every x and k updates; the paper searches by bisection. It
    needs no knowledge of the aggregation rule. If only one update is known, it is sent unchanged.

    Fields
        direction: p is -standard deviation of each coordinate ('std'), -mu / |mu| ('unit') or
            -sign(mu) ('sign')
        knowledge: 'all' (the n - m honest updates) or 'own' (the m own ones before the attack)

    Reference: Shejwalkar & Houmansadr, NDSS 2021."""

    def reach(self, known: Array, mu: Array, p: Array) -> float:
        length = np.sqrt(np.square(p).sum())
        return float(lengths(known - mu).max() / length) if length > 0.0 else 0.0
