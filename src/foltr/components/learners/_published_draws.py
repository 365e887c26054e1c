"""The random numbers of published FOLtR-ES code: NumPy's RandomState (Mersenne Twister).

Only for `ES(entropy='shared')`, which repeats published figures. Unlike all other streams it has
an order, not an address. (Matsumoto & Nishimura, ACM TOMACS 1998.) `kernels/draws.py` is its
compiled twin.
"""

from __future__ import annotations

import numpy as np

from foltr.core.errors import Mistake
from foltr.core.seeds import Stream


class PublishedDraws(Stream):
    """The draws of `RandomState(seed)`, one after the other, through the methods of `Stream` that
    a simulated user and a perturbation need."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.state = np.random.RandomState(seed)

    def at(self, part: int) -> PublishedDraws:
        return self  # every session goes on where the last one ended

    def skip(self) -> None:
        """Does nothing: unlike an addressed stream, the sequence holds no unused draws."""

    def words(self, n: int) -> np.ndarray:
        only = "ES(entropy='shared') repeats published draws: uniform numbers and integers"
        raise Mistake(f"{only}. A click model that needs others works with entropy='independent'")

    def uniforms(self, n: int) -> np.ndarray:
        return self.state.random_sample(n)

    def uniform(self) -> float:
        return float(self.state.random_sample())

    def integer(self, n: int) -> int:
        return int(self.state.randint(n))

    def gaussians(self, n: int) -> np.ndarray:
        return self.state.standard_normal(n)
