"""Noise on the updates of many clients, in place: the compiled twins of the privatizers'
`on_client`."""

import math

import numpy as np
from numba import float32, float64, int64, uint64

from foltr.core.noise import DEEPEST, FAR, FINE, MIDDLE, TAIL, TERMS
from foltr.core.seeds import LN2
from foltr.kernels import SUMS, kernel
from foltr.kernels.calls import never_inlined
from foltr.kernels.draws import below, uniform, word
from foltr.kernels.gaussians import split

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


# Standard normal draws for privacy: the compiled twin of `foltr.core.noise.normals`, without
# fast-math.

(_A0, _A1, _A2, _A3, _A4, _A5, _A6, _A7), (_, _B1, _B2, _B3, _B4, _B5, _B6, _B7) = MIDDLE
(_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7), (_, _D1, _D2, _D3, _D4, _D5, _D6, _D7) = TAIL
(_E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7), (_, _F1, _F2, _F3, _F4, _F5, _F6, _F7) = FAR
_S1, _S3, _S5, _S7, _S9, _S11, _S13, _S15, _S17, _S19 = TERMS


@kernel()
def finer(first, key, drawn):
    """The twin of `foltr.core.noise.finer`, from the words of the key after the first `drawn`."""
    unit = 2.0**-64
    while first == uint64(0) and unit > DEEPEST:
        first, unit = word(key, uint64(drawn)), unit * 2.0**-64
        drawn += 1
    if first >= _FINE:
        return (float64(first) + 0.5) * unit
    return (float64(first) + (float64(word(key, uint64(drawn))) + 0.5) * 2.0**-64) * unit


@kernel(inner=True)
def _middle(x):
    above = ((((((_A7 * x + _A6) * x + _A5) * x + _A4) * x + _A3) * x + _A2) * x + _A1) * x + _A0
    return above / (
        ((((((_B7 * x + _B6) * x + _B5) * x + _B4) * x + _B3) * x + _B2) * x + _B1) * x + 1.0
    )


@kernel(inner=True)
def _tail(x):
    above = ((((((_C7 * x + _C6) * x + _C5) * x + _C4) * x + _C3) * x + _C2) * x + _C1) * x + _C0
    return above / (
        ((((((_D7 * x + _D6) * x + _D5) * x + _D4) * x + _D3) * x + _D2) * x + _D1) * x + 1.0
    )


@kernel(inner=True)
def _far(x):
    above = ((((((_E7 * x + _E6) * x + _E5) * x + _E4) * x + _E3) * x + _E2) * x + _E1) * x + _E0
    return above / (
        ((((((_F7 * x + _F6) * x + _F5) * x + _F4) * x + _F3) * x + _F2) * x + _F1) * x + 1.0
    )


@kernel()
def normals(key, n, v, r, out):
    """out[:n] = the first n draws of the key; v and r (float64) are scratch. It works in passes
    that can be vectorised."""
    bits = r.view(np.int64)
    for i in range(n):
        w = word(key, uint64(i))
        out[i] = 1.0 if w & uint64(1) else -1.0
        v[i] = (float64(int64(w >> uint64(1))) + 0.5) * 2.0**-64
    for i in range(n):
        if v[i] <= 2.0**-11:  # FINE 2^-64
            high = word(key, uint64(i)) >> uint64(1)
            if high < _FINE:
                v[i] = finer(high, below(key, uint64(i)), 0)
    for i in range(n):
        r[i] = v[i]
    for i in range(n):
        e, s = split(r, bits, i)
        z = s * s
        top = (((_S19 * z + _S17) * z + _S15) * z + _S13) * z + _S11
        series = ((((top * z + _S9) * z + _S7) * z + _S5) * z + _S3) * z
        r[i] = math.sqrt(-(e * LN2 + s * (series + _S1)))
    for i in range(n):
        q = 0.5 - v[i]
        near, tail = q * _middle(0.180625 - q * q), _tail(r[i] - 1.6)
        out[i] *= near if q <= 0.425 else tail
    for i in range(n):  # one draw in 10^11
        if r[i] > 5.0:
            out[i] = math.copysign(_far(r[i] - 5.0), out[i])
