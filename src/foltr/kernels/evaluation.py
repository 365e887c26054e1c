"""Scores and measures of whole collections: the compiled twin of `metrics.measure_queries`."""

import numpy as np
from numba import uint64

from foltr.kernels import kernel
from foltr.kernels.draws import below
from foltr.kernels.hidden_layer import activate, head, layer_of, products
from foltr.kernels.lists import best_first, dots
from foltr.kernels.pdgd_mlp import spread

CHUNK = 256  # documents whose hidden layer is computed at a time


@kernel()
def score_linear(X, first, last, params, scores):
    w = np.zeros(X.shape[1], np.float32)
    for f in range(params.shape[0]):
        w[f] = params[f]
    dots(X, np.empty(0, np.int32), first, last - first, w, scores[first:])


@kernel()
def score_mlp(X, first, last, network, params, scores):
    hidden, features, activation = network
    width = X.shape[1]
    split = hidden * width
    w = np.empty(split + 2 * hidden, np.float32)
    spread(params, hidden, features, width, w)
    (Z, A, bits), every = layer_of(CHUNK, hidden), np.empty(0, np.int32)
    for start in range(first, last, CHUNK):
        n = min(CHUNK, last - start)
        products(X, every, start, n, w[:split].reshape(hidden, width), Z)
        activate(Z, n, w[split : split + hidden], activation, A, bits)
        head(A, n, w[split + hidden :], scores[start:])


@kernel()
def measure(scores, labels, offsets, first, last, ideals, click, gain, discount, key, out):
    """Fill out[first:last] (q, 3) with nDCG, reciprocal rank and expected MaxRR."""
    depth = discount.shape[0]
    ranking = np.empty(depth, np.int64)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        k = min(depth, n)
        best_first(scores[start:], n, k, below(key, uint64(q)), ranking)
        dcg, rr, expected, unclicked = 0.0, 0.0, 0.0, 1.0
        for j in range(k):
            grade = labels[start + ranking[j]]
            dcg += gain[grade] * discount[j]
            if rr == 0.0 and grade > 0:
                rr = 1.0 / (j + 1)
            expected += unclicked * click[j, grade] / (j + 1)
            unclicked *= 1.0 - click[j, grade]
        relevant = ideals[q] > 0.0
        out[q, 0] = dcg / ideals[q] if relevant else np.nan
        out[q, 1] = rr if relevant else np.nan
        out[q, 2] = expected
