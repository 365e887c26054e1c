"""Noise for privacy, drawn so precisely that the probability of every value has a small relative
error.

A guarantee covers every value that can be observed, so rare values must be drawn as precisely as
frequent ones. A tail probability has 63 random bits; if the first ten are 0 it gets 64 more, and
so on, so its relative precision is 2^-53 down to 2^-1000. Normal noise therefore reaches 37
standard deviations and other noise 690 scales; the ledger gives no guarantee where larger changes
matter. `kernels/noise.py` has the compiled twins. `seeds.gaussian`, with an error of 1e-7, is not
for privacy."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from foltr.core import Array
from foltr.core.seeds import Stream, SystemStream, logarithm, ratio

FINE = 2**53  # an integer below this is extended by another word
DEEPEST = 2.0**-900  # smallest unit to which a fraction is extended
TERMS = tuple(2.0 / k for k in range(1, 21, 2))  # series of 2 artanh; the next term is below 1e-17

# AS 241's PPND16 (Wichura, Applied Statistics 37, 1988): the normal quantile to 1e-16, near the
# middle, in the tails and far out; each a ratio of polynomials, lowest power first
MIDDLE = (
    (
        3.3871328727963666080,
        133.14166789178437745,
        1971.5909503065514427,
        13731.693765509461125,
        45921.953931549871457,
        67265.770927008700853,
        33430.575583588128105,
        2509.0809287301226727,
    ),
    (
        1.0,
        42.313330701600911252,
        687.18700749205790830,
        5394.1960214247511077,
        21213.794301586595867,
        39307.895800092710610,
        28729.085735721942674,
        5226.4952788528545610,
    ),
)
TAIL = (
    (
        1.42343711074968357734,
        4.63033784615654529590,
        5.76949722146069140550,
        3.64784832476320460504,
        1.27045825245236838258,
        0.241780725177450611770,
        0.0227238449892691845833,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187,
        1.67638483018380384940,
        0.689767334985100004550,
        0.148103976427480074590,
        0.0151986665636164571966,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
FAR = (
    (
        6.65790464350110377720,
        5.46378491116411436990,
        1.78482653991729133580,
        0.296560571828504891230,
        0.0265321895265761230930,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        0.599832206555887937690,
        0.136929880922735805310,
        0.0148753612908506148525,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def tails(rng: Stream, n: int) -> tuple[Array, Array]:
    """n draws as a side, 1 or -1, and a tail probability in (0, 1/2]; draw i may take more words
    from rng.at(i)."""
    words = rng.words(n)
    high = words >> np.uint64(1)
    v = (high.astype(np.float64) + 0.5) * 2.0**-64
    for i in np.flatnonzero(high < FINE).tolist():
        v[i] = finer(int(high[i]), rng.at(i))
    return np.where(words & np.uint64(1), 1.0, -1.0), v


def finer(word: int, more: Stream) -> float:
    """The binary fraction that begins with these 64 bits, extended by more words until it has 53
    significant bits."""
    unit = 2.0**-64
    while word == 0 and unit > DEEPEST:
        word, unit = int(more.words(1)[0]), unit * 2.0**-64
    if word >= FINE:
        return (word + 0.5) * unit
    return (word + (float(more.words(1)[0]) + 0.5) * 2.0**-64) * unit


def normals(rng: Stream, n: int) -> Array:
    """n standard normal draws with an error below 2e-14."""  # (n,) float64
    side, v = tails(rng, n)
    return side * upper_quantile(v)


def upper_quantile(v: Array) -> Array:
    """x >= 0 with P(N > x) = v, for v in (0, 1/2]."""
    q, r = 0.5 - v, np.sqrt(-logarithm(v, TERMS))
    near = q * ratio(0.180625 - q * q, MIDDLE)
    return np.where(
        q <= 0.425, near, np.where(r <= 5.0, ratio(r - 1.6, TAIL), ratio(r - 5.0, FAR))
    )


def laplaces(rng: Stream, n: int) -> Array:
    """n Laplace draws of scale 1. Real devices (`SystemStream`) use `tails`; simulations use
    52-bit uniforms."""
    if isinstance(rng, SystemStream):
        side, v = tails(rng, n)
        return -side * np.log(2.0 * v)
    u = rng.uniforms(n)
    return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))


def polya_shares(rng: Stream, d: int, n: int, scale: float) -> Array:
    """d integers, such that those of n clients add up to discrete Laplace noise, P(z) ~ exp(-|z| /
    scale).

    Each is the difference of two negative binomial (Polya) variables of shape 1/n. That is a
    Poisson number of jumps to either side, each of logarithmic length: P(l) = p^l / (l L) with p =
    exp(-1 / scale) and L = -ln(1 - p). There are 2 L / n jumps on average, nearly always none. A
    length is 1 + floor(ln V / ln(1 - exp(-L U))) for uniform U and V (Kemp, Applied Statistics 30,
    1981).

    Reference: divisible noise: Kotz, Kozubowski & Podgorski, 2001; on integers: Balle, Bell,
    Gascon & Nissim, CCS 2020."""
    length, chances = jumps(n, scale)
    words, found = rng.words(d), np.zeros(d)
    v = words.astype(np.float64) + 0.5
    for i in np.flatnonzero(v < chances[0] * 2.0**64).tolist():
        own = rng.at(i)
        tail = finer(int(words[i]), own.at(0)) if words[i] < FINE else v[i] * 2.0**-64
        for j in range(int(np.count_nonzero(tail < chances))):
            found[i] += _jump(length, own.at(1 + j))
    return found  # (d,) float64


@cache
def jumps(n: int, scale: float) -> tuple[float, Array]:
    """L, and the probabilities of at least 1, 2, ... jumps."""
    p = math.exp(-1.0 / scale)
    length = -math.log(-math.expm1(-1.0 / scale)) if p > 0.5 else -math.log1p(-p)
    mean = max(2.0 * length / n, 1e-300)
    most = math.ceil(mean + 20.0 * math.sqrt(mean) + 60.0)
    terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1.0)) for k in range(1, most)]
    chances = np.cumsum(terms[::-1])[::-1]
    chances.setflags(write=False)
    return length, chances


def _jump(length: float, rng: Stream) -> float:
    """One jump: U and the side from the first word, V from the second one and its extensions."""
    first = int(rng.words(1)[0])
    u = (float(first >> 12) + 0.5) * 2.0**-52
    far = 1.0 + math.floor(
        math.log(finer(int(rng.words(1)[0]), rng)) / math.log1p(-math.exp(-length * u))
    )
    return far if first & 1 else -far


# Clipping of updates, and rounding to a grid that does not depend on the data.

# relative margin for float32 rounding, so that no norm exceeds the ledger's sensitivity
SLACK = 1e-6
BITS = 23  # bits of a number in a message, without the sign


def within(update: Array, norm: float, clip: float) -> Array:
    """The update in float64, scaled down to norm `clip` if its norm is larger; an update that is
    not finite becomes 0."""
    if not math.isfinite(norm):
        return np.zeros(len(update))
    most = clip * (1.0 - SLACK)
    return update.astype(np.float64) * (most / norm if norm > most else 1.0)


def grid_step(reach: float, bits: int = BITS) -> float:
    """The power of two such that numbers up to `reach` are at most 2^bits steps."""
    return 2.0 ** (math.ceil(math.log2(reach)) - bits)


def fine_step(size: float, bits: int) -> float:
    """The power of two such that noise of size `size` is at least 2^bits steps."""
    return 2.0 ** (math.floor(math.log2(size)) - bits)


def on_grid(values: Array, step: float) -> Array:
    """The values rounded to multiples of the step."""
    return np.floor(values / step + 0.5) * step
