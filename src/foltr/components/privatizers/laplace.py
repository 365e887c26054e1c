"""Laplace noise on each client's update: local differential privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.events import Event, LaplaceNoise, Setting
from foltr.core.kinds import PrivatizerDefaults
from foltr.core.noise import SLACK, grid_step, laplaces, on_grid, within
from foltr.core.seeds import Stream
from foltr.core.spec import privatizer

FARTHEST = 37.0  # scales that the grid must hold: the largest draw of 52 uniform bits
LOG_ERROR = 2.0**-26  # error of ln(probability), per number


@privatizer
@dataclass(frozen=True)
class Laplace(PrivatizerDefaults):
    """Clip updates in L1 norm and add Laplace noise to each message (local privacy).

        u min(1, clip / |u|_1) + Laplace noise of scale 2 clip / epsilon

    Every number gets noise of its own. Two clipped updates differ by at most 2 clip in L1, so each
    message is epsilon-differentially private by itself and nobody needs to be trusted. In d
    dimensions the noise is much larger than any update; only very many clients average it out.

    Fields
        epsilon: epsilon of one message, that is of one client and round (> 0)
        clip: largest L1 norm of an update (> 0)

    Reference: Dwork, McSherry, Nissim & Smith, TCC 2006."""

    epsilon: float
    clip: float

    def __post_init__(self) -> None:
        require(self.epsilon > 0.0, f"epsilon must be > 0, got {self.epsilon}")
        require(self.clip > 0.0, f"clip must be > 0, got {self.clip}")
        held = "clip and noise must be in 1e-30 .. 1e30 to fit into float32"
        require(
            all(1e-30 <= size <= 1e30 for size in (self.clip, self.scale)), f"{held}, got {self!r}"
        )

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        kept = within(payload, np.abs(payload).sum(dtype=np.float64), self.clip)
        return on_grid(kept + self.scale * laplaces(rng, len(payload)), self.step).astype(
            np.float32
        )

    @property
    def scale(self) -> float:
        return 2.0 * self.clip / self.epsilon

    @property
    def step(self) -> float:
        return grid_step(self.clip + FARTHEST * self.scale)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        # the error that clipping to 1 - SLACK does not cover
        log_error = max(0.0, setting.d * LOG_ERROR - SLACK * self.epsilon)
        return (
            LaplaceNoise(
                self.scale,
                2.0 * self.clip,
                setting.d,
                seen="message",
                grid=self.step,
                log_error=log_error,
            ),
        )

    def nominal(self) -> str:
        return f"epsilon = {self.epsilon:g} per round, for each message by itself"
