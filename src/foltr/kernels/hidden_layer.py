"""One hidden layer, forwards and backwards: the compiled twin of `MLP.scores` and `MLP.pullback`.

Matrix products are explicit loops over four documents and two hidden units at a time: as fast as a
single-threaded BLAS at these sizes, and with the same bits for any number of threads."""

import numpy as np
from numba import float32

from foltr.kernels import SUMS, kernel
from foltr.kernels.interaction import exponentials, row_of

SIGMOID, RELU, TANH = 0, 1, 2
_ONE, _TWO, _ZERO, _MOST = np.float32(1), np.float32(2), np.float32(0), np.float32(80)


@kernel(inner=True)
def layer_of(documents, hidden):
    """Scratch arrays of a hidden layer: before activation, after it, and for `exponentials`."""
    before, after = (
        np.empty((documents, hidden), np.float32),
        np.empty((documents, hidden), np.float32),
    )
    return before, after, np.empty(documents * hidden, np.int32)


@kernel(fastmath=SUMS, inner=True)
def products(X, rows, start, n, W, Z):
    """Z[:n] = X W' for the n documents of a block."""  # (n, w) x (h, w) -> (n, h)
    hidden, width = W.shape
    even = hidden - hidden % 2
    # the last rows are repeated to make four, so that equal documents get equal scores
    for i in range(0, n, 4):
        i1, i2, i3 = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        r0, r1 = row_of(rows, start, i), row_of(rows, start, i1)
        r2, r3 = row_of(rows, start, i2), row_of(rows, start, i3)
        for h in range(0, even, 2):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = float32(0)
            for f in range(width):
                x0, x1, x2, x3 = X[r0, f], X[r1, f], X[r2, f], X[r3, f]
                u, v = W[h, f], W[h + 1, f]
                a0 += x0 * u
                a1 += x1 * u
                a2 += x2 * u
                a3 += x3 * u
                b0 += x0 * v
                b1 += x1 * v
                b2 += x2 * v
                b3 += x3 * v
            Z[i, h], Z[i1, h], Z[i2, h], Z[i3, h] = a0, a1, a2, a3
            Z[i, h + 1], Z[i1, h + 1], Z[i2, h + 1], Z[i3, h + 1] = b0, b1, b2, b3
    for i in range(n if even < hidden else 0):
        total, row = float32(0), row_of(rows, start, i)
        for f in range(width):
            total += X[row, f] * W[even, f]
        Z[i, even] = total


@kernel(fastmath=SUMS, inner=True)
def activate(Z, n, b, activation, A, bits):
    """A[:n] = a(Z[:n] + b); overwrites Z. Input and output are different arrays so that the loops
    are vectorised."""
    hidden = b.shape[0]
    z, a = Z.reshape(Z.size), A.reshape(A.size)
    if activation == RELU:
        for i in range(n):
            for h in range(hidden):
                A[i, h] = max(Z[i, h] + b[h], _ZERO)
        return
    slope = _TWO if activation == TANH else _ONE  # tanh(z) = 2 sigmoid(2 z) - 1
    for i in range(n):
        for h in range(hidden):
            Z[i, h] = min(-slope * (Z[i, h] + b[h]), _MOST)
    exponentials(z, n * hidden, _ZERO, a, bits)
    for i in range(n * hidden):
        a[i] = slope / (_ONE + a[i]) - (slope - _ONE)


@kernel(fastmath=SUMS, inner=True)
def head(A, n, v, s):
    """s[:n] = A[:n] . v."""
    for i in range(n):
        total = float32(0)
        for h in range(v.shape[0]):
            total += A[i, h] * v[h]
        s[i] = total


@kernel(fastmath=SUMS, inner=True)
def slopes_into(A, ranking, k, weights, rate, v, activation, G, ranks):
    """G[m] = rate x weight x v x a'(z) of the m-th shown document with a weight; returns their
    number."""
    m = 0
    for j in range(k):
        if weights[j] == 0.0:
            continue
        c, i = float32(rate * weights[j]), ranking[j]
        ranks[m] = j
        for h in range(v.shape[0]):
            a = A[i, h]
            if activation == SIGMOID:
                slope = a * (_ONE - a)
            elif activation == TANH:
                slope = _ONE - a * a
            else:
                slope = _ONE if a > _ZERO else _ZERO
            G[m, h] = c * v[h] * slope
        m += 1
    return m


@kernel(fastmath=SUMS, inner=True)
def step(X, rows, start, A, ranking, k, weights, rate, v_used, activation, W, b, v, G, ranks):
    """Add rate x pullback(weights) to W, b and v; `v_used` is the head that computed the
    scores."""
    m = slopes_into(A, ranking, k, weights, rate, v_used, activation, G, ranks)
    hidden, width = W.shape
    for q in range(m, m + 3):  # padded to a multiple of four with zero rows
        ranks[q] = ranks[0]
        G[q, :] = _ZERO
    for q in range(0, m, 4):
        r0, r1 = row_of(rows, start, ranking[ranks[q]]), row_of(rows, start, ranking[ranks[q + 1]])
        r2, r3 = (
            row_of(rows, start, ranking[ranks[q + 2]]),
            row_of(rows, start, ranking[ranks[q + 3]]),
        )
        for h in range(hidden):
            g0, g1, g2, g3 = G[q, h], G[q + 1, h], G[q + 2, h], G[q + 3, h]
            b[h] += g0 + g1 + g2 + g3
            for f in range(width):
                W[h, f] += g0 * X[r0, f] + g1 * X[r1, f] + g2 * X[r2, f] + g3 * X[r3, f]
    for q in range(m):
        c, i = float32(rate * weights[ranks[q]]), ranking[ranks[q]]
        for h in range(hidden):
            v[h] += c * A[i, h]
