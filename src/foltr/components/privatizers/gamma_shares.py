"""FPDGD's noise: each client adds a share of it, and only the sum of a round is noisy enough
(thesis 3.2.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from foltr.core import Array, require
from foltr.events import Event, GammaNoise, Setting
from foltr.kinds import Untouched
from foltr.noise import polya_shares
from foltr.privacy.clipping import SLACK, fine_step, grid_step
from foltr.seeds import Stream
from foltr.spec import privatizer

MOST = 2.0**23  # steps, at which a bare number is cut: float32 holds it and its noise exactly
OFF = 2.0**-24  # of the logarithm of a probability, for each number; and for each share of it:
OFF_SHARE = 2.0**-45


@privatizer
@dataclass(frozen=True)
class GammaShares(Untouched):
    """Noise in shares: only the sum of a round's messages carries all of it.

    Each of n clients adds Gamma(1/n, s) - Gamma(1/n, s), s = sensitivity / epsilon, to every
    number that it sends; the sum of all shares is Laplace noise of scale s (Kotz, Kozubowski &
    Podgorski, 2001). What is added are whole steps of a grid that does not depend on the data: the
    update is rounded to it, and the shares are the gamma law's twin on whole numbers, so that they
    add up to discrete Laplace noise exactly (`noise.polya_shares`).

    The learner keeps its weights in an L2 ball: of radius sensitivity / 2 (clip='half', the
    thesis: two clients then differ by at most the sensitivity) or of radius sensitivity
    (clip='full', Pham 2022 and the published code).

    What that guarantees is less than epsilon says. A single message is nearly bare, so the server
    must see only the sum: use it with SecureSum. The scale fits an L1 distance, which is up to
    sqrt(d) times the L2 one. And epsilon is of one round. `foltr privacy` says what is left."""

    epsilon: float
    sensitivity: float
    clip: Literal["half", "full"] = "half"

    revision: ClassVar[int] = (
        2  # 1 added real numbers in float32, whose last bits told on the data
    )

    def __post_init__(self) -> None:
        require(self.epsilon > 0.0, f"epsilon must be > 0, got {self.epsilon}")
        require(self.sensitivity > 0.0, f"sensitivity must be > 0, got {self.sensitivity}")
        held = "sensitivity and noise must be in 1e-30 .. 1e30 to be held by a device"
        require(
            all(1e-30 <= size <= 1e30 for size in (self.sensitivity, self.scale)),
            f"{held}, got {self!r}",
        )

    @property
    def even(self) -> bool:
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
        """Of the grid: far below the noise, and such that updates of 64 times the ball can be
        sent."""
        return max(fine_step(self.scale, 16), grid_step(self.radius, 17))

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        finite = np.where(np.isfinite(payload), payload, 0.0).astype(np.float64)
        bare = np.clip(np.floor(finite / self.step + 0.5), -MOST, MOST)
        noise = polya_shares(rng, len(payload), n, self.scale / self.step)
        return ((bare + noise) * self.step).astype(np.float32)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        moved = (
            2.0 * self.radius * (1.0 + SLACK) + math.sqrt(setting.d) * self.step
        )  # rounded bare numbers
        shape, off = (
            setting.arriving / setting.cohort,
            setting.d * (OFF + setting.cohort * OFF_SHARE),
        )
        return (
            GammaNoise(shape, self.scale, moved, setting.d, seen="sum", grid=self.step, off=off),
        )

    def nominal(self) -> str:
        return (
            f"Wang et al. (2021): epsilon = {self.epsilon:g} for a round, sensitivity"
            f" {self.sensitivity:g}"
        )
