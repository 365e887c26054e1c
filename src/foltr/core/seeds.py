"""Randomness by address instead of order.

A stream is named by its use, e.g. `stream(7, "ranking", client, t)`. The same address gives the
same numbers in any engine, on any thread and after any resume. Nothing in the package uses global
random state.

The generator is splitmix64 (Steele, Lea & Flood, OOPSLA 2014) as a counter hash: draw i of key K
is `mix(K + i * GOLDEN)`. NumPy code here and compiled loops in `kernels/` therefore draw the same
bits in any order."""

from __future__ import annotations

from hashlib import blake2b
from os import urandom

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
BRANCH = 0xD1B54A32D192ED03  # separates the addresses below a key from the draws of that key
MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """The finaliser of splitmix64: a bijection of 64-bit words with random-looking output."""
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def below(key: int, part: int) -> int:
    """The key at address `part` below `key`."""
    return mix(mix(key ^ BRANCH) + part * GOLDEN)


def key(seed: int, *address: str | int) -> int:
    """The 64-bit key of an address; strings are hashed, integers are mixed in directly."""
    here = mix(seed + GOLDEN)
    for part in address:
        here = below(here, _word(part) if isinstance(part, str) else part)
    return here


def _word(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, *address: str | int) -> Stream:
    """The stream at an address."""
    return Stream(key(seed, *address))


class Stream:
    """A sequence of draws at one address; `at(i)` is the stream at address i below it."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.drawn = 0

    def at(self, part: int) -> Stream:
        return SubStream(self, part)

    def words(self, n: int) -> np.ndarray:
        """The next n 64-bit words."""  # (n,) uint64
        counters = np.arange(self.drawn, self.drawn + n, dtype=np.uint64)
        self.drawn += n
        z = np.uint64(self.key) + counters * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def uniforms(self, n: int) -> np.ndarray:
        """The next n draws from the open interval (0, 1), 52 bits each (with 53 the last one would
        round to 1)."""
        return ((self.words(n) >> np.uint64(12)) + 0.5) * 2.0**-52  # (n,) float64

    def uniform(self) -> float:
        """The next uniform draw; for one number, Python integers are faster than an array."""
        z = mix(self.key + self.drawn * GOLDEN)
        self.drawn += 1
        return ((z >> 12) + 0.5) * 2.0**-52

    def skip(self) -> None:
        """Skip one draw."""
        self.drawn += 1

    def normals(self, n: int) -> np.ndarray:
        """The next n standard normal draws, by Box and Muller."""  # (n,) float64
        u = self.uniforms(2 * ((n + 1) // 2))
        radius, angle = np.sqrt(-2.0 * np.log(u[0::2])), 2.0 * np.pi * u[1::2]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:n]

    def gaussians(self, n: int) -> np.ndarray:
        """The next n standard normal draws, one word each; the same bits in any implementation."""
        # (n,) float64
        return gaussian(self.uniforms(n))

    def integer(self, n: int) -> int:
        """The next draw from 0 .. n - 1."""
        return int(self.uniform() * n)

    def sample(self, n: int, k: int) -> np.ndarray:
        """k of 0 .. n - 1 without replacement, in ascending order."""  # (k,) int64
        return np.sort(np.argsort(self.words(n), kind="stable")[:k])


class SubStream(Stream):
    """A stream at an address below another. Its key is computed on first use, since many are never
    drawn from."""

    key: int

    def __init__(self, above: Stream, part: int) -> None:
        self.above, self.part = above, part
        self.drawn = 0

    def __getattr__(self, name: str) -> int:
        if name != "key":
            raise AttributeError(name)
        self.key = below(self.above.key, self.part)
        return self.key


class SystemStream(Stream):
    """Draws from the operating system that nobody can repeat: for noise and seeds on real devices,
    never for a simulation. Streams below it are equally fresh; addresses have no meaning."""

    def __init__(self) -> None:
        self.key = self.drawn = 0  # unused

    def at(self, part: int) -> Stream:
        return self

    def words(self, n: int) -> np.ndarray:
        return np.frombuffer(urandom(8 * n), np.uint64)

    def uniform(self) -> float:
        return float(self.uniforms(1)[0])


# AS 241's PPND7 (Wichura, Applied Statistics 37, 1988): the normal quantile to 1e-7, near the
# middle, in the tails and far out; each a ratio of polynomials, lowest power first
MIDDLE = (
    (3.3871327179, 50.434271938, 159.29113202, 59.10937472),
    (1.0, 17.895169469, 78.757757664, 67.1875636),
)
TAIL = (1.4234372777, 2.75681539, 1.3067284816, 0.17023821103), (1.0, 0.7370016425, 0.12021132975)
FAR = (
    (6.657905115, 3.081226386, 0.42868294337, 0.017337203997),
    (1.0, 0.24197894225, 0.012258202635),
)
LN2, ROOT2 = 0.6931471805599453, 1.4142135623730951
TERMS = tuple(2.0 / k for k in range(1, 17, 2))  # series of 2 artanh, for `gaussian`


def gaussian(u: np.ndarray) -> np.ndarray:
    """The standard normal quantiles of u in (0, 1), accurate to 1e-7.

    It uses only sums, products, quotients and square roots, which IEEE 754 rounds in one way. A
    library's logarithm may differ in its last bit, but a seed must give the same perturbation
    everywhere."""
    q = u - 0.5
    r = np.sqrt(-logarithm(np.minimum(u, 1.0 - u), TERMS))
    middle = q * ratio(0.180625 - q * q, MIDDLE)
    tail = np.where(r <= 5.0, ratio(r - 1.6, TAIL), ratio(r - 5.0, FAR))
    return np.where(np.abs(q) <= 0.425, middle, np.where(q < 0.0, -tail, tail))


def ratio(x: np.ndarray, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> np.ndarray:
    """The quotient of two polynomials of x."""
    above, below = (polynomial(x, p) for p in polynomials)
    return above / below


def polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    """The polynomial of x with these coefficients, lowest power first."""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def logarithm(x: np.ndarray, terms: tuple[float, ...]) -> np.ndarray:
    """The natural logarithm of m 2^e, m in [1/sqrt 2, sqrt 2): e ln 2 + 2 artanh((m - 1) / (m +
    1)), by its series of these terms."""
    m, e = np.frexp(x)
    m, e = m * 2.0, e - 1
    large = m > ROOT2
    m, e = np.where(large, 0.5 * m, m), np.where(large, e + 1, e)
    s = (m - 1.0) / (m + 1.0)
    return e * LN2 + s * polynomial(s * s, terms)
