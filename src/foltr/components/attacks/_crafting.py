"""Functions that attacks share: which updates are known, and the search for a message that Krum
selects.

The search is replaceable: `tests/unit/components/attacks` compares it with its kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Literal

import numpy as np

from foltr.core import Array, Ask, Cohort
from foltr.core.cohorts import krum_scores_of, lengths
from foltr.core.compiled import replaceable
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream

LEAST = 1e-5  # the smallest lambda tried (Fang et al.)


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


def length(signs: Array) -> float:
    """The L2 norm of a vector of signs: the root of how many are not 0, or 1 if all are 0."""
    return sqrt(int(np.count_nonzero(signs)) or 1)


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


@replaceable
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
    """Search the scale lambda and the number of copies c of the message lambda x signs that Krum
    selects.

    c runs over fewest .. most; for each c, lambda is start, start / 2, ... down to 1e-5. The
    result is the first (lambda, c) for which the c copies beside `updates` (b, d) are among the
    `kept` lowest Krum scores (for c > kept: fill all of them). Copies lose ties. If there is none,
    the result is the first lambda below 1e-5, and c = 0; a start that is not finite is the result
    itself.

    A score is the sum of the `nearest` <= b smallest distances to others, or of their squares
    (`squared`). `start=None` is the bound beyond which Krum (kept = 1) selects none of `fewest`
    copies: (r + max_i |u_i|) / |signs|, where (nearest + 1 - fewest) r, or with squares (nearest +
    1 - fewest) r^2, is the smallest score among `updates` alone."""
    b = len(updates)
    if start is None:
        r = krum_scores_of(updates, nearest, squared).min() / (nearest + 1 - fewest)
        start = float(((sqrt(r) if squared else r) + lengths(updates).max()) / length(signs))
    scale = start
    for copies in range(fewest, most + 1) if isfinite(start) else ():
        scale = start
        while scale >= LEAST:
            crafted = np.tile(scale * signs, (copies, 1))
            scores = krum_scores_of(np.concatenate([updates, crafted]), nearest, squared)
            if (scores[:b] <= scores[b]).sum() <= max(0, kept - copies):
                return scale, copies
            scale /= 2.0
    return scale, 0


def against_krum(
    cohort: Cohort, malicious: Array, knowledge: str, multi: bool, squared: bool, start: float
) -> tuple[Array, float]:
    """The signs s and the scale lambda of `FangKrum`, or of `FangMultiKrum` (`multi`)."""
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


# The base of `MinMax` and `MinSum`: a step from the mean of known updates, within a distance
# limit.


@dataclass(frozen=True)
class AlongADirection(HasKnowledge):
    """Every malicious client sends mu + gamma p. Subclasses write `reach`, which computes
    gamma."""

    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"

    @abstractmethod
    def reach(self, known: Array, mu: Array, p: Array) -> float:
        """gamma, from the known updates (k, d), their mean mu (d,) and the direction p (d,)."""

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone, name = self.knowledge == "own" and m == 1, type(self).__name__
        return (
            (f"{name} has no effect: a single malicious client sends the one update it knows",)
            if alone
            else ()
        )

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        updates = known(cohort, malicious, self.knowledge)
        mu = mean(updates)
        p = away(updates, mu, self.direction)
        return alike(mu + self.reach(updates, mu, p) * p, int(malicious.sum()))
