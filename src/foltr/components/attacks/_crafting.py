"""What attacks share: who knows which updates, and the search for a message that Krum picks. That
search is compiled; its plain definition stands beside it (`by_definition`), and
`tests/unit/attacks` compares them."""

from __future__ import annotations

from math import sqrt
from types import SimpleNamespace
from typing import Literal

import numpy as np

from foltr import cohorts
from foltr.cohorts import compiled, lengths
from foltr.core import Array, Cohort

LEAST = 1e-5  # the smallest lambda that is tried (Fang et al.)


def others(cohort: Cohort, malicious: Array) -> Array:
    """The updates of honest clients (n - m, d); in a round without any, those of the malicious."""
    return cohort.updates[malicious if malicious.all() else ~malicious]


def known(cohort: Cohort, malicious: Array, knowledge: Literal["own", "all"]) -> Array:
    """The updates that attackers know: what they would send themselves, or what honest clients
    send."""
    return cohort.updates[malicious] if knowledge == "own" else others(cohort, malicious)


def mean(updates: Array) -> Array:
    """Of all rows alike, in float64: (d,)."""
    return updates.sum(axis=0, dtype=np.float64) / len(updates)


def spread(updates: Array, centre: Array) -> Array:
    """The standard deviation of each coordinate, as of a whole population: (d,)."""
    return np.sqrt(np.square(updates - centre).sum(axis=0) / len(updates))


def length(signs: Array) -> float:
    """|s|, the root of how many s_j are not 0; 1 for s = 0, so that one can divide by it."""
    return sqrt(int(np.count_nonzero(signs)) or 1)


def alike(message: Array, m: int) -> Array:
    """The same message (d,) from each of m clients: (m, d) float32."""
    sent = np.empty((m, len(message)), np.float32)
    sent[:] = message
    return sent


Direction = Literal["std", "unit", "sign"]


def away(updates: Array, centre: Array, direction: Direction) -> Array:
    """Where to push (Shejwalkar & Houmansadr, NDSS 2021): against the spread, the mean or its
    signs."""
    if direction == "std":
        return -spread(updates, centre)
    if direction == "sign":
        return -np.sign(centre)
    return -centre / max(sqrt(np.square(centre).sum()), 1e-300)


def picked(
    updates: Array,
    signs: Array,
    fewest: int,
    most: int,
    nearest: int,
    kept: int,
    squared: bool,
    start: float | None,
) -> tuple[float, int]:
    """The first lambda = start, start / 2, ... >= 1e-5 at which c copies of the message lambda x
    signs, beside the `updates` (b, d), are among the `kept` best Krum scores (c > kept: fill
    them), and c, the first of fewest .. most for which there is one. Copies win no ties. Without
    any, the first lambda below 1e-5, and 0.

    A score is the sum of the `nearest` <= b smallest distances to others, or of their squares.
    `start=None` is the bound beyond which Krum (kept = 1) picks none of `fewest` copies, (r +
    max_i |u_i|) / |signs|, where (nearest + 1 - fewest) r is the smallest score among `updates`
    alone, or with squares (nearest + 1 - fewest) r^2."""
    found: tuple[float, int] = compiled("attacks").picked(
        cohorts.rows(updates),
        signs,
        fewest,
        most,
        nearest,
        kept,
        squared,
        -1.0 if start is None else start,
        LEAST,
    )
    return found


def _picked(
    updates: Array,
    signs: Array,
    fewest: int,
    most: int,
    nearest: int,
    kept: int,
    squared: bool,
    start: float | None,
) -> tuple[float, int]:
    apart, scored = cohorts.by_definition.distances, cohorts.by_definition.krum_scores
    b = len(updates)
    if start is None:
        r = scored(apart(updates), nearest, squared).min() / (nearest + 1 - fewest)
        start = float(((sqrt(r) if squared else r) + lengths(updates).max()) / length(signs))
    scale = start
    for copies in range(fewest, most + 1):
        scale = start
        while scale >= LEAST:
            crafted = np.tile(scale * signs, (copies, 1))
            scores = scored(apart(np.concatenate([updates, crafted])), nearest, squared)
            if (scores[:b] <= scores[b]).sum() <= max(0, kept - copies):
                return scale, copies
            scale /= 2.0
    return scale, 0


def against_krum(
    cohort: Cohort, malicious: Array, knowledge: str, multi: bool, squared: bool, start: float
) -> tuple[Array, float]:
    """s and lambda of `FangKrum`, or of `FangMultiKrum`."""
    own = cohort.updates[malicious]
    n, m = len(cohort), len(own)
    if knowledge == "all" and n > 2 * m + 1:
        signs = -np.sign(mean(cohort.updates))
        return signs, picked(
            others(cohort, malicious), signs, m, m, n - m - 2, n - m if multi else 1, squared, None
        )[0]
    signs, nearest = -np.sign(mean(own)), max(1, m - 2)
    first = start * float(lengths(own).mean()) / length(signs)
    return signs, picked(own, signs, 1, nearest + 1, nearest, m if multi else 1, squared, first)[0]


by_definition = SimpleNamespace(picked=_picked)
