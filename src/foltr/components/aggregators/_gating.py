"""The arithmetic of `Gated`: which clients deviate from the others over many rounds.

It is replaceable: `tests/unit/components/aggregators` compares it with its kernel."""

from __future__ import annotations

import numpy as np

from foltr.core import Array
from foltr.core.cohorts import ENERGY, FLOOR, SCORE, SQUARES, WEIGHT, median
from foltr.core.compiled import replaceable

Bounds = tuple[float, float, float, float]  # decay, limit, uneven, longest


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
