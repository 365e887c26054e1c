"""The compiled twin of `foltr.seeds`: same keys, same draws."""

from numba import float64, uint64

from foltr.kernels import kernel
from foltr.seeds import BRANCH, GOLDEN

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
