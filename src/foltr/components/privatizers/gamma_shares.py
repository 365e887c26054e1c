"""Laplace noise in gamma-distributed shares, as in FPDGD."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.events import Event, GammaNoise, Setting
from foltr.core.kinds import PrivatizerDefaults
from foltr.core.noise import SLACK, fine_step, grid_step, polya_shares
from foltr.core.seeds import Stream
from foltr.core.spec import privatizer

MOST = 2.0**23  # steps: larger numbers are cut, so that float32 holds them with noise exactly
LOG_ERROR = 2.0**-24  # error of ln(probability), per number; and per share of it:
LOG_ERROR_SHARE = 2.0**-45


@privatizer
@dataclass(frozen=True)
class GammaShares(PrivatizerDefaults):
    """Add a share of noise to each message, so that the sum of a round has Laplace noise.

        u + Gamma(1/n, s) - Gamma(1/n, s),   s = sensitivity / epsilon

    Each of the n clients of a round adds such a share to every number. The n shares add up to
    Laplace noise of scale s. They are drawn on a grid of whole steps that does not depend on the
    data: the update is rounded to the grid, and the shares are discrete (Polya) variables whose
    sum is exactly discrete Laplace (`noise.polya_shares`). The learner keeps its weights in an L2
    ball.

    The guarantee is weaker than epsilon suggests, for three reasons. (1) A single message carries
    almost no noise, so the server must see only the sum: use SecureSum. (2) Laplace noise needs an
    L1 sensitivity; with an L2 ball the L1 sensitivity is up to sqrt(d) times larger. (3) epsilon
    is for one round; T rounds compose. `foltr privacy` computes what holds.

    Fields
        epsilon: epsilon of one round as published (> 0)
        sensitivity: largest L2 distance between two clients' weights, for clip='half' (> 0)
        clip: radius of the ball: 'half' is sensitivity / 2 (Wang, PhD thesis 2024), 'full' is
            sensitivity (the published code, and Pham 2022), which doubles the true sensitivity

    Reference: Wang, Liu, Zhuang & Zuccon, ICTIR 2021; divisible noise: Kotz, Kozubowski &
    Podgorski, 2001."""

    epsilon: float
    sensitivity: float
    clip: Literal["half", "full"] = "half"

    # revision 1 added real numbers in float32, whose last bits depended on the data
    revision: ClassVar[int] = 2

    def __post_init__(self) -> None:
        require(self.epsilon > 0.0, f"epsilon must be > 0, got {self.epsilon}")
        require(self.sensitivity > 0.0, f"sensitivity must be > 0, got {self.sensitivity}")
        held = "sensitivity and noise must be in 1e-30 .. 1e30 to fit into float32"
        require(
            all(1e-30 <= size <= 1e30 for size in (self.sensitivity, self.scale)),
            f"{held}, got {self!r}",
        )

    @property
    def needs_equal_weights(self) -> bool:
        return True

    @property
    def ball(self) -> float | None:
        return self.radius

    @property
    def radius(self) -> float:
        return self.sensitivity / 2.0 if self.clip == "half" else self.sensitivity

    @property
    def scale(self) -> float:
        return self.sensitivity / self.epsilon

    @property
    def step(self) -> float:
        """The step of the grid: far below the noise, and large enough to send updates of 64
        radii."""
        return max(fine_step(self.scale, 16), grid_step(self.radius, 17))

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        finite = np.where(np.isfinite(payload), payload, 0.0).astype(np.float64)
        bare = np.clip(np.floor(finite / self.step + 0.5), -MOST, MOST)
        noise = polya_shares(rng, len(payload), n, self.scale / self.step)
        return ((bare + noise) * self.step).astype(np.float32)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        # sensitivity after rounding to the grid
        moved = 2.0 * self.radius * (1.0 + SLACK) + math.sqrt(setting.d) * self.step
        shape, log_error = (
            setting.least_arriving / setting.cohort,
            setting.d * (LOG_ERROR + setting.cohort * LOG_ERROR_SHARE),
        )
        return (
            GammaNoise(
                shape,
                self.scale,
                moved,
                setting.d,
                seen="sum",
                grid=self.step,
                log_error=log_error,
            ),
        )

    def nominal(self) -> str:
        return (
            f"Wang et al. (2021): epsilon = {self.epsilon:g} per round, sensitivity"
            f" {self.sensitivity:g}"
        )
