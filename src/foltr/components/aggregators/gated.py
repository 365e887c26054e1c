"""Gated: the mean without clients that deviate over many rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.core import Aggregator, Array, Cohort, Memory, Withheld
from foltr.core.cohorts import ENERGY, FLOOR, SCORE, SQUARES, WEIGHT, in_order, median
from foltr.core.compiled import replaceable
from foltr.core.errors import Mistake, require
from foltr.core.kinds import Remembering
from foltr.core.seeds import Stream
from foltr.core.spec import aggregator

MEAN = Mean()
OWN = 4  # arrays of memory that are its own; the fallback's follow
FEW = 0.05  # largest share of a cohort that is left out without using the fallback
SMALL = 5  # clients; a smaller cohort gives a note

Bounds = tuple[float, float, float, float]  # decay, limit, uneven, longest


@aggregator
@dataclass(frozen=True)
class Gated(Remembering):
    """Average the clients whose updates agree with the majority over many rounds.

    The server remembers sums of each client's updates. Honest clients differ from each other by
    noise, which averages out over rounds. A malicious client deviates in the same direction in
    every round, even if only a little. With y_i the update of client i divided by the root mean
    square of each coordinate, r the mean of y over trusted clients, and decay = 1 - 1 / horizon,
    each round updates
        S_i <- decay S_i + y_i - r,     w_i <- decay w_i + 1,
        q_i <- decay^2 q_i + 1,     E_i <- decay^2 E_i + min(|y_i|^2, |y_i - r|^2)
    and computes the deviation score
        D_i = |S_i - w_i c|^2 / (q_i e)
        c = sum_j S_j / sum_j w_j,   e = median_j E_j / q_j.
    D_i is about 1 for a client that behaves as the others do. A constant shift by delta adds
    |delta|^2 / e per round, for up to 2 horizon rounds. Client i is suspected if D_i > limit and
    D_i > uneven x median of all D. c is first computed over the majority nearest to the
    coordinate-wise median, then over all clients that are not suspected with that c.

    A round leaves out suspected clients, equal updates of several clients (unless they are 0 or
    come from a majority), and updates more than `longest` times as long as the median one (of this
    round, or of past rounds if that is larger). Clients that are left out are still scored, and
    return when they agree with the others again. If at most 5 % are left out, the direction is the
    weighted mean of the rest; otherwise it is `fallback` on the rest, or their mean if they are
    too few for it. `suspects` returns the ids of suspected clients.

    It assumes no number of attackers, but a majority of honest clients. Limits: (1) if different
    clients attack in different rounds (`roaming`), only equal and overlong updates are found; (2)
    an honest client whose data differ much from the others' may be suspected; (3) an attacker that
    knows an honest message and sends a copy has both left out, so k copies remove k honest
    clients.

    Fields
        fallback: the aggregator used when more than 5 % of the clients are left out
        horizon: rounds over which memory decays (>= 1)
        limit: deviation score above which a client can be suspected (> 0; honest clients: about 1)
        uneven: the same as a multiple of the median score, for clients with different data (>= 1)
        longest: longest update used, in lengths of the median update (>= 1)

    Reference: a method of this project, for a question left open in section 5.7 of Wang (PhD
    thesis, University of Queensland 2024): can a defence cost nothing without an attack? On
    MQ2008 with a linear ranker and clients that are alike, it is within .005 of the mean."""

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
    def trusted_queries(self) -> int:
        return self.fallback.trusted_queries

    @property
    def knows_clients(self) -> bool:
        return True

    def fits(self, n: int) -> tuple[str, ...]:
        notes, half = self.fallback.fits(n), n // 2 + 1
        if n < SMALL:
            notes = (
                *notes,
                f"Gated relies on a majority of the clients, which is only {half} of {n}",
            )
        try:
            self.fallback.fits(half)
        except Mistake as mistake:
            notes = (
                *notes,
                (
                    f"Gated returns the mean when it keeps too few of {n} clients for its"
                    f" fallback: {mistake}"
                ),
            )
        return notes

    def init(self, dim: int) -> Memory:
        """Client ids (k,), sums (k, d), tallies (k, 4), scale (d + 2,) as in `look`, then
        the memory of the fallback."""
        return (
            np.empty(0, np.int64),
            np.empty((0, dim)),
            np.empty((0, 4)),
            np.zeros(dim + 2),
            *self.fallback.init(dim),
        )

    def suspects(self, memory: Memory) -> Array:
        """The ids of suspected clients, each judged in the last round in which it took part."""
        return memory[0][memory[2][:, SCORE] > 1.0]

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
        """Which clients are kept (n,) bool, and the memory after this round."""
        ids, sums, tallies, scale = _with_newcomers(memory, cohort.clients)
        everyone = len(ids) == len(cohort)
        at = slice(None) if everyone else np.searchsorted(ids, cohort.clients)
        sums_now, tallies_now, scale = sums[at].copy(), tallies[at].copy(), scale.copy()
        bounds = (1.0 - 1.0 / self.horizon, self.limit, self.uneven, self.longest)
        single = ~copies(cohort.updates)
        left_out = look(cohort.updates, single, bounds, sums_now, tallies_now, scale)
        if everyone:
            return ~left_out, (ids, sums_now, tallies_now, scale)
        sums, tallies = sums.copy(), tallies.copy()
        sums[at], tallies[at] = sums_now, tallies_now
        return ~left_out, (ids, sums, tallies, scale)


def _numbers(cohort: Cohort) -> Cohort:
    """The cohort without updates that hold NaN or infinity, which cannot be summed."""
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


# The arithmetic: which clients deviate from the others over many rounds.


def copies(updates: Array) -> Array:
    """Mark the rows that equal another row and are not 0: (n,) bool.

    No row is marked if more than half of the rows are equal: that is a majority that agrees."""
    sent: dict[bytes, list[int]] = {}
    for i, row in enumerate(updates):
        sent.setdefault(row.tobytes(), []).append(i)
    found = np.zeros(len(updates), bool)
    if len(sent) < len(updates):
        groups = [rows for rows in sent.values() if len(rows) > 1 and updates[rows[0]].any()]
        if all(2 * len(rows) <= len(updates) for rows in groups):
            found[[i for rows in groups for i in rows]] = True
    return found


@replaceable
def look(
    updates: Array, single: Array, bounds: Bounds, sums: Array, tallies: Array, scale: Array
) -> Array:
    """Process one round and return which clients are left out, (n,) bool.

    `updates` (n, d) are the messages; `single` (n,) bool marks those that are not copies. `sums`
    (n, d), `tallies` (n, 4) and `scale` (d + 2,) are the memory and are updated in place. `sums`
    and `tallies` belong to the same clients as the rows and are 0 for new ones. `scale` holds
    decayed sums: the mean square of each coordinate, 1, and the median energy (squared length) of
    a round."""
    decay, limit, uneven, longest = bounds
    d = updates.shape[1]

    square = scale[:d] / scale[d] if scale[d] > 0.0 else _mean_square(updates[single])
    floored = square + FLOOR * square.mean()
    y = updates / np.sqrt(np.where(floored > 0.0, floored, np.inf))
    energy = np.square(y).sum(axis=1)
    trusted = single & (tallies[:, SCORE] <= 1.0)
    away = y - y[trusted if trusted.any() else single].mean(axis=0)

    said = energy[single & (energy > 0.0)]  # updates of 0 do not count in the median length
    level = float(np.median(said)) if len(said) else 0.0
    top = longest**2 * max(level, scale[d + 1] / scale[d] if scale[d] > 0.0 else level)
    long = (energy > top) & (top > 0.0)
    away[long] *= np.sqrt(top / energy[long])[:, None]

    sums[:] = decay * sums + away
    tallies[:, WEIGHT] = decay * tallies[:, WEIGHT] + 1.0
    tallies[:, SQUARES] = decay**2 * tallies[:, SQUARES] + 1.0
    tallies[:, ENERGY] = decay**2 * tallies[:, ENERGY] + np.minimum(
        np.square(away).sum(axis=1), energy
    )
    noise = np.median((tallies[:, ENERGY] / tallies[:, SQUARES])[single])
    if noise > 0.0:
        tallies[:, SCORE] = _scores(sums, tallies, noise, single, limit, uneven)

    left_out = long | ~single | (tallies[:, SCORE] > 1.0)
    if not left_out.all():
        scale *= decay
        scale += np.concatenate([_mean_square(updates[~left_out]), [1.0, level]])
    return left_out


def _scores(
    sums: Array, tallies: Array, noise: float, single: Array, limit: float, uneven: float
) -> Array:
    weights = tallies[:, WEIGHT]

    def apart(centre: Array) -> Array:
        return np.square(sums - weights[:, None] * centre).sum(axis=1) / (
            tallies[:, SQUARES] * noise
        )

    from_median = apart(median((sums / weights[:, None])[single]))
    group = single & (from_median <= np.sort(from_median[single])[single.sum() // 2])
    for _ in range(2):  # around the nearest half, then around all that are not suspected
        distances = apart(sums[group].sum(axis=0) / weights[group].sum())
        allowed = max(limit, uneven * np.median(distances[single]))
        group = single & (distances <= allowed)
    return distances / allowed


def _mean_square(updates: Array) -> Array:
    mean: Array = np.square(updates, dtype=np.float64).mean(axis=0)
    return mean
