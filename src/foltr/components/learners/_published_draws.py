"""The random stream that the published FOLtR-ES code draws from: Mersenne Twister as NumPy's
RandomState uses it.

Only for `ES(entropy='shared')`, which repeats published figures. Unlike everything else here it
has an order, not an address. (Matsumoto & Nishimura, ACM TOMACS 1998.)"""

from __future__ import annotations

import math

import numpy as np

WORDS, MIDDLE = 624, 397
TWIST, UPPER, LOWER = 0x9908B0DF, 0x80000000, 0x7FFFFFFF


class MersenneTwister:
    """The draws of `RandomState(seed)`, one after the other, through the same methods as
    `seeds.Stream`."""

    def __init__(self, seed: int) -> None:
        state = np.empty(WORDS, np.uint64)
        state[0] = word = seed
        for i in range(1, WORDS):
            word = (1812433253 * (word ^ (word >> 30)) + i) & 0xFFFFFFFF
            state[i] = word
        self.state, self.used, self.spare = state.astype(np.uint32), WORDS, math.nan

    def at(self, part: int) -> MersenneTwister:
        return self  # no addresses: every session goes on where the last one ended

    def skip(self) -> None:
        """A draw that is not needed is not made."""

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
        """53 bits of two words."""
        high, low = self.word() >> 5, self.word() >> 6
        return (high * 67108864.0 + low) / 9007199254740992.0

    def integer(self, n: int) -> int:
        """By masking a word and rejecting what is too large; one possible value needs no draw."""
        if n == 1:
            return 0
        mask = (1 << (n - 1).bit_length()) - 1
        while (value := self.word() & mask) >= n:
            pass
        return value

    def normal(self) -> float:
        """The polar method, whose draws come in pairs."""
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
