"""Aggregation rules inside a stretch of rounds: the compiled twins of some of
`components/aggregators`.

All have the same arguments: addresses of the kernels that a rule calls, its numbers, then the
round's clients (n,), updates (n, d), weights (n,), the memory of `Gated`, and direction (d,),
which they fill. Sums are made in the order in which the definitions make them: no fast-math. All
updates are finite, and clients are in ascending order."""

import math

import numpy as np
from numba import float32

from foltr.core.cohorts import ENERGY, FLOOR, SCORE, SQUARES, WEIGHT
from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import called, never_inlined
from foltr.kernels.cohorts import FEW, SAMPLE, mean_into, smallest_first, sort_part

# DONE: the direction is filled. TOO_FEW: the rule needs more updates. UNUSUAL: the definition
# must make this round.
DONE, TOO_FEW, UNUSUAL = 0, 1, 2
RUN = 16  # values that are sorted by insertion


@kernel(by_address=True)
def mean(addresses, numbers, clients, updates, weights, memory, direction):
    never_inlined()
    mean_into(updates, weights, direction)
    return DONE


@kernel(inner=True)
def _scored(addresses, numbers, updates, scores):
    """Fill the Krum scores of the updates; whether there are enough of them."""
    n, malicious = updates.shape[0], int(numbers[0])
    if n < malicious + 3:
        return False
    called(addresses[0], (updates, n - malicious - 2, numbers[1] != 0.0, scores))
    return True


@kernel(by_address=True)
def krum(addresses, numbers, clients, updates, weights, memory, direction):
    """Numbers: malicious, squared. Addresses: `krum_scores_of`."""
    never_inlined()
    scores, best = np.empty(updates.shape[0]), 0
    if not _scored(addresses, numbers, updates, scores):
        return TOO_FEW
    for i in range(1, updates.shape[0]):
        if scores[i] < scores[best]:
            best = i
    for f in range(updates.shape[1]):
        direction[f] = updates[best, f]
    return DONE


