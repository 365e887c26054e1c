"""Gaussian noise on clipped updates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.events import Event, GaussianNoise, Setting
from foltr.core.kinds import PrivatizerDefaults
from foltr.core.noise import SLACK, fine_step, grid_step, normals, on_grid, within
from foltr.core.seeds import Stream
from foltr.core.spec import privatizer

FARTHEST = 14.0  # standard deviations that the grid must hold; P(beyond) < 1e-43
LOG_ERROR = 2.0**-28  # error of ln(probability), per number drawn once; and per share:
LOG_ERROR_SHARE = 2.0**-31
ADDED = 2.0**-52  # relative rounding of a float64 sum, per term
# grid steps per standard deviation of a share: fewer, and rounded shares do not add up to normal
# noise
FEWEST_STEPS = 64.0


@privatizer
@dataclass(frozen=True)
class Gaussian(PrivatizerDefaults):
    """Clip updates in L2 norm and add normal noise: per message, in shares, or by the server.

        u min(1, clip / |u|) + N(0, s^2),   s = noise x clip

    Every number of the message, or of the sum of the messages, gets normal noise of standard
    deviation s (`where`).

    Fields
        noise: noise multiplier, standard deviation / clip (> 0)
        clip: largest L2 norm of an update (> 0)
        where: who adds the noise. 'client': s on each message; nobody needs to be trusted.
            'shares': s / sqrt(n) on each of a round's n messages, so that the sum has s; the
            server must see only the sum (SecureSum). 'server': s once, on the sum, by a trusted
            server, which also clips what it receives

    Reference: McMahan, Ramage, Talwar & Zhang, ICLR 2018."""

    noise: float
    clip: float
    where: Literal["client", "shares", "server"] = "client"

    # revision 1 drew normal variables with an error of 1e-7 and gaps on the grid
    revision: ClassVar[int] = 2

    def __post_init__(self) -> None:
        require(self.noise > 0.0, f"noise must be > 0, got {self.noise}")
        require(self.clip > 0.0, f"clip must be > 0, got {self.clip}")
        held = "clip and noise must be in 1e-30 .. 1e30 to fit into float32"
        require(
            all(1e-30 <= size <= 1e30 for size in (self.clip, self.sd)), f"{held}, got {self!r}"
        )

    @property
    def sd(self) -> float:
        return self.noise * self.clip

    @property
    def needs_equal_weights(self) -> bool:
        return self.where != "client"

    @property
    def adds_noise_on_server(self) -> bool:
        return self.where == "server"

    @property
    def clips_on_arrival(self) -> bool:
        return self.where == "server"

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        kept = within(payload, math.sqrt(np.square(payload, dtype=np.float64).sum()), self.clip)
        if self.where == "server":
            return kept.astype(np.float32)
        sd, step = self.sent_sd(n), self.step(n)
        noise = sd * normals(rng, len(payload))
        if self.where == "shares":
            return (on_grid(kept, step) + on_grid(noise, step)).astype(np.float32)
        return on_grid(kept + noise, step).astype(np.float32)

    def sent_sd(self, n: int) -> float:
        """The standard deviation of the noise on each of a round's n messages."""
        return self.sd / (math.sqrt(n) if self.where == "shares" else 1.0)

    def step(self, n: int) -> float:
        """The step of the grid on which the noise of a round of n clients is added."""
        if self.where == "server":
            return fine_step(self.sd / n, 16)
        sd = self.sent_sd(n)
        coarse = grid_step(self.clip + FARTHEST * sd, 18 if self.where == "client" else 23)
        return coarse if self.where == "client" else max(coarse, fine_step(sd, 14))

    def on_arrival(self, updates: Array) -> Array:
        if self.where != "server":
            return updates
        lengths = np.sqrt(np.square(updates, dtype=np.float64).sum(axis=1))
        too_long = lengths > self.clip
        if too_long.any():  # never for an honest client
            updates = updates.astype(np.float64)
            updates[too_long] *= (self.clip * (1.0 - SLACK) / lengths[too_long])[:, None]
        return updates

    def on_server(self, mean: Array, n: int, rng: Stream) -> Array:
        if self.where != "server":
            return mean
        step = self.step(n)
        return on_grid(mean, step) + on_grid(self.sd / n * normals(rng, len(mean)), step)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        moved, d, n = 2.0 * self.clip, setting.d, setting.cohort
        step = self.step(n)
        if self.where == "client":
            return (
                GaussianNoise(self.sd, moved, seen="message", grid=step, log_error=d * LOG_ERROR),
            )
        if self.where == "server":
            # rounding of the sum before noise
            rounded = self.sd * 2.0**-16 + setting.rounding + n * n * ADDED * self.clip
            return (
                GaussianNoise(
                    self.sd,
                    moved + math.sqrt(d) * rounded,
                    seen="model",
                    grid=step,
                    log_error=d * LOG_ERROR,
                ),
            )
        steps = self.sent_sd(n) / step
        log_error = (
            d * (n * LOG_ERROR_SHARE + 12.0 / steps**2) if steps >= FEWEST_STEPS else math.inf
        )
        left = math.sqrt(setting.least_arriving / n)  # clients that dropped out added no share
        return (
            GaussianNoise(
                self.sd * left,
                moved + math.sqrt(d) * step,
                seen="sum",
                grid=step,
                log_error=log_error,
            ),
        )

    def nominal(self) -> str:
        added = {"client": "by each client", "shares": "in shares", "server": "by the server"}
        return (
            f"noise multiplier {self.noise:g} (standard deviation / clip), added"
            f" {added[self.where]}"
        )
