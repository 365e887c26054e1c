"""Users who read only the first few results: the click model of docs/howto/user.md."""

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.kinds import TableClickModel
from foltr.core.spec import click_model


@click_model
@dataclass(frozen=True)
class Hurried(TableClickModel):
    """Look at the first `patience` results; click each with probability grade / (grades - 1)."""

    patience: int = 3

    def __post_init__(self) -> None:
        require(self.patience >= 1, f"patience must be >= 1, got {self.patience}")

    def tables(self, grades: int, depth: int) -> tuple[Array, Array]:
        attractive = np.arange(grades) / (grades - 1)  # (grades,)
        seen = np.arange(depth) < self.patience  # (depth,)
        click = seen[:, None] * attractive
        return click, np.zeros_like(click)  # nobody stops early
