"""Noise on the updates of many clients, in place: the compiled twins of the privatizers' `on_client`."""

import math

import numpy as np
from numba import float32, uint64

from foltr.kernels import SUMS, kernel
from foltr.kernels.draws import below, uniform
from foltr.kernels.gaussians import gaussians


@kernel()
def _gamma_share(n, u, key):
    d = 2.0 / 3.0 + 1.0 / n
    c, drawn = 1.0 / math.sqrt(9.0 * d), 0
    while True:
        radius = math.sqrt(-2.0 * math.log(uniform(key, uint64(drawn))))
        x = radius * math.cos(2.0 * math.pi * uniform(key, uint64(drawn + 1)))
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(key, uint64(drawn + 2))) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * math.exp(n * math.log(u))
        drawn += 3


@kernel()
def add_gamma_shares(settings, n, key, clients, t, updates):
    scale, least = settings[0], math.exp(settings[1] / n)
    for i in range(clients.shape[0]):
        own = below(below(key, uint64(clients[i])), uint64(t))
        for j in range(updates.shape[1]):
            up, down = uniform(own, uint64(2 * j)), uniform(own, uint64(2 * j + 1))
            if max(up, down) < least:
                continue  # what float32 would hold as 0, which is nearly always
            share = _gamma_share(n, up, below(own, uint64(2 * j))) if up >= least else 0.0
            share -= _gamma_share(n, down, below(own, uint64(2 * j + 1))) if down >= least else 0.0
            updates[i, j] += float32(scale * share)


@kernel(fastmath=SUMS)
def _norm(row, order):
    total = 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        total += abs(x) if order == 1 else x * x
    return total if order == 1 else math.sqrt(total)


@kernel()
def _kept(row, order, most, kept):
    """The twin of `within`."""
    norm = _norm(row, order)
    shrink = most / norm if norm > most else 1.0
    for j in range(row.shape[0]):
        kept[j] = np.float64(row[j]) * shrink if math.isfinite(norm) else 0.0


@kernel()
def clip_and_add_laplace(settings, n, key, clients, t, updates):
    most, scale, step = settings
    kept = np.empty(updates.shape[1])
    for i in range(clients.shape[0]):
        own = below(below(key, uint64(clients[i])), uint64(t))
        _kept(updates[i], 1, most, kept)
        for j in range(updates.shape[1]):
            u = uniform(own, uint64(j))
            noise = math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u))
            updates[i, j] = float32(math.floor((kept[j] + scale * noise) / step + 0.5) * step)


@kernel()
def clip_and_add_gaussians(settings, n, key, clients, t, updates):
    most, sd, step = settings
    d = updates.shape[1]
    u, r, noise, kept = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(clients.shape[0]):
        _kept(updates[i], 2, most, kept)
        if sd == 0.0:
            updates[i] = kept
            continue
        gaussians(below(below(key, uint64(clients[i])), uint64(t)), d, u, r, noise)
        for j in range(d):
            updates[i, j] = float32(math.floor((kept[j] + sd * noise[j]) / step + 0.5) * step)
