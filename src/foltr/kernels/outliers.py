"""Deviations along the first principal direction: the compiled twin of
`foltr.cohorts.outlier_scores`.

It uses conjugate gradients, because power iteration takes thousands of steps to separate the first
direction from the second where none dominates, as with noise."""

import math

import numpy as np

from foltr.kernels import SUMS, kernel

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
