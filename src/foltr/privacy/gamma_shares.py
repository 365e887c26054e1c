"""FPDGD's noise: each client adds a share of it, and only the sum of a round is noisy enough (thesis 3.2.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array, require
from foltr.kinds import Untouched
from foltr.privacy.clipping import SLACK
from foltr.privacy.events import Event, GammaNoise, Setting
from foltr.seeds import Stream
from foltr.spec import privatizer

LEAST = -104.0  # ln of what float32 cannot tell from 0


@privatizer
@dataclass(frozen=True)
class GammaShares(Untouched):
    """Noise in shares: only the sum of a round's messages carries all of it.

    Each of n clients adds Gamma(1/n, s) - Gamma(1/n, s), s = sensitivity / epsilon, to every number that
    it sends; the sum of all shares is Laplace noise of scale s (Kotz, Kozubowski & Podgorski, 2001).

    The learner keeps its weights in an L2 ball: of radius sensitivity / 2 (clip='half', the thesis: two clients then
    differ by at most the sensitivity) or of radius sensitivity (clip='full', seed 004 and the published code).

    What that guarantees is less than epsilon says. A single message is nearly bare, so the server must see only the
    sum: use it with SecureSum. The scale fits an L1 distance, which is up to sqrt(d) times the L2 one. And epsilon is
    of one round. `foltr privacy` says what is left.
    """

    epsilon: float
    sensitivity: float
    clip: Literal["half", "full"] = "half"

    def __post_init__(self) -> None:
        require(self.epsilon > 0.0, f"epsilon must be > 0, got {self.epsilon}")
        require(self.sensitivity > 0.0, f"sensitivity must be > 0, got {self.sensitivity}")
        held = "sensitivity and noise must be in 1e-30 .. 1e30 to be held by a device"
        require(all(1e-30 <= size <= 1e30 for size in (self.sensitivity, self.scale)), f"{held}, got {self!r}")

    @property
    def even(self) -> bool:
        return True

    @property
    def ball(self) -> float | None:
        return self.sensitivity / 2.0 if self.clip == "half" else self.sensitivity

    @property
    def scale(self) -> float:
        return self.sensitivity / self.epsilon

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        u = rng.uniforms(2 * len(payload))
        shares = np.zeros(len(u))
        for i in np.flatnonzero(u >= math.exp(LEAST / n)).tolist():  # few: the others would round to 0
            shares[i] = gamma_share(n, u[i], rng.at(i))
        return payload + (self.scale * (shares[0::2] - shares[1::2])).astype(np.float32)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        moved = (self.sensitivity if self.clip == "half" else 2.0 * self.sensitivity) * (1.0 + SLACK)
        shape = setting.arriving / setting.cohort
        return (GammaNoise(shape=shape, scale=self.scale, l2=moved, d=setting.d, seen="sum"),)

    def nominal(self) -> str:
        return f"Wang et al. (2021): epsilon = {self.epsilon:g} for a round, sensitivity {self.sensitivity:g}"


def gamma_share(n: int, u: float, rng: Stream) -> float:
    """Gamma(1/n, 1) = Gamma(1 + 1/n, 1) x u^n for a uniform u; the first factor by Marsaglia and Tsang (ACM TOMS 26,
    2000)."""
    d = 2.0 / 3.0 + 1.0 / n
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = math.sqrt(-2.0 * math.log(rng.uniform())) * math.cos(2.0 * math.pi * rng.uniform())
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(rng.uniform()) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * math.exp(n * math.log(u))
        if v <= 0.0:
            rng.skip()
