"""An answer to the question that the thesis leaves open (5.7): a defence that costs next to
nothing while nobody attacks and clients are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import in_order
from foltr.components.aggregators import _gating as gating
from foltr.components.aggregators.mean import Mean
from foltr.core import Aggregator, Array, Cohort, Memory, Withheld, require
from foltr.errors import Mistake
from foltr.kinds import Remembering
from foltr.seeds import Stream
from foltr.spec import aggregator

MEAN = Mean()
OWN = 4  # arrays of memory, before those of the fallback
FEW = 0.05  # of a cohort can be left out without calling it an attack
SMALL = 5  # clients: of fewer, the majority is two or three


@aggregator
@dataclass(frozen=True)
class Gated(Remembering):
    """The weighted mean while the cohort looks honest; else `fallback` on the clients that do.

    The server remembers what each client has sent. Honest clients differ from each other by noise,
    which averages out over rounds; who pulls elsewhere, however little, does so in every round.
    With updates y_i in units of the root mean square of each coordinate, r their mean over trusted
    clients, and decay = 1 - 1 / `horizon`, a round makes
        S_i <- decay S_i + y_i - r,     w_i <- decay w_i + 1,
        q_i <- decay^2 q_i + 1,         E_i <- decay^2 E_i + min(|y_i|^2, |y_i - r|^2)
    of client i, and D_i = |S_i - w_i c|^2 / (q_i e) compares its mean so far with the others', c =
    sum S_j / sum w_j. e is the median of E_j / q_j, so that D_i is about 1 if i is like them. A
    shift by delta adds |delta|^2 / e for each of its rounds, up to 2 `horizon` of them. Suspected
    are clients with D_i > `limit`, but where honest clients differ too, only those with D_i >
    `uneven` x the median of all D. c is taken over the majority nearest to the median of each
    coordinate, then over everybody who is not suspected with that.

    Left out of a round are suspects, equal updates of several clients (but 0, and but those of a
    majority), and updates more than `longest` times as long as the median one (in this round, or
    usually, if that is longer). Who is left out goes on being looked at, and comes back when it is
    like the others again. No number of attackers is assumed, but a majority must be honest. If
    more than a twentieth is left out, the fallback combines the rest, or their mean if they are
    too few for it: a robust rule is safer where attackers may go unnoticed, the mean is better
    where they do not.

    Against clients that attack in turns (`roaming`) memory is of no use: only equal and long
    updates are left out then. Where honest clients differ much, the odd one out is taken for an
    attacker. Who knows an honest message before it is sent, and sends the same, has its sender
    left out: k copiers silence k clients. `suspects` tells whom it suspects."""

    fallback: Aggregator = MEAN
    horizon: int = 2000
    limit: float = 8.0
    uneven: float = 6.0
    longest: float = 3.0

    def __post_init__(self) -> None:
        require(self.horizon >= 1, f"horizon must be >= 1 rounds, got {self.horizon}")
        require(self.limit > 0.0, f"limit must be > 0, got {self.limit}")
        require(
            self.uneven >= 1.0,
            f"uneven must be >= 1, or half of the clients could be suspects: {self.uneven}",
        )
        require(self.longest >= 1.0, f"longest must be >= 1 median lengths, got {self.longest}")

    @property
    def trusted(self) -> int:
        return self.fallback.trusted

    @property
    def knows_clients(self) -> bool:
        return True

    def fits(self, n: int) -> tuple[str, ...]:
        notes, half = self.fallback.fits(n), n // 2 + 1
        if n < SMALL:
            notes = (
                *notes,
                f"Gated goes by the majority: of {n} clients that is {half}, which tells little",
            )
        try:
            self.fallback.fits(half)
        except Mistake as mistake:
            notes = (
                *notes,
                (
                    f"Gated takes the mean where it trusts too few of {n} clients for its"
                    f" fallback: {mistake}"
                ),
            )
        return notes

    def init(self, dim: int) -> Memory:
        """Client ids (k,), sums (k, d), tallies (k, 4), scale (d + 2,): see `gating.look`; and the
        fallback's."""
        return (
            np.empty(0, np.int64),
            np.empty((0, dim)),
            np.empty((0, 4)),
            np.zeros(dim + 2),
            *self.fallback.init(dim),
        )

    def suspects(self, memory: Memory) -> Array:
        """The ids of clients that are suspected, each as of the last round in which it took
        part."""
        return memory[0][memory[2][:, gating.SCORE] > 1.0]

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        cohort = in_order(_numbers(cohort))
        kept, own = self._judged(cohort, memory[:OWN])
        theirs = memory[OWN:]
        if not kept.any():
            raise Withheld(f"{self!r} trusts none of {len(cohort)} updates")
        whole = bool(kept.all())
        trusted = cohort if whole else cohort.only(kept)
        if whole or len(trusted) >= (1.0 - FEW) * len(cohort):
            return MEAN.combine(trusted), (*own, *theirs)
        try:
            direction, theirs = self.fallback(trusted, theirs, rng)
        except Withheld:
            direction = MEAN.combine(trusted)
        return direction, (*own, *theirs)

    def _judged(self, cohort: Cohort, memory: Memory) -> tuple[Array, Memory]:
        """Who is not left out, and what is remembered from now on."""
        ids, sums, tallies, scale = _with_newcomers(memory, cohort.clients)
        everyone = len(ids) == len(cohort)
        at = slice(None) if everyone else np.searchsorted(ids, cohort.clients)
        sums_now, tallies_now, scale = sums[at].copy(), tallies[at].copy(), scale.copy()
        bounds = (1.0 - 1.0 / self.horizon, self.limit, self.uneven, self.longest)
        single = ~gating.copies(cohort.updates)
        left_out = gating.look(cohort.updates, single, bounds, sums_now, tallies_now, scale)
        if everyone:
            return ~left_out, (ids, sums_now, tallies_now, scale)
        sums, tallies = sums.copy(), tallies.copy()
        sums[at], tallies[at] = sums_now, tallies_now
        return ~left_out, (ids, sums, tallies, scale)


def _numbers(cohort: Cohort) -> Cohort:
    """Without updates that are no numbers: nothing can be remembered of them."""
    if np.isfinite(np.einsum("nd->", cohort.updates)):
        return cohort
    finite = np.isfinite(cohort.updates).all(axis=1)
    if not finite.any():
        raise Withheld(f"none of {len(cohort)} updates is made of numbers")
    return cohort if finite.all() else cohort.only(finite)


def _with_newcomers(memory: Memory, clients: Array) -> Memory:
    ids, sums, tallies, scale = memory
    if len(ids) == len(clients) and (ids == clients).all():
        return memory
    new = clients[~np.isin(clients, ids)]
    if not len(new):
        return memory
    everybody = np.append(ids, new)
    order, k = np.argsort(everybody, kind="stable"), len(new)
    sums, tallies = (
        np.concatenate([rows, np.zeros((k, rows.shape[1]))])[order] for rows in (sums, tallies)
    )
    return everybody[order], sums, tallies, scale
