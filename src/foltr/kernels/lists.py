"""From scores to a list: the compiled twins of `foltr.ranking`."""

import math

import numpy as np
from numba import float32, int32, uint64

from foltr.kernels import SUMS, kernel
from foltr.kernels.draws import uniform, word

# e^x = 2^n e^r with r = x - n ln 2 in two parts, and the minimax polynomial of Cephes' expf for
# e^r
_LOG2E, _LN2_HIGH, _LN2_LOW = (
    np.float32(1.44269504),
    np.float32(0.693359375),
    np.float32(-2.12194440e-4),
)
_C5, _C4, _C3 = (
    np.float32(1.9875691500e-4),
    np.float32(1.3981999507e-3),
    np.float32(8.3334519073e-3),
)
_C2, _C1, _C0 = (
    np.float32(4.1665795894e-2),
    np.float32(1.6666665459e-1),
    np.float32(5.0000001201e-1),
)
_EXPONENT = np.int32(0x7F800000)
COUNTED = 128  # documents of a list in which a place is found by counting
_HALF, _ONE, _LEAST = np.float32(0.5), np.float32(1.0), np.float32(-87.0)


@kernel(fastmath={"contract"})
def exponentials(x, n, shift, out, bits):
    """out[:n] = e^(x[:n] - shift) for arguments in -87 .. 88, with a relative error of 2e-7;
    vectorised.

    `bits` is scratch for the exponent field of 2^n."""
    powers = bits.view(np.float32)
    for i in range(n):
        y = max(x[i] - shift, _LEAST)
        whole = np.floor(y * _LOG2E + _HALF)
        r = y - whole * _LN2_HIGH - whole * _LN2_LOW
        tail = ((((_C5 * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0
        out[i] = tail * r * r + r + _ONE
        bits[i] = (int32(whole) + int32(127)) << int32(23)
    for i in range(n):
        out[i] *= powers[i]


@kernel(fastmath=SUMS)
def extremes(s, n):
    """The lowest and the highest of s[:n]."""
    low, high = s[0], s[0]
    for i in range(1, n):
        low = min(low, s[i])
        high = max(high, s[i])
    return low, high


@kernel()
def finite(s, n):
    """Whether no score is infinite or NaN, which have all bits of the exponent set. (Arithmetic
    tests may be optimised away.)"""
    bits, greatest = s.view(np.int32), int32(0)
    for i in range(n):
        greatest = max(greatest, bits[i] & _EXPONENT)
    return greatest < _EXPONENT


@kernel(inner=True)
def _cumulate(mass, first, n, cdf):
    """cdf[first:n] = the sums of mass up to each document; returns the last one."""
    total = cdf[first - 1] if first > 0 else 0.0
    for i in range(first, n):
        total += mass[i]
        cdf[i] = total
    return total


@kernel(inner=True)
def _position(cdf, n, u):
    """The first i < n - 1 with cdf[i] > u, or n - 1. Short lists are counted, which is vectorised;
    long ones are bisected, without branches."""
    if n <= COUNTED:
        below = 0
        for i in range(n - 1):
            below += cdf[i] <= u
        return below
    low, span = 0, n - 1
    while span > 0:
        half = span >> 1
        above = cdf[low + half] <= u
        low = low + half + 1 if above else low
        span = span - half - 1 if above else half
    return low


@kernel()
def sample_narrow(mass, n, k, key, cdf, ranking, taken):
    """Plackett-Luce sampling by inverse CDF with replacement. Afterwards the mass of shown
    documents is 0, and `taken` holds their former mass."""
    total, drawn, j = _cumulate(mass, 0, n, cdf), uint64(0), 0
    first = n  # the first document that was taken since the sums were made
    while j < k:
        i = _position(cdf, n, uniform(key, drawn) * total)
        drawn += uint64(1)
        if mass[i] > 0:
            ranking[j] = i
            taken[j] = mass[i]
            mass[i] = 0
            j += 1
            first = min(first, i)
        else:  # sums before the first are the same as they were
            total = _cumulate(mass, first, n, cdf)
            first = n


@kernel()
def sample_wide(s, n, k, key, ranking, keys):
    """Plackett-Luce sampling as the k largest of s + Gumbel noise, for any range of scores."""
    filled = 0
    for i in range(n):
        value = np.float64(s[i]) - math.log(-math.log(uniform(key, uint64(i))))
        if filled < k or value > keys[k - 1]:
            j = filled if filled < k else k - 1
            filled += filled < k
            while j > 0 and keys[j - 1] < value:
                keys[j] = keys[j - 1]
                ranking[j] = ranking[j - 1]
                j -= 1
            keys[j] = value
            ranking[j] = i


@kernel()
def best_first(s, n, k, key, ranking):
    """The k highest scores in order; ties go to the lower random word."""
    filled = 0
    for i in range(n):
        j = filled if filled < k else k - 1
        if filled == k and not _before(s, i, ranking[j], key):
            continue
        filled += filled < k
        while j > 0 and _before(s, i, ranking[j - 1], key):
            ranking[j] = ranking[j - 1]
            j -= 1
        ranking[j] = i


@kernel()
def _before(s, i, other, key):
    if s[i] != s[other]:
        return s[i] > s[other]
    return word(key, uint64(i)) < word(key, uint64(other))


@kernel()
def row_of(rows, start, i):
    """The row of document i in a block: start + i, or, if start is negative, rows[~start + i]."""
    return start + i if start >= 0 else np.int64(rows[~start + i])


@kernel(fastmath=SUMS)
def dots(X, rows, start, n, w, s):
    """s[i] = x . w for the n documents of a block."""
    for i in range(n):
        total, row = float32(0), row_of(rows, start, i)
        for f in range(w.shape[0]):
            total += X[row, f] * w[f]
        s[i] = total
