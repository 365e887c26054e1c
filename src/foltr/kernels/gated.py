"""Clients that deviate over many rounds: the compiled twin of
`components/aggregators/_gating.py`."""

import math

import numpy as np

from foltr.cohorts import ENERGY, FLOOR, SCORE, SQUARES, WEIGHT
from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.cohorts import FEW, SAMPLE, smallest_first, sort_part


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
    """The twin of `foltr.components.aggregators._gating.look`; fills sums, tallies, scale and
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