@kernel(by_address=True)
def multi_krum(addresses, numbers, clients, updates, weights, memory, direction):
    """As `krum`."""
    never_inlined()
    n, malicious = updates.shape[0], int(numbers[0])
    scores, order, whole = np.empty(n), np.empty(n, np.int64), 0.0
    if not _scored(addresses, numbers, updates, scores):
        return TOO_FEW
    for i in range(n):  # ties stay in order
        j = i
        while j > 0 and scores[order[j - 1]] > scores[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    for f in range(updates.shape[1]):
        direction[f] = 0.0
    for place in range(n - malicious):
        i = order[place]
        whole += weights[i]
        for f in range(updates.shape[1]):
            direction[f] += weights[i] * np.float64(updates[i, f])
    for f in range(updates.shape[1]):
        direction[f] /= whole
    return DONE


@kernel(inner=True)
def sort(v, spare):
    """Sort v (n,): runs by insertion, which are then merged. spare (n,) is scratch."""
    n = v.shape[0]
    for low in range(0, n, RUN):
        for i in range(low + 1, min(low + RUN, n)):
            x, j = v[i], i
            while j > low and v[j - 1] > x:
                v[j] = v[j - 1]
                j -= 1
            v[j] = x
    width = RUN
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for i in range(low, high):
                if left < middle and (right >= high or v[left] <= v[right]):
                    spare[i] = v[left]
                    left += 1
                else:
                    spare[i] = v[right]
                    right += 1
        for i in range(n):
            v[i] = spare[i]
        width *= 2


@kernel(inner=True)
def sorted_column(updates, f, column, spare):
    for i in range(updates.shape[0]):
        column[i] = updates[i, f]
    sort(column, spare)


@kernel(by_address=True)
def trimmed_mean(addresses, numbers, clients, updates, weights, memory, direction):
    """Numbers: malicious."""
    never_inlined()
    n, malicious = updates.shape[0], int(numbers[0])
    if n < 2 * malicious + 1:
        return TOO_FEW
    column, spare = np.empty(n, np.float32), np.empty(n, np.float32)
    for f in range(updates.shape[1]):
        sorted_column(updates, f, column, spare)
        total = 0.0
        for i in range(malicious, n - malicious):
            total += np.float64(column[i])
        direction[f] = total / (n - 2 * malicious)
    return DONE


@kernel(inner=True)
def _zeros_of_both_signs(v):
    negative, positive = False, False
    for i in range(v.shape[0]):
        if v[i] == 0.0:
            negative = negative or math.copysign(1.0, v[i]) < 0.0
            positive = positive or math.copysign(1.0, v[i]) > 0.0
    return negative and positive


@kernel(by_address=True)
def median(addresses, numbers, clients, updates, weights, memory, direction):
    never_inlined()
    n = updates.shape[0]
    column, spare = np.empty(n, np.float32), np.empty(n, np.float32)
    for f in range(updates.shape[1]):
        sorted_column(updates, f, column, spare)
        direction[f] = (np.float64(column[(n - 1) // 2]) + np.float64(column[n // 2])) / 2.0
        if direction[f] == 0.0 and _zeros_of_both_signs(column):
            return UNUSUAL  # NumPy sorts them in any order
    return DONE


@kernel(inner=True)
def _same(bits, i, j):
    for f in range(bits.shape[1]):
        if bits[i, f] != bits[j, f]:
            return False
    return True


@kernel(inner=True)
def _mark_single(updates, single):
    """single[i] = whether row i is no copy: the twin of `gated.copies`."""
    n, bits = updates.shape[0], updates.view(np.int32)
    first, majority = np.empty(n, np.int64), False  # of the rows that are equal to i
    for i in range(n):
        first[i], single[i] = i, True
        for j in range(i):
            if bits[j, 0] == bits[i, 0] and first[j] == j and _same(bits, i, j):
                first[i] = j
                break
    for i in range(n):
        if first[i] != i:
            continue
        size, zero = 0, True
        for j in range(i, n):
            size += first[j] == i
        for f in range(updates.shape[1]):
            zero = zero and updates[i, f] == float32(0)
        if size < 2 or zero:
            continue
        majority = majority or 2 * size > n
        for j in range(i, n):
            if first[j] == i:
                single[j] = False
    if majority:
        for i in range(n):
            single[i] = True


@kernel(inner=True)
def _placed(ids, clients, at):
    """at[i] = where client i stands in ids, both ascending; whether all do."""
    place = 0
    for i in range(clients.shape[0]):
        while place < ids.shape[0] and ids[place] < clients[i]:
            place += 1
        if place == ids.shape[0] or ids[place] != clients[i]:
            return False
        at[i] = place
    return True


@kernel(by_address=True)
def gated(addresses, numbers, clients, updates, weights, memory, direction):
    """Numbers: decay, limit, uneven, longest, and the share of kept clients below which the
    fallback is used; then those of the fallback. Addresses: `look` and the fallback; then those of
    the fallback. If too few are kept for the fallback, their mean is used."""
    never_inlined()
    ids, sums, tallies, scale = memory
    n, d = updates.shape
    at, single, left_out = np.empty(n, np.int64), np.empty(n, np.bool_), np.empty(n, np.bool_)
    if not _placed(ids, clients, at):
        return UNUSUAL  # a client is new: the memory must grow
    _mark_single(updates, single)
    bounds = numbers[0], numbers[1], numbers[2], numbers[3]
    if ids.shape[0] == n:
        called(addresses[0], (updates, single, bounds, sums, tallies, scale, left_out))
    else:
        own, counts = np.empty((n, d)), np.empty((n, 4))
        for i in range(n):
            for f in range(d):
                own[i, f] = sums[at[i], f]
            for f in range(4):
                counts[i, f] = tallies[at[i], f]
        called(addresses[0], (updates, single, bounds, own, counts, scale, left_out))
        for i in range(n):
            for f in range(d):
                sums[at[i], f] = own[i, f]
            for f in range(4):
                tallies[at[i], f] = counts[i, f]
    kept = 0
    for i in range(n):
        kept += not left_out[i]
    if kept == 0:
        return UNUSUAL
    if kept == n:
        mean_into(updates, weights, direction)
        return DONE
    trusted, shares = np.empty((kept, d), np.float32), np.empty(kept)
    who, row = np.empty(kept, np.int64), 0
    for i in range(n):
        if not left_out[i]:
            who[row], shares[row] = clients[i], weights[i]
            for f in range(d):
                trusted[row, f] = updates[i, f]
            row += 1
    if kept < numbers[4] * n:
        made = called(
            addresses[1], (addresses[2:], numbers[5:], who, trusted, shares, memory, direction)
        )
        if made != TOO_FEW:
            return made
    mean_into(trusted, shares, direction)
    return DONE


# Clients that deviate over many rounds: the compiled twin of
# `components/aggregators/gated.py`.


@kernel(inner=True)
def _median(v, n, sample):
    """The median of v[:n], which is reordered; 0 if n is 0."""
    half = n // 2
    if n < 2:
        return v[0] if n else 0.0
    if n <= FEW:
        sort_part(v, 0, n)
        return v[half] if n % 2 else 0.5 * (v[half - 1] + v[half])
    smallest_first(v, n, half, sample)
    low, high = v[0], v[half]
    for i in range(half):
        low = max(low, v[i])
    for i in range(half, n):
        high = min(high, v[i])
    return high if n % 2 else 0.5 * (low + high)


@kernel(inner=True)
def _median_of(values, among, buffer, sample):
    k = 0
    for i in range(len(values)):
        if among[i]:
            buffer[k] = values[i]
            k += 1
    return _median(buffer, k, sample)


@kernel(fastmath=SUMS, inner=True)
def _squares(updates, among, out):
    """out[j] = the mean square of coordinate j over the rows `among`; returns their number."""
    n, d = updates.shape
    k = 0
    for j in range(d):
        out[j] = 0.0
    for i in range(n):
        k += among[i]
        if among[i]:
            for j in range(d):
                x = np.float64(updates[i, j])  # numba's float() keeps float32
                out[j] += x * x
    for j in range(d):
        out[j] /= max(k, 1)
    return k


@kernel(inner=True)
def _pooled(rows, weights, among, centre):
    """centre = sum_i rows[i] / sum_i weights[i] over the rows `among`."""
    n, d = rows.shape
    whole = 0.0
    for j in range(d):
        centre[j] = 0.0
    for i in range(n):
        if among[i]:
            whole += weights[i]
            for j in range(d):
                centre[j] += rows[i, j]
    for j in range(d):
        centre[j] /= whole


@kernel(fastmath=SUMS, inner=True)
def _apart(sums, tallies, noise, centre, out):
    n, d = sums.shape
    for i in range(n):
        total, weight = 0.0, tallies[i, WEIGHT]
        for j in range(d):
            away = sums[i, j] - weight * centre[j]
            total += away * away
        out[i] = total / (tallies[i, SQUARES] * noise)


@kernel(inner=True)
def _nearest_half(sums, tallies, noise, single, apart, centre, buffer, sample, chosen):
    """Choose more than half of the single rows: those nearest to the median of each coordinate."""
    n, d = sums.shape
    for j in range(d):
        k = 0
        for i in range(n):
            if single[i]:
                buffer[k] = sums[i, j] / tallies[i, WEIGHT]
                k += 1
        centre[j] = _median(buffer, k, sample)
    _apart(sums, tallies, noise, centre, apart)
    k = 0
    for i in range(n):
        if single[i]:
            buffer[k] = apart[i]
            k += 1
    if k > 1:
        smallest_first(buffer, k, k // 2, sample)
    border = buffer[0]
    for i in range(k // 2 + 1):
        border = max(border, buffer[i])
    for i in range(n):
        chosen[i] = single[i] and apart[i] <= border


@kernel(fastmath=SUMS, by_address=True)
def look(updates, single, bounds, sums, tallies, scale, left_out):
    """The twin of `foltr.components.aggregators.gated.look`; fills sums, tallies, scale and
    left_out."""
    never_inlined()
    decay, limit, uneven, longest = bounds
    n, d = updates.shape
    unit, y, reference, energy = np.empty(d), np.empty((n, d)), np.empty(d), np.empty(n)
    some, buffer, sample = np.empty(n, np.bool_), np.empty(n), np.empty(SAMPLE)

    if scale[d] > 0.0:
        for j in range(d):
            unit[j] = scale[j] / scale[d]
    else:
        _squares(updates, single, unit)
    mean = 0.0
    for j in range(d):
        mean += unit[j] / d
    for j in range(d):
        unit[j] = 1.0 / math.sqrt(unit[j] + FLOOR * mean) if mean > 0.0 else 0.0
    trusted = 0
    for i in range(n):
        energy[i] = 0.0
        for j in range(d):
            y[i, j] = updates[i, j] * unit[j]
            energy[i] += y[i, j] * y[i, j]
        left_out[i] = single[i] and tallies[i, SCORE] <= 1.0
        trusted += left_out[i]
    _pooled(y, np.ones(n), left_out if trusted else single, reference)

    for i in range(n):
        some[i] = single[i] and energy[i] > 0.0
    level = _median_of(energy, some, buffer, sample)
    usual = scale[d + 1] / scale[d] if scale[d] > 0.0 else level
    top = longest * longest * max(level, usual)
    values = np.empty(n)
    for i in range(n):
        left_out[i] = top > 0.0 and energy[i] > top
        shrink, centred = math.sqrt(top / energy[i]) if left_out[i] else 1.0, 0.0
        for j in range(d):
            away = (y[i, j] - reference[j]) * shrink
            centred += away * away
            sums[i, j] = decay * sums[i, j] + away
        tallies[i, WEIGHT] = decay * tallies[i, WEIGHT] + 1.0
        tallies[i, SQUARES] = decay * decay * tallies[i, SQUARES] + 1.0
        tallies[i, ENERGY] = decay * decay * tallies[i, ENERGY] + min(centred, energy[i])
        values[i] = tallies[i, ENERGY] / tallies[i, SQUARES]
    noise = _median_of(values, single, buffer, sample)

    if noise > 0.0:
        _nearest_half(sums, tallies, noise, single, values, reference, buffer, sample, some)
        for _ in range(2):
            _pooled(sums, tallies[:, WEIGHT], some, reference)
            _apart(sums, tallies, noise, reference, values)
            allowed = max(limit, uneven * _median_of(values, single, buffer, sample))
            for i in range(n):
                tallies[i, SCORE] = values[i] / allowed
                some[i] = single[i] and values[i] <= allowed
    for i in range(n):
        left_out[i] = left_out[i] or not single[i] or tallies[i, SCORE] > 1.0
        some[i] = not left_out[i]
    if _squares(updates, some, unit):
        for j in range(d):
            scale[j] = decay * scale[j] + unit[j]
        scale[d] = decay * scale[d] + 1.0
        scale[d + 1] = decay * scale[d + 1] + level
    return 0
