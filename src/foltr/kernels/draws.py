"""The compiled twin of `foltr.core.seeds`: same keys, same draws."""

import math

import numpy as np
from numba import float64, int64, uint32, uint64

from foltr.core.seeds import BRANCH, GOLDEN
from foltr.kernels import kernel

_GOLDEN, _BRANCH = uint64(GOLDEN), uint64(BRANCH)


@kernel()
def mix(z):
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@kernel()
def below(key, part):
    return mix(mix(key ^ _BRANCH) + uint64(part) * _GOLDEN)


@kernel()
def word(key, counter):
    return mix(key + uint64(counter) * _GOLDEN)


@kernel()
def uniform(key, counter):
    return (float64(word(key, counter) >> uint64(12)) + 0.5) * 2.0**-52


# The compiled twin of `components/learners/_published_draws.py`. A twister is its 624 words
# and a place among them.

WORDS, MIDDLE = 624, 397
_A, _B, _C = np.uint32(0x9908B0DF), np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_UPPER, _LOWER, _STEP = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(1812433253)


@kernel()
def reseed(seed, state, place):
    state[0] = uint32(seed)
    for i in range(1, WORDS):
        state[i] = uint32(_STEP * (state[i - 1] ^ (state[i - 1] >> uint32(30))) + uint32(i))
    place[0] = WORDS


@kernel()
def _twisted(high, low, far):
    y = (high & _UPPER) | (low & _LOWER)
    return far ^ (y >> uint32(1)) ^ (_A if y & uint32(1) else uint32(0))


@kernel()
def twister_word(state, place):
    if place[0] == WORDS:
        for i in range(WORDS - MIDDLE):
            state[i] = _twisted(state[i], state[i + 1], state[i + MIDDLE])
        for i in range(WORDS - MIDDLE, WORDS - 1):
            state[i] = _twisted(state[i], state[i + 1], state[i + MIDDLE - WORDS])
        state[WORDS - 1] = _twisted(state[WORDS - 1], state[0], state[MIDDLE - 1])
        place[0] = 0
    y = state[place[0]]
    place[0] += 1
    y ^= y >> uint32(11)
    y ^= (y << uint32(7)) & _B
    y ^= (y << uint32(15)) & _C
    return y ^ (y >> uint32(18))


@kernel()
def twister_uniform(state, place):
    high, low = twister_word(state, place) >> uint32(5), twister_word(state, place) >> uint32(6)
    return (high * 67108864.0 + low) / 9007199254740992.0


@kernel()
def twister_integer(state, place, n):
    mask, most = int64(0), int64(n - 1)
    while mask < most:
        mask = mask << 1 | 1
    if most == 0:
        return int64(0)
    value = int64(twister_word(state, place)) & mask
    while value > most:
        value = int64(twister_word(state, place)) & mask
    return value


@kernel()
def twister_normals(state, place, n, out):
    for i in range(0, n, 2):
        while True:
            x, y = (
                2.0 * twister_uniform(state, place) - 1.0,
                2.0 * twister_uniform(state, place) - 1.0,
            )
            square = x * x + y * y
            if 0.0 < square < 1.0:
                break
        scale = math.sqrt(-2.0 * math.log(square) / square)
        out[i] = scale * y
        if i + 1 < n:
            out[i + 1] = scale * x


@kernel()
def twister_scan(grades, k, click, stop, state, place, clicked):
    """Fill the clicks of a list, drawing only the numbers that are needed."""
    for j in range(k):
        clicked[j] = False
    for j in range(k):
        if twister_uniform(state, place) < click[j, grades[j]]:
            clicked[j] = True
            if twister_uniform(state, place) < stop[j, grades[j]]:
                break
