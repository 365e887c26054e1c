"""Protection from a ranker that learned the wrong thing.

A few clicks can mislead a learner, and then its lists are worse than plain BM25. The guard finds
out by team-draft interleaving: it mixes the learned list and BM25's into one. Whose document is
clicked last has won: the last click is the most likely to have satisfied its user. Both have the
same chance at every place, so users' preference for the top of a list does not matter. Documents
that both would place next count for nobody.

The evidence z is the number of mixed lists that the learned ranker won minus those that it lost,
faded by `fade` with each. The learned list is shown alone while z >= `up`, BM25's while z <=
`down`, and mixed lists in between. Some lists stay mixed in any case, so that the evidence stays
up to date.

Reference: Radlinski, Kurup & Joachims, CIKM 2008."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.seeds import Stream

Shown = Literal["learned", "bm25", "mixed"]
BOTH, LEARNED, BM25 = 0, 1, 2  # whose choice a place of a mixed list is


@dataclass(frozen=True)
class Guard:
    """When to show which list.

    Fields
        up: evidence from which the learned list is shown alone
        down: evidence from which BM25's list is shown alone (< up)
        fade: factor of the evidence with each mixed list that somebody won (0 < fade <= 1)
        mix_learned: while the learned list is shown, every so many lists are mixed
        mix_bm25: while BM25's list is shown, every so many lists are mixed
        on: False shows the learned list always"""

    up: float = 2.0
    down: float = -1.0
    fade: float = 0.95
    mix_learned: int = 4
    mix_bm25: int = 2
    on: bool = True

    def __post_init__(self) -> None:
        require(self.down < self.up, f"down must be < up, got {self.down} and {self.up}")
        require(0.0 < self.fade <= 1.0, f"fade must be in (0, 1], got {self.fade}")
        often = min(self.mix_learned, self.mix_bm25)
        require(often >= 2, f"mix_learned and mix_bm25 must be >= 2, got {often}")

    def evidence(self, won: Iterable[int]) -> float:
        """z after mixed lists in their order: 1 where the learned ranker won, -1 where it lost, 0
        where nobody did."""
        z = 0.0
        for each in won:
            z = z if each == 0 else self.fade * z + each
        return z

    def choice(self, z: float, made: int) -> Shown:
        """What to show after `made` searches."""
        if not self.on:
            return "learned"
        if z >= self.up:
            return "mixed" if (made + 1) % self.mix_learned == 0 else "learned"
        if z <= self.down:
            return "mixed" if (made + 1) % self.mix_bm25 == 0 else "bm25"
        return "mixed"


def winner(teams: Array, order: Array) -> int:
    """1 if the last click was on a document of the learned ranker, -1 if on one of BM25's, 0 if
    there was none, or if both would have placed it. `order` says which click was first, second,
    ...; 0 for none."""
    if not order.any():
        return 0
    return {BOTH: 0, LEARNED: 1, BM25: -1}[int(teams[order.argmax()])]


def click_order(clicks: Array) -> Array:
    """Clicks (k,) of a user who reads from the top: which was first, second, ..."""
    return (np.cumsum(clicks) * clicks).astype(np.uint8)


def by_bm25(bm25: Array, learned: Array, rng: Stream) -> Array:
    """BM25's list, as long as the learned one (k,). Equal documents are in the order of the
    learned list, or else random: a ranker that has learned nothing gives the same list."""
    place = np.full(len(bm25), len(learned))
    place[learned] = np.arange(len(learned))
    return np.lexsort((rng.words(len(bm25)), place, -bm25))[: len(learned)]


def mixed(learned: Sequence[int], bm25: Sequence[int], rng: Stream) -> tuple[Array, Array]:
    """Two lists of the same length as one, and whose choice each place is. In each turn both
    place their best document that is not there yet; a coin says who begins."""
    shown: list[int] = []
    teams: list[int] = []
    k = min(len(learned), len(bm25))
    while len(shown) < k:
        left = [[d for d in each if d not in shown] for each in (learned, bm25)]
        if left[0][0] == left[1][0]:
            shown.append(left[0][0])
            teams.append(BOTH)
            continue
        first = rng.integer(2)
        for team in (first, 1 - first):
            if len(shown) < k:
                shown.append(next(d for d in left[team] if d not in shown))
                teams.append((LEARNED, BM25)[team])
    return np.array(shown, np.int64), np.array(teams, np.uint8)
