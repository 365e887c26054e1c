"""Adagrad on the server's side (Reddi et al., ICLR 2021): see docs/howto/optimizer.md."""

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Memory
from foltr.core.errors import require
from foltr.core.kinds import OptimizerDefaults
from foltr.core.spec import optimizer


@optimizer
@dataclass(frozen=True)
class Adagrad(OptimizerDefaults):
    """v + g^2 becomes v, then params + lr g / (sqrt(v) + tau) for the direction g."""

    lr: float = 0.1
    tau: float = 0.001

    def __post_init__(self) -> None:
        require(
            self.lr > 0.0 and self.tau > 0.0, f"lr and tau must be > 0, got {self.lr}, {self.tau}"
        )

    def init(self, dim: int) -> Memory:
        return (np.zeros(dim),)

    def __call__(self, params: Array, direction: Array, memory: Memory) -> tuple[Array, Memory]:
        v = memory[0] + np.square(direction)
        return params + self.lr * direction / (np.sqrt(v) + self.tau), (v,)
