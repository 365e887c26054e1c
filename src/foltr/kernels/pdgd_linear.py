"""Rounds of PDGD with the linear ranker, for a run of clients: the compiled twin of `PDGD.learn` over `Linear`."""

import math

import numpy as np
from numba import float32

from foltr.kernels import SUMS, kernel
from foltr.kernels.interaction import NOT_FINITE, choose, interact, scratch_of, session_keys
from foltr.kernels.lists import dots


@kernel(fastmath=SUMS)
def add_rows(X, start, ranking, k, weights, rate, w):
    for j in range(k):
        if weights[j] != 0.0:
            c, row = float32(rate * weights[j]), start + ranking[j]
            for f in range(w.shape[0]):
                w[f] += c * X[row, f]


@kernel(fastmath=SUMS)
def pull_back(w, params, strength):
    """FedProx: w += strength x (params - w)"""
    for f in range(w.shape[0]):
        w[f] += float32(strength) * (params[f] - w[f])


@kernel(fastmath=SUMS)
def keep_in_ball(w, radius):
    total = 0.0
    for f in range(w.shape[0]):
        total += np.float64(w[f]) * np.float64(w[f])
    norm = math.sqrt(total)
    if norm > radius:
        shrink = float32(radius / norm)
        for f in range(w.shape[0]):
            w[f] *= shrink


@kernel()
def learn_linear(data, blocks, people, tables, settings, params, keys, t, clients, updates, observed):
    """Fills updates (n, d) and observed (n, 2: sums of nDCG and MaxRR); returns the row that failed, or -1."""
    X, labels, longest = data
    starts, stops, labelling, ideals = blocks
    first, last, models, sessions = people
    click, stop, gain, discount = tables
    lr, decay, depth, shown_pairs, explore, radius, mu, each_session = settings
    width, d = X.shape[1], params.shape[0]
    base, w, s, scratch = np.zeros(width, np.float32), np.empty(width, np.float32), np.empty(longest, np.float32), \
        scratch_of(longest, depth)  # fmt: skip
    base[:d] = params
    ranking, weights = scratch[3], scratch[7]
    for i in range(clients.shape[0]):
        c = clients[i]
        w[:] = base
        used = w if each_session else base
        rate = lr * decay ** (t * sessions[c])
        observed[i, :] = 0.0
        for b in range(sessions[c]):
            ukey, rkey = session_keys(keys, c, t, b)
            block, model = choose(ukey, first[c], last[c], models[c])
            start, n = starts[block], stops[block] - starts[block]
            k = min(depth, n)
            dots(X, start, n, used, s)
            end = interact(s, n, k, explore, shown_pairs, rkey, ukey, labels[labelling[block]], start, click[model],
                           stop[model], ideals[block], gain, discount, scratch, observed[i])  # fmt: skip
            if end == NOT_FINITE:
                return i
            if mu > 0.0:
                pull_back(w, base, rate * mu)
            if end >= 0:
                add_rows(X, start, ranking, k, weights, rate, w)
            if radius < np.inf and (each_session or b == sessions[c] - 1):
                keep_in_ball(w, radius)
            rate *= decay
        for f in range(d):
            updates[i, f] = w[f] - base[f]
    return -1
