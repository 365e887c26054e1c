"""Updates made no longer than allowed."""

from __future__ import annotations

import numpy as np

from foltr.core import Array

SLACK = 1e-6  # what float32 may round up, so that no update is longer than the ledger believes


def within(payload: Array, norm: float, clip: float) -> Array:
    """The update, scaled down if its norm is above `clip`. (A zero update is as long as any.)"""
    if norm <= clip * (1.0 - SLACK):
        return payload
    return payload * np.float32(clip * (1.0 - SLACK) / norm)
