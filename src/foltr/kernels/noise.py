"""Noise on the updates of many clients, in place: the compiled twins of the privatizers'
`on_client`."""

import math

import numpy as np
from numba import float32, float64, uint64

from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.draws import below, uniform, word
from foltr.kernels.normals import finer, normals
from foltr.noise import FINE

_FINE = uint64(FINE)


@kernel(inner=True)
def _jump(length, key):
    """The twin of `noise._jump`."""
    first = word(key, uint64(0))
    u = (float64(first >> uint64(12)) + 0.5) * 2.0**-52
    v = finer(word(key, uint64(1)), key, 2)
    far = 1.0 + math.floor(math.log(v) / math.log1p(-math.exp(-length * u)))
    return far if first & uint64(1) else -far


@kernel(inner=True)
def _polya_share(length, chances, key, i, first):
    """The twin of one number of `noise.polya_shares`, given its `first` word."""
    own = below(key, uint64(i))
    v = (
        finer(first, below(own, uint64(0)), 0)
        if first < _FINE
        else (float64(first) + 0.5) * 2.0**-64
    )
    total, j = 0.0, 0
    while j < chances.shape[0] and v < chances[j]:
        total += _jump(length, below(own, uint64(1 + j)))
        j += 1
    return total


@kernel(by_address=True)
def add_polya_shares(settings, chances, key, clients, t, updates):
    never_inlined()
    step, most, length = settings[0], settings[1], settings[2]
    least = chances[0] * 2.0**64
    for i in range(clients.shape[0]):
        own = below(below(key, uint64(clients[i])), uint64(t))
        for j in range(updates.shape[1]):
            bare = (
                math.floor(np.float64(updates[i, j]) / step + 0.5)
                if math.isfinite(updates[i, j])
                else 0.0
            )
            bare = -most if bare < -most else (most if bare > most else bare)
            first = word(own, uint64(j))
            if float64(first) + 0.5 < least:  # rare with many clients
                bare += _polya_share(length, chances, own, j, first)
            updates[i, j] = float32(bare * step)
    return 0


@kernel(fastmath=SUMS, inner=True)
def _norm(row, order):
    total = 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        total += abs(x) if order == 1 else x * x
    return total if order == 1 else math.sqrt(total)


@kernel(inner=True)
def _kept(row, order, most, kept):
    """The twin of `privacy.clipping.within`."""
    norm = _norm(row, order)
    shrink = most / norm if norm > most else 1.0
    for j in range(row.shape[0]):
        kept[j] = np.float64(row[j]) * shrink if math.isfinite(norm) else 0.0


@kernel(by_address=True)
def clip_and_add_laplace(settings, chances, key, clients, t, updates):
    never_inlined()
    most, scale, step = settings[0], settings[1], settings[2]
    kept = np.empty(updates.shape[1])
    for i in range(clients.shape[0]):
        own = below(below(key, uint64(clients[i])), uint64(t))
        _kept(updates[i], 1, most, kept)
        for j in range(updates.shape[1]):
            u = uniform(own, uint64(j))
            noise = math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u))
            updates[i, j] = float32(math.floor((kept[j] + scale * noise) / step + 0.5) * step)
    return 0


@kernel(by_address=True)
def clip_and_add_normals(settings, chances, key, clients, t, updates):
    never_inlined()
    most, sd, step, shares = settings[0], settings[1], settings[2], settings[3] != 0.0
    d = updates.shape[1]
    v, r, noise, kept = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(clients.shape[0]):
        _kept(updates[i], 2, most, kept)
        if sd == 0.0:
            for j in range(d):
                updates[i, j] = kept[j]
            continue
        normals(below(below(key, uint64(clients[i])), uint64(t)), d, v, r, noise)
        if shares:  # update and noise are rounded separately
            for j in range(d):
                bare, share = (
                    math.floor(kept[j] / step + 0.5),
                    math.floor(sd * noise[j] / step + 0.5),
                )
                updates[i, j] = float32((bare + share) * step)
        else:
            for j in range(d):
                updates[i, j] = float32(math.floor((kept[j] + sd * noise[j]) / step + 0.5) * step)
    return 0
