"""The plain step: FedAvg's server for `lr=1.0`."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Memory
from foltr.errors import require
from foltr.spec import optimizer


@optimizer
@dataclass(frozen=True)
class SGD:
    """params + lr x direction. With one session per client and lr = clients, the mean becomes a
    sum."""

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
