"""The search for a message that Krum selects: the compiled twin of
`components/attacks/_crafting.py`.

Only the crafted message changes during the search. Distances between the other updates are
computed and sorted once; |u_i - lambda s|^2 = |u_i|^2 - 2 lambda u_i.s + lambda^2 |s|^2 costs a
few operations for each further lambda."""

import math

import numpy as np

from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.cohorts import distances


@kernel(fastmath=SUMS, inner=True)
def _products(row, signs):
    """|u|^2 and u.s."""
    square, along = 0.0, 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        square += x * x
        along += x * signs[j]
    return square, along


@kernel(inner=True)
def _sums_of_nearest(updates, squared, apart, sums):
    """Sort each row's distances to others, and fill sums[i, k] with the sum of the k smallest."""
    b = updates.shape[0]
    distances(updates, squared, apart)
    for i in range(b):
        apart[i, i] = np.inf
        apart[i].sort()
        sums[i, 0] = 0.0
        for k in range(b - 1):
            sums[i, k + 1] = sums[i, k] + apart[i, k]


@kernel(inner=True)
def _is_picked(apart, sums, far, order, copies, nearest, kept):
    """Whether `copies` equal messages, at the distances `far` from the others, are among the
    `kept` lowest scores even if they lose ties."""
    b = apart.shape[0]
    for i in range(b):
        order[i] = far[i]
    order.sort()
    crafted, better = 0.0, 0
    for k in range(nearest - (copies - 1)):
        crafted += order[k]
    for i in range(b):
        closer = 0
        while closer < min(nearest, b - 1) and apart[i, closer] <= far[i]:
            closer += 1
        take = min(nearest - closer, copies)
        better += sums[i, nearest - take] + take * far[i] <= crafted
    return better <= max(0, kept - copies)


@kernel(inner=True)
def _bound(sums, squares, nearest, copies, squared, signed):
    """The lambda beyond which Krum selects no crafted message."""
    least, longest, beyond = np.inf, 0.0, nearest - (copies - 1)
    for i in range(sums.shape[0]):
        least, longest = min(least, sums[i, nearest]), max(longest, squares[i])
    radius = math.sqrt(least / beyond) if squared else least / beyond
    return (radius + math.sqrt(longest)) / math.sqrt(max(1.0, signed))


@kernel(by_address=True)
def picked(updates, signs, fewest, most, nearest, kept, squared, start, least, found):
    """Fill found (1,) with lambda, and return the copies, as in
    `foltr.components.attacks._crafting.picked`."""
    never_inlined()
    b, d = updates.shape
    apart, sums = np.empty((b, b)), np.empty((b, b))
    squares, along, far, order = np.empty(b), np.empty(b), np.empty(b), np.empty(b)
    _sums_of_nearest(updates, squared, apart, sums)
    for i in range(b):
        squares[i], along[i] = _products(updates[i], signs)
    signed = 0.0  # |s|^2
    for j in range(d):
        signed += signs[j] * signs[j]
    if start < 0.0:
        start = _bound(sums, squares, nearest, fewest, squared, signed)
    scale, found[0] = start, start
    if not math.isfinite(start):
        return 0  # halving would never end
    for copies in range(fewest, most + 1):
        scale = start
        while scale >= least:
            for i in range(b):
                away = max(0.0, squares[i] - 2.0 * scale * along[i] + scale * scale * signed)
                far[i] = away if squared else math.sqrt(away)
            if _is_picked(apart, sums, far, order, copies, nearest, kept):
                found[0] = scale
                return copies
            scale *= 0.5
    found[0] = scale
    return 0
