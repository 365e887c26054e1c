"""Min-Sum (Shejwalkar & Houmansadr, NDSS 2021)."""

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
    """Every malicious client sends mu + gamma p, in all as close to the known updates as the
    outermost of these is.

    gamma = max { g : sum_i |mu + g p - u_i|^2 <= max_i sum_j |u_i - u_j|^2 }, with u_i, mu and p
    as in `MinMax`. mu is the mean of the k known updates, so sum_i |x - u_i|^2 = sum_i |mu -
    u_i|^2 + k |x - mu|^2 for every x, and what the paper searches for is gamma = max_i |u_i - mu|
    / |p|. Knows no rule. A single known update leaves no room: it is sent as it is."""

    def reach(self, known: Array, mu: Array, p: Array) -> float:
        length = np.sqrt(np.square(p).sum())
        return float(lengths(known - mu).max() / length) if length > 0.0 else 0.0
