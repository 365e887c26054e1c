"""Plain steps on the server."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Memory
from foltr.core.errors import require
from foltr.core.spec import optimizer


@optimizer
@dataclass(frozen=True)
class SGD:
    """Add the direction to the parameters.

        params <- params + lr x direction

    lr = 1 is the server of FedAvg. With a mean over n clients of one session each, lr = n gives
    the sum of their updates.

    Fields
        lr: step size (> 0)

    Reference: McMahan, Moore, Ramage, Hampson & Agüera y Arcas, AISTATS 2017
    (arXiv:1602.05629)."""

    lr: float = 1.0

    def __post_init__(self) -> None:
        require(self.lr > 0.0, f"lr must be > 0, got {self.lr}")

    @property
    def step_size(self) -> float:
        return self.lr

    def init(self, dim: int) -> Memory:
        return ()

    def __call__(self, params: Array, direction: Array, memory: Memory) -> tuple[Array, Memory]:
        return params + (direction if self.lr == 1.0 else self.lr * direction), memory
