"""Clipping of updates, and rounding to a grid that does not depend on the data.

Noise in floating point leaves traces: which numbers a sum can take depends on its summands
(Mironov, CCS 2012). On a grid every message is possible for every update. A message with its whole
noise is rounded to the grid last, which reveals nothing more. A share of noise does not hide its
message, so update and share are rounded before they are added: the sum of the messages is then the
sum of the rounded updates plus noise that does not depend on the data."""

from __future__ import annotations

import math

import numpy as np

from foltr.core import Array

# relative margin for float32 rounding, so that no norm exceeds the ledger's sensitivity
SLACK = 1e-6
BITS = 23  # bits of a number in a message, without the sign


def within(update: Array, norm: float, clip: float) -> Array:
    """The update in float64, scaled down to norm `clip` if its norm is larger; an update that is
    not finite becomes 0."""
    if not math.isfinite(norm):
        return np.zeros(len(update))
    most = clip * (1.0 - SLACK)
    return update.astype(np.float64) * (most / norm if norm > most else 1.0)


def grid_step(reach: float, bits: int = BITS) -> float:
    """The power of two such that numbers up to `reach` are at most 2^bits steps."""
    return 2.0 ** (math.ceil(math.log2(reach)) - bits)


def fine_step(size: float, bits: int) -> float:
    """The power of two such that noise of size `size` is at least 2^bits steps."""
    return 2.0 ** (math.floor(math.log2(size)) - bits)


def on_grid(values: Array, step: float) -> Array:
    """The values rounded to multiples of the step."""
    return np.floor(values / step + 0.5) * step
