"""Randomness by address, not by order.

A stream is named by what it is for, e.g. `stream(7, "ranking", client, t)`. Same address, same numbers: in any engine,
on any thread, after any resume. Nothing in the package touches global random state.

The generator is splitmix64 (Steele, Lea & Flood, OOPSLA 2014) used as a counter hash: draw i of key K is
`mix(K + i * GOLDEN)`, so that NumPy code here and compiled loops in `kernels/` draw the same bits in any order.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
BRANCH = 0xD1B54A32D192ED03  # keeps the addresses below a key apart from the draws of that key
MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """The splitmix64 finaliser: a bijection of 64-bit words that looks random."""
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def below(key: int, part: int) -> int:
    """The key at address `part` below `key`."""
    return mix(mix(key ^ BRANCH) + part * GOLDEN)


def key(seed: int, *address: str | int) -> int:
    """A 64-bit key for an address; words are hashed, whole numbers are mixed in as they are."""
    here = mix(seed + GOLDEN)
    for part in address:
        here = below(here, _word(part) if isinstance(part, str) else part)
    return here


def _word(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, *address: str | int) -> Stream:
    return Stream(key(seed, *address))


class Stream:
    """A sequence of draws at one address; `at(i)` is the stream at an address below it."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.drawn = 0

    def at(self, part: int) -> Stream:
        return Stream(below(self.key, part))

    def words(self, n: int) -> np.ndarray:
        """The next n 64-bit words."""  # (n,) uint64
        counters = np.arange(self.drawn, self.drawn + n, dtype=np.uint64)
        self.drawn += n
        z = np.uint64(self.key) + counters * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def uniforms(self, n: int) -> np.ndarray:
        """The next n draws from the open interval (0, 1), 52 bits each (with 53, the last one would round to 1)."""
        return ((self.words(n) >> np.uint64(12)) + 0.5) * 2.0**-52  # (n,) float64

    def uniform(self) -> float:
        """The next draw alone: plain integers are quicker than arrays of one."""
        z = mix(self.key + self.drawn * GOLDEN)
        self.drawn += 1
        return ((z >> 12) + 0.5) * 2.0**-52

    def normals(self, n: int) -> np.ndarray:
        """The next n standard normal draws, by Box and Muller."""  # (n,) float64
        u = self.uniforms(2 * ((n + 1) // 2))
        radius, angle = np.sqrt(-2.0 * np.log(u[0::2])), 2.0 * np.pi * u[1::2]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:n]

    def integer(self, n: int) -> int:
        """The next draw from 0 .. n - 1."""
        return int(self.uniform() * n)

    def sample(self, n: int, k: int) -> np.ndarray:
        """k of 0 .. n - 1 without replacement, in ascending order."""  # (k,) int64
        return np.sort(np.argsort(self.words(n), kind="stable")[:k])
