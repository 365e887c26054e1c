"""Distances between the updates of a round, and selections of robust rules: twins of
`foltr.core.cohorts`.

Distances use no matrix product: |x|^2 + |y|^2 - 2 x.y cancels for two long updates that are close
together, and the bits of BLAS depend on the number of threads. Several clients are processed side
by side and parameters one after the other, so the distance of two updates has the same bits
wherever they are in the cohort. Arrays are filled by loops, because an assigned slice takes numba
a second to compile."""

import math

import numpy as np

from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined

LANES = 32  # clients processed side by side
STEP = 4  # parameters at a time
SAMPLE, FEW = 7, 16  # values that a pivot is chosen from; size below which a plain sort is used


@kernel(inner=True)
def mean_into(updates, weights, mean):
    """mean = sum_i weights[i] updates[i] / sum_i weights[i], summed client by client."""
    whole = 0.0
    for f in range(updates.shape[1]):
        mean[f] = 0.0
    for i in range(updates.shape[0]):
        whole += weights[i]
        for f in range(updates.shape[1]):
            mean[f] += weights[i] * np.float64(updates[i, f])
    for f in range(updates.shape[1]):
        mean[f] /= whole


@kernel()
def weighted_mean(updates, weights):
    mean = np.empty(updates.shape[1])
    mean_into(updates, weights, mean)
    return mean


