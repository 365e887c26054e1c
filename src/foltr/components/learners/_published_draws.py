"""The Mersenne Twister of NumPy's RandomState, from which the published FOLtR-ES code draws.

It is used only by `ES(entropy='shared')`, to reproduce published figures. Its draws depend on
their order; all other randomness of this project is addressed (see `seeds.py`).

Reference: Matsumoto & Nishimura, ACM TOMACS 1998."""

from __future__ import annotations

import math

import numpy as np

WORDS, MIDDLE = 624, 397
TWIST, UPPER, LOWER = 0x9908B0DF, 0x80000000, 0x7FFFFFFF


class MersenneTwister:
    """The draws of `RandomState(seed)` in sequence, through the methods of `seeds.Stream`."""

    def __init__(self, seed: int) -> None:
        state = np.empty(WORDS, np.uint64)
        state[0] = word = seed
        for i in range(1, WORDS):
            word = (1812433253 * (word ^ (word >> 30)) + i) & 0xFFFFFFFF
            state[i] = word
        self.state, self.used, self.spare = state.astype(np.uint32), WORDS, math.nan

    def at(self, part: int) -> MersenneTwister:
        return self  # one sequence: every session continues where the last one ended

    def skip(self) -> None:
        """Does nothing: unlike an addressed stream, the sequence holds no unused draws."""

    def word(self) -> int:
        if self.used == WORDS:
            self._twist()
        y = int(self.state[self.used])
        self.used += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        return y ^ (y >> 18)

    def _twist(self) -> None:
        s = self.state.tolist()
        for i in range(WORDS):
            y = (s[i] & UPPER) | (s[(i + 1) % WORDS] & LOWER)
            s[i] = s[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ (TWIST if y & 1 else 0)
        self.state, self.used = np.array(s, np.uint32), 0

    def uniform(self) -> float:
        """A uniform number in [0, 1) with 53 random bits, from two words."""
        high, low = self.word() >> 5, self.word() >> 6
        return (high * 67108864.0 + low) / 9007199254740992.0

    def integer(self, n: int) -> int:
        """A uniform integer in 0 .. n - 1: masked words, rejected while >= n. n = 1 draws
        nothing."""
        if n == 1:
            return 0
        mask = (1 << (n - 1).bit_length()) - 1
        while (value := self.word() & mask) >= n:
            pass
        return value

    def normal(self) -> float:
        """A standard normal number by the polar method, which yields two at a time."""
        if not math.isnan(self.spare):
            value, self.spare = self.spare, math.nan
            return value
        while True:
            x, y = 2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0
            square = x * x + y * y
            if 0.0 < square < 1.0:
                break
        scale = math.sqrt(-2.0 * math.log(square) / square)
        self.spare = scale * x
        return scale * y
