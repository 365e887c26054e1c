"""Adam on the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Memory
from foltr.core.errors import require
from foltr.core.kinds import OptimizerDefaults
from foltr.core.spec import optimizer


@optimizer
@dataclass(frozen=True)
class Adam(OptimizerDefaults):
    """Step along the direction with Adam's bias-corrected moments, as FOLtR-ES does.

    With g the direction (ascent),
        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
        params <- params + lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    in round t = 1, 2, ...; m and v start at 0.

    Fields
        lr: step size (> 0)
        b1: decay of the first moment, per round (0 <= b1 < 1)
        b2: decay of the second moment, per round (0 <= b2 < 1)
        eps: added to the denominator (> 0)

    Reference: Kingma & Ba, ICLR 2015 (arXiv:1412.6980)."""

    lr: float = 0.001
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require(self.lr > 0.0, f"lr must be > 0, got {self.lr}")
        require(
            0.0 <= self.b1 < 1.0 and 0.0 <= self.b2 < 1.0,
            f"b1, b2 must be in [0, 1), got {self.b1}, {self.b2}",
        )
        require(self.eps > 0.0, f"eps must be > 0, got {self.eps}")

    def init(self, dim: int) -> Memory:
        return np.zeros(dim), np.zeros(dim), np.zeros(1)

    def __call__(self, params: Array, direction: Array, memory: Memory) -> tuple[Array, Memory]:
        m, v, t = memory
        m = self.b1 * m + (1.0 - self.b1) * direction
        v = self.b2 * v + (1.0 - self.b2) * direction**2
        t = t + 1.0
        rate = np.sqrt(v / (1.0 - self.b2**t)) + self.eps
        return params + self.lr * (m / (1.0 - self.b1**t)) / rate, (m, v, t)
