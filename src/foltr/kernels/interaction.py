"""One search, given its scores: show a list, click, sum the measures, and compute PDGD's document
weights.

It is the compiled twin of `SimulatedUser.session`, `plackett_luce` and `document_weights`, for any
ranker."""

import math

import numpy as np
from numba import float32, int32, uint64

from foltr.core.ranking import WIDE
from foltr.kernels import SUMS, kernel
from foltr.kernels.draws import below, uniform, word

NO_CLICK, NOT_FINITE = -1, -2


@kernel()
def choose(user_key, first, last, models):
    """The block and the click model of a session."""
    block = first + int(uniform(user_key, uint64(0)) * (last - first))
    return block, models[int(uniform(user_key, uint64(1)) * models.shape[0])]


@kernel(inner=True)
def scan(grades, k, click, stop, user_key, clicked):
    """Fill the clicks of a list; returns the rank of the last one, or NO_CLICK."""
    last = NO_CLICK
    for j in range(k):
        clicked[j] = False
    for j in range(k):
        if uniform(user_key, uint64(2 + 2 * j)) < click[j, grades[j]]:
            clicked[j] = True
            last = j
            if uniform(user_key, uint64(3 + 2 * j)) < stop[j, grades[j]]:
                break
    return last


@kernel(inner=True)
def judge(ranking, k, labels, rows, start, ideal, gain, discount, grades, tally):
    """Fill the grades of the shown documents, and add their nDCG to `tally`."""
    dcg = 0.0
    for j in range(k):
        grades[j] = labels[row_of(rows, start, ranking[j])]
    for j in range(min(k, discount.shape[0])):
        dcg += gain[grades[j]] * discount[j]
    if ideal > 0.0:
        tally[0] += dcg / ideal


@kernel(inner=True)
def reciprocal_rank(clicked, k):
    """The reciprocal rank of the first click among k, 0 without a click."""
    for j in range(k):
        if clicked[j]:
            return 1.0 / (j + 1)
    return 0.0


@kernel()
def interact(
    s,
    n,
    k,
    explore,
    shown_pairs,
    rank_key,
    user_key,
    labels,
    rows,
    start,
    click,
    stop,
    ideal,
    gain,
    discount,
    scratch,
    tally,
):
    """Fill the ranking and the weights of the shown documents (in `scratch`), and add nDCG and
    MaxRR to `tally`.

    Returns the rank of the last click, NO_CLICK, or NOT_FINITE."""
    mass, bits, cdf, ranking, taken, grades, clicked, weights = scratch
    if not finite(s, n):
        return NOT_FINITE
    low, top = extremes(s, n)
    narrow = np.float64(top) - np.float64(low) <= WIDE
    if explore and narrow:
        exponentials(s, n, top, mass, bits)
        sample_narrow(mass, n, k, rank_key, cdf, ranking, taken)
    elif explore:
        sample_wide(s, n, k, rank_key, ranking, cdf)
    else:
        best_first(s, n, k, rank_key, ranking)
    judge(ranking, k, labels, rows, start, ideal, gain, discount, grades, tally)
    last = scan(grades, k, click, stop, user_key, clicked)
    if last == NO_CLICK:
        return NO_CLICK
    tally[1] += reciprocal_rank(clicked, min(last + 1, discount.shape[0]))
    examined = k if shown_pairs else min(last + 2, k)
    if narrow:
        if not explore:
            exponentials(s, n, top, mass, bits)
            for j in range(k):
                taken[j] = mass[ranking[j]]
                mass[ranking[j]] = 0
        _weights_narrow(mass, n, taken, k, clicked, examined, cdf, weights)
    else:
        _weights_wide(s, n, ranking, k, clicked, examined, weights)
    return last


@kernel(fastmath=SUMS, inner=True)
def _sum(mass, n):
    total = float32(0)
    for i in range(n):
        total += mass[i]
    return total


