"""Gaussian noise on clipped updates: by each client, in shares, or by the server (McMahan et al., ICLR 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array, require
from foltr.kinds import Untouched
from foltr.privacy.clipping import BITS, grid_step, on_grid, within
from foltr.privacy.events import Event, GaussianNoise, Setting
from foltr.seeds import Stream
from foltr.spec import privatizer

FARTHEST = 9.0  # standard deviations: 52 bits of a uniform draw reach no farther


@privatizer
@dataclass(frozen=True)
class Gaussian(Untouched):
    """Normal noise on clipped updates: on each message, in shares, or by the server.

    An update u is scaled to L2 norm at most `clip`; every number gets normal noise of standard deviation s = noise x
    clip, at one of three places:

    `where='client'`: s on each message, which nobody needs to be trusted for. 'shares': s / sqrt(n) on each of a
    round's n messages, so that their sum carries s; the server must see only the sum (SecureSum). 'server': s once, on
    the sum, by a server that is trusted.
    """

    noise: float
    clip: float
    where: Literal["client", "shares", "server"] = "client"

    def __post_init__(self) -> None:
        require(self.noise > 0.0, f"noise must be > 0, got {self.noise}")
        require(self.clip > 0.0, f"clip must be > 0, got {self.clip}")
        held = "clip and noise must be in 1e-30 .. 1e30 to be held by a device"
        require(all(1e-30 <= size <= 1e30 for size in (self.clip, self.noise * self.clip)), f"{held}, got {self!r}")

    @property
    def even(self) -> bool:
        return self.where != "client"

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        kept = within(payload, math.sqrt(np.square(payload, dtype=np.float64).sum()), self.clip)
        if self.where == "server":
            return kept.astype(np.float32)
        sd = self.sent_sd(n)
        return on_grid(kept + sd * rng.gaussians(len(payload)), self.step(sd)).astype(np.float32)

    def sent_sd(self, n: int) -> float:
        """Of the noise on each of a round's n messages."""
        return self.noise * self.clip / (math.sqrt(n) if self.where == "shares" else 1.0)

    def step(self, sd: float, bits: int = BITS) -> float:
        return grid_step(self.clip + FARTHEST * sd, bits)

    def on_server(self, direction: Array, n: int, rng: Stream) -> Array:
        if self.where != "server":
            return direction
        sd = self.noise * self.clip / n
        return on_grid(direction + sd * rng.gaussians(len(direction)), self.step(sd, 2 * BITS))

    def events(self, setting: Setting) -> tuple[Event, ...]:
        sd = self.noise * self.clip
        if self.where == "client":
            return (GaussianNoise(sd=sd, l2=2.0 * self.clip, seen="message"),)
        if self.where == "server":
            return (GaussianNoise(sd=sd, l2=2.0 * self.clip, seen="model"),)
        left = math.sqrt(setting.arriving / setting.cohort)  # shares of those who dropped out are missing
        return (GaussianNoise(sd=sd * left, l2=2.0 * self.clip, seen="sum"),)

    def nominal(self) -> str:
        return f"noise multiplier {self.noise:g} (standard deviation / clip), {self.where} noise"
