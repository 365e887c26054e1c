"""One search, given its scores: show a list, click, sum the measures, and compute PDGD's document
weights.

It is the compiled twin of `SimulatedUser.session`, `plackett_luce` and `document_weights`, for any
ranker."""

import math

import numpy as np
from numba import float32, uint64

from foltr.kernels import SUMS, kernel
from foltr.kernels.draws import below, uniform
from foltr.kernels.lists import (
    best_first,
    exponentials,
    extremes,
    finite,
    row_of,
    sample_narrow,
    sample_wide,
)
from foltr.ranking import WIDE

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