@kernel(fastmath=SUMS, inner=True)
def _weights_narrow(mass, n, taken, k, clicked, examined, inverse, weights):
    """The document weights from masses; those of shown documents are in `taken`, and 0 in
    `mass`."""
    left = np.float64(_sum(mass, n))
    # D_j by adding up from documents never shown: subtracting would cancel
    for j in range(k - 1, -1, -1):
        left += taken[j]
        inverse[j] = 1.0 / left
        weights[j] = 0.0
    for b in range(1, k):
        for a in range(b):
            loser = b if clicked[a] else a
            if clicked[a] == clicked[b] or loser >= examined:
                continue
            gap, odds = taken[a] - taken[b], 1.0
            for j in range(a + 1, b + 1):
                odds *= 1.0 + gap * inverse[j]
            both = taken[a] + taken[b]
            weight = taken[a] * taken[b] / (both * both * (1.0 + odds))
            winner = a if clicked[a] else b
            weights[winner] += weight
            weights[loser] -= weight


@kernel(inner=True)
def _weights_wide(s, n, ranking, k, clicked, examined, weights):
    """The document weights from scores, with D_j as logarithms, for any range of scores."""
    shown, log_mass = np.zeros(n, np.bool_), np.empty(k + 1)
    for j in range(k):
        shown[ranking[j]] = True
        weights[j] = 0.0
    top, left = -np.inf, 0.0
    for i in range(n):
        if not shown[i]:
            top = max(top, np.float64(s[i]))
    for i in range(n):
        if not shown[i]:
            left += math.exp(np.float64(s[i]) - top)
    log_mass[k] = top + math.log(left) if left > 0.0 else -np.inf
    for j in range(k - 1, -1, -1):
        here = np.float64(s[ranking[j]])
        x, y = max(log_mass[j + 1], here), min(log_mass[j + 1], here)
        log_mass[j] = x + math.log1p(math.exp(y - x))
    for b in range(1, k):
        for a in range(b):
            loser = b if clicked[a] else a
            if clicked[a] == clicked[b] or loser >= examined:
                continue
            high, low, odds = np.float64(s[ranking[a]]), np.float64(s[ranking[b]]), 1.0
            for j in range(a + 1, b + 1):
                odds *= 1.0 + math.exp(high - log_mass[j]) - math.exp(low - log_mass[j])
            closeness = math.exp(-abs(high - low))
            weight = closeness / (1.0 + closeness) ** 2 / (1.0 + odds)
            winner = a if clicked[a] else b
            weights[winner] += weight
            weights[loser] -= weight


@kernel()
def scratch_of(longest, k):
    """The scratch arrays of `interact`, for the longest list."""
    return (
        np.empty(longest, np.float32),
        np.empty(longest, np.int32),
        np.empty(max(longest, k)),
        np.empty(k, np.int64),
        np.empty(k),
        np.empty(k, np.int64),
        np.empty(k, np.bool_),
        np.empty(k),
    )


@kernel(inner=True)
def scratch_in(room, first, longest, k):
    """The same in `room`, whose float32 numbers are free from `first` on: for callers that search
    so rarely that allocating would cost as much as a search."""
    singles, doubles, integers, bits, flags = room
    end = max(longest, k)
    return (
        singles[first : first + longest],
        bits,
        doubles[:end],
        integers[:k],
        doubles[end : end + k],
        integers[k : 2 * k],
        flags,
        doubles[end + k : end + 2 * k],
    )


def room_of(longest: int, k: int, width: int) -> tuple[np.ndarray, ...]:
    """Room for a search by a linear ranker: two copies of the parameters, scores and masses in
    single precision; `scratch_in`, and two sums."""
    return (
        np.empty(2 * width + 2 * longest, np.float32),
        np.empty(max(longest, k) + 2 * k + 2),
        np.empty(2 * k, np.int64),
        np.empty(longest, np.int32),
        np.empty(k, np.bool_),
    )


@kernel(inner=True)
def report(seen, i, tally, sessions):
    """Fill a client's column of `seen`: mean nDCG, mean MaxRR, sessions."""
    seen[0, i], seen[1, i], seen[2, i] = tally[0] / sessions, tally[1] / sessions, sessions


@kernel(inner=True)
def session_keys(keys, client, t, session):
    """The keys of the user and of the ranking in one session."""
    c, r, s = uint64(client), uint64(t), uint64(session)
    return below(below(below(keys[0], c), r), s), below(below(below(keys[1], c), r), s)


# From scores to a list: the compiled twins of `foltr.core.ranking`.

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