@kernel(fastmath={"contract"})
def distances(updates, squared, out):
    """out[i, j] = |updates[i] - updates[j]|, or its square; infinite for updates with NaN or
    infinity."""
    n, d = updates.shape
    blocks, width = (n + LANES - 1) // LANES, (d + STEP - 1) // STEP * STEP
    lanes, pair, sums = (
        np.zeros((blocks, width, LANES), updates.dtype),
        np.zeros((2, width)),
        np.empty((2, LANES)),
    )
    for i in range(n):
        for f in range(d):
            lanes[i // LANES, f, i % LANES] = updates[i, f]
    for block in range(blocks):
        others, first, last = lanes[block], block * LANES, min(n, (block + 1) * LANES)
        for i in range(0, last, 2):  # two at a time, which share what is read
            for r in range(2):
                for f in range(d):
                    pair[r, f] = updates[min(i + r, n - 1), f]
                for j in range(LANES):
                    sums[r, j] = 0.0
            for f in range(0, width, STEP):
                x0, x1, x2, x3 = pair[0, f], pair[0, f + 1], pair[0, f + 2], pair[0, f + 3]
                z0, z1, z2, z3 = pair[1, f], pair[1, f + 1], pair[1, f + 2], pair[1, f + 3]
                for j in range(LANES):
                    y0, y1, y2, y3 = (
                        others[f, j],
                        others[f + 1, j],
                        others[f + 2, j],
                        others[f + 3, j],
                    )
                    e0, e1, e2, e3 = x0 - y0, x1 - y1, x2 - y2, x3 - y3
                    sums[0, j] = sums[0, j] + e0 * e0 + e1 * e1 + e2 * e2 + e3 * e3
                    e0, e1, e2, e3 = z0 - y0, z1 - y1, z2 - y2, z3 - y3
                    sums[1, j] = sums[1, j] + e0 * e0 + e1 * e1 + e2 * e2 + e3 * e3
            for r in range(min(2, n - i)):
                for j in range(first, last):
                    apart = sums[r, j - first] if squared else math.sqrt(sums[r, j - first])
                    out[i + r, j] = apart if apart <= np.inf else np.inf  # NaN becomes infinity
                if i + r < first:  # pairs within a block are computed twice, all others once
                    for j in range(first, last):
                        out[j, i + r] = out[i + r, j]
    for i in range(n):
        out[i, i] = 0.0


@kernel(inner=True)
def sort_part(v, low, high):
    """Sort v[low:high], a few values, by insertion."""
    for i in range(low + 1, high):
        x, j = v[i], i
        while j > low and v[j - 1] > x:
            v[j] = v[j - 1]
            j -= 1
        v[j] = x


@kernel()
def smallest_first(v, n, k, sample):
    """Bring the k smallest of v[:n] to the front, k < n: Hoare's selection with branch-free
    partitions."""
    low, high = 0, n
    while high - low > FEW:
        for s in range(SAMPLE):
            sample[s] = v[low + s * ((high - low) // SAMPLE)]
        sort_part(sample, 0, SAMPLE)
        pivot, less = sample[(k - low) * SAMPLE // (high - low)], low
        for j in range(low, high):
            x = v[j]
            v[j], v[less] = v[less], x
            less += x < pivot
        if k < less:
            high = less
            continue
        low = less
        # move values equal to the pivot too, or many equal values would take quadratic time
        for j in range(less, high):
            x = v[j]
            v[j], v[low] = v[low], x
            low += x == pivot
        if k < low:
            return
    sort_part(v, low, high)


@kernel(fastmath=SUMS, inner=True)
def _sum(v, n):
    total = 0.0
    for i in range(n):
        total += v[i]
    return total


@kernel()
def krum_scores(apart, nearest, squared, scores):
    """For each row of `apart` (n, n), the sum of its `nearest` smallest entries beside the 0 on
    the diagonal."""
    n = apart.shape[0]
    v, sample = np.empty(n), np.empty(SAMPLE)
    for i in range(n):
        for j in range(n):
            v[j] = apart[i, j] * apart[i, j] if squared else apart[i, j]
        if nearest + 1 < n:
            smallest_first(v, n, nearest + 1, sample)
        scores[i] = _sum(v, nearest + 1)


@kernel(by_address=True)
def krum_scores_of(updates, nearest, squared, scores):
    """`krum_scores` from the updates (n, d)."""
    never_inlined()
    n = updates.shape[0]
    apart = np.empty((n, n))
    distances(updates, squared, apart)
    krum_scores(apart, nearest, False, scores)
    return 0


@kernel(inner=True)
def _nearest_left(apart, order, left, i, most):
    """The sum of row i's distances to its `most` nearest others that are left, and where they end
    in its order."""
    total, found, end = 0.0, 0, 0
    while found < most and end < order.shape[1]:
        j = order[i, end]
        if left[j] and j != i:
            total += apart[i, j]
            found += 1
        end += 1
    return total, end


@kernel()
def bulyan_rows(apart, order, malicious, chosen):
    """Repeated Krum, each time without the rows selected before. `order` (n, n) sorts each row of
    `apart` once; the nearest rows of i are then a prefix of it, whose end only moves towards the
    front."""
    n = apart.shape[0]
    left, place = np.ones(n, np.bool_), np.empty((n, n), np.int32)
    sums, whole, end = np.empty(n), np.empty(n), np.empty(n, np.int64)
    nearest = max(1, n - malicious - 2)
    for i in range(n):
        for at in range(n):
            place[order[i, at], i] = at
        sums[i], end[i] = _nearest_left(apart, order, left, i, nearest)
        whole[i] = sums[i]
    for step in range(chosen.shape[0]):
        best = -1
        for i in range(n):
            if left[i] and (best < 0 or sums[i] < sums[best]):
                best = i
        chosen[step], left[best] = best, False
        before, nearest = nearest, max(1, n - step - 1 - malicious - 2)
        if step == chosen.shape[0] - 1:
            return
        for i in range(n):
            if not left[i]:
                continue
            gone = best if place[best, i] < end[i] else -1
            if before == nearest and gone < 0:
                continue
            while gone < 0:  # one fewer counts, but not the selected row: drop the farthest
                end[i] -= 1
                if left[order[i, end[i]]] and order[i, end[i]] != i:
                    gone = order[i, end[i]]
            sums[i] -= apart[i, gone]
            # subtraction leaves rounding errors (NaN after infinity): sum again before they matter
            if before == nearest or nearest <= FEW or not sums[i] > whole[i] / FEW:
                sums[i], end[i] = _nearest_left(apart, order, left, i, nearest)
                whole[i] = sums[i]


@kernel()
def mean_around_median(ordered, count, out):
    """For each sorted column, the mean of the `count` values nearest to its median; of two equally
    near values the lower one."""
    n, half = ordered.shape[0], ordered.shape[0] // 2
    for j in range(ordered.shape[1]):
        middle = np.float64(ordered[half, j])
        if n % 2 == 0:
            middle = (ordered[half - 1, j] + middle) / 2.0
        first = 0
        while (
            first + count < n and ordered[first + count, j] - middle < middle - ordered[first, j]
        ):
            first += 1
        total = 0.0
        for i in range(first, first + count):
            total += ordered[i, j]
        out[j] = total / count


@kernel(fastmath=SUMS, inner=True)
def _apart(row, z):
    total = 0.0
    for f in range(z.shape[0]):
        e = row[f] - z[f]
        total += e * e
    return math.sqrt(total)


@kernel()
def weiszfeld(updates, weights, smoothing, iterations, z):
    """Move z (d,) to the geometric median, until a step is no longer than smoothing / 1000."""
    after = np.empty(z.shape[0])
    for _ in range(iterations):
        total = 0.0
        for f in range(z.shape[0]):
            after[f] = 0.0
        for i in range(updates.shape[0]):
            apart = _apart(updates[i], z)
            if apart < np.inf:  # False for NaN
                pull = weights[i] / max(smoothing, apart)
                total += pull
                for f in range(z.shape[0]):
                    after[f] += pull * updates[i, f]
        for f in range(z.shape[0]):
            after[f] /= total
        moved = _apart(after, z)
        for f in range(z.shape[0]):
            z[f] = after[f]
        if moved <= 1e-3 * smoothing:
            return


@kernel()
def means_of_nearest(updates, weights, keep, out):
    """out[i] = the weighted mean of the `keep` updates nearest to updates[i], itself included;
    ties go to the earlier row."""
    n, d = updates.shape
    apart, v, sample, sums = np.empty((n, n)), np.empty(n), np.empty(SAMPLE), np.empty(d)
    distances(updates, True, apart)
    for i in range(n):
        for j in range(n):
            v[j] = apart[i, j]
        smallest_first(v, n, keep - 1, sample)
        edge, ties = v[keep - 1], keep
        for j in range(n):
            ties -= apart[i, j] < edge
        total = 0.0
        for f in range(d):
            sums[f] = 0.0
        for j in range(n):
            at_edge = apart[i, j] == edge
            if apart[i, j] < edge or (at_edge and ties > 0):
                ties -= at_edge
                total += weights[j]
                for f in range(d):
                    sums[f] += weights[j] * updates[j, f]
        for f in range(d):
            out[i, f] = sums[f] / total


# Deviations along the first principal direction: the compiled twin of
# `foltr.core.cohorts.outlier_scores`.

EXACT = 1e-6  # largest |U'U v - s v| / s


@kernel(fastmath=SUMS, inner=True)
def _dot(x, y):
    total = 0.0
    for f in range(x.shape[0]):
        total += x[f] * y[f]
    return total


@kernel(inner=True)
def _spread(centred, v, out):
    """out = U'U v for the rows U (n, d)."""
    for f in range(v.shape[0]):
        out[f] = 0.0
    for i in range(centred.shape[0]):
        along = _dot(centred[i], v)
        for f in range(v.shape[0]):
            out[f] += along * centred[i, f]


@kernel(inner=True)
def _best(a, b, c):
    """x and y, x^2 + y^2 = 1, with the largest a x^2 + 2 b x y + c y^2; b is not 0."""
    half = (a - c) / 2.0
    root = math.sqrt(half * half + b * b)
    x, y = (half + root, b) if half > 0.0 else (b, root - half)
    length = math.sqrt(x * x + y * y)
    return x / length, y / length


@kernel()
def outlier_scores(centred, v, iterations, scores):
    """(u_i . v)^2 of all rows (n, d), after v (d,), the start, is moved to their top right
    singular vector.

    That is where v'U'U v is largest on the unit sphere. Each step goes to the best point of the
    circle through v and q. q is the gradient plus a multiple of the last q (Fletcher & Reeves),
    orthogonal to v and of length 1."""
    d, before = v.shape[0], np.inf
    image, q, image_of_q = np.empty(d), np.zeros(d), np.empty(d)
    length = math.sqrt(_dot(v, v))
    for f in range(d):
        v[f] /= length
    _spread(centred, v, image)
    for _ in range(iterations):
        value = _dot(v, image)
        square = 0.0  # squared length of the gradient
        for f in range(d):
            square += (image[f] - value * v[f]) ** 2
        if square <= (EXACT * value) ** 2:
            break
        for f in range(d):
            q[f] = image[f] - value * v[f] + square / math.sqrt(before) * q[f]
        along = _dot(q, v)
        for f in range(d):
            q[f] -= along * v[f]
        length = math.sqrt(_dot(q, q))
        for f in range(d):
            q[f] /= length
        _spread(centred, q, image_of_q)
        x, y = _best(value, _dot(v, image_of_q), _dot(q, image_of_q))
        for f in range(d):
            v[f] = x * v[f] + y * q[f]
            image[f] = x * image[f] + y * image_of_q[f]
        before = square
    for i in range(centred.shape[0]):
        scores[i] = _dot(centred[i], v) ** 2
