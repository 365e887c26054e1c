"""Updates made no longer than allowed, and numbers put on a grid that does not depend on the data.

Noise in floating point leaves traces: which numbers a sum can take depends on the summand
(Mironov, CCS 2012). On a grid every message can come from every update. A message that is noisy by
itself is rounded to it last, which can tell nothing new. A share of noise is not enough to hide
its message, so there both are put on the grid before they are added: what is added up is then
whole steps, and their sum is the sum of the bare parts plus noise that no data has touched."""

from __future__ import annotations

import math

import numpy as np

from foltr.core import Array

SLACK = 1e-6  # what float32 may round up, so that no update is longer than the ledger believes
BITS = 23  # of a message's numbers, besides the sign


def within(update: Array, norm: float, clip: float) -> Array:
    """The update in float64, scaled down if its norm is above `clip`. A zero update is as good as
    any; one that is not finite is taken for zero."""
    if not math.isfinite(norm):
        return np.zeros(len(update))
    most = clip * (1.0 - SLACK)
    return update.astype(np.float64) * (most / norm if norm > most else 1.0)


def grid_step(reach: float, bits: int = BITS) -> float:
    """The power of two by which numbers up to `reach` need so many bits."""
    return 2.0 ** (math.ceil(math.log2(reach)) - bits)


def fine_step(size: float, bits: int) -> float:
    """The power of two of which noise of that size has at least 2^bits."""
    return 2.0 ** (math.floor(math.log2(size)) - bits)


def on_grid(values: Array, step: float) -> Array:
    """Rounded to whole multiples of the step."""
    return np.floor(values / step + 0.5) * step
