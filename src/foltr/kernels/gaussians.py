"""Standard normal draws: the compiled twin of `foltr.core.seeds.gaussian`, bit for bit (without
fast-math)."""

import math

import numpy as np
from numba import int64, uint64

from foltr.core.seeds import FAR, GOLDEN, LN2, MIDDLE, ROOT2, TAIL
from foltr.kernels import kernel
from foltr.kernels.draws import mix

_GOLDEN = uint64(GOLDEN)
_MANTISSA, _ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
(_A0, _A1, _A2, _A3), (_, _B1, _B2, _B3) = MIDDLE
(_C0, _C1, _C2, _C3), (_, _D1, _D2) = TAIL
(_E0, _E1, _E2, _E3), (_, _F1, _F2) = FAR
_S1, _S3, _S5, _S7, _S9, _S11, _S13, _S15 = (2.0 / k for k in range(1, 17, 2))


@kernel()
def split(r, bits, i):
    """(e, s) with ln r[i] = e ln 2 + 2 artanh(s), |s| < 0.18. `bits` is a view of r, and r[i] is
    overwritten."""
    e = (bits[i] >> 52) - 1023
    bits[i] = (bits[i] & _MANTISSA) | _ONE
    m = r[i]
    large = m > ROOT2
    m = 0.5 * m if large else m
    return e + 1 if large else e, (m - 1.0) / (m + 1.0)


@kernel()
def gaussians(key, n, u, r, out):
    """out[:n] = the first n draws of the key; u and r (float64) are scratch. It works in passes
    that can be vectorised."""
    bits = r.view(np.int64)
    for i in range(n):
        w = mix(key + uint64(i) * _GOLDEN)
        u[i] = (np.float64(int64(w >> uint64(12))) + 0.5) * 2.0**-52
        r[i] = min(u[i], 1.0 - u[i])
    for i in range(n):
        e, s = split(r, bits, i)
        z = s * s
        series = (
            (((((_S15 * z + _S13) * z + _S11) * z + _S9) * z + _S7) * z + _S5) * z + _S3
        ) * z + _S1
        r[i] = math.sqrt(-(e * LN2 + s * series))
    for i in range(n):
        q = u[i] - 0.5
        x = 0.180625 - q * q
        above, below = ((_A3 * x + _A2) * x + _A1) * x + _A0, ((_B3 * x + _B2) * x + _B1) * x + 1.0
        y = r[i] - 1.6
        tail_above, tail_below = ((_C3 * y + _C2) * y + _C1) * y + _C0, (_D2 * y + _D1) * y + 1.0
        middle = abs(q) <= 0.425
        value = (above if middle else tail_above) / (below if middle else tail_below)
        out[i] = q * value if middle else (-value if q < 0.0 else value)
    for i in range(n):  # one draw in 10^11
        if r[i] > 5.0:
            y = r[i] - 5.0
            far = (((_E3 * y + _E2) * y + _E1) * y + _E0) / ((_F2 * y + _F1) * y + 1.0)
            out[i] = -far if u[i] < 0.5 else far
