"""Lengths of updates and angles between parameters, by sums in one order."""

from __future__ import annotations

import numpy as np

from foltr.core import Array


def lengths(rows: Array) -> Array:
    """The L2 norm of each row: (n, d) -> (n,) float64"""
    norms: Array = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return norms


def cosine(one: Array, other: Array) -> float | None:
    """Of the angle between two vectors; None where one of them is 0."""
    sizes = float(np.sqrt(np.square(one).sum() * np.square(other).sum()))
    return float((one * other).sum()) / sizes if sizes else None
