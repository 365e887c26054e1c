"""Projected gradient ascent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.cohorts import lengths
from foltr.core.errors import require
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearner
from foltr.core.world.protocols import Past, Phase, PlannedPhase


@unlearner
@dataclass(frozen=True)
class GradientAscent(UnlearnerDefaults):
    """Let leaving clients maximise their loss near the others' model, then train on without them.

        start from c = final + lr (mean of the remaining updates - mean of all)
        w <- P(w - lr mean of the leaving clients' updates),   `rounds` times

    The updates in c are those of the last stored round in which a leaving client took part. In
    each round, each leaving client searches and sends the negative of its update, and the server
    projects the parameters by P onto the L2 ball around c. This needs the cooperation of the
    leaving clients; `stored` does not. With a privatizer, it needs noise on each message: the
    reference is made of single ones.

    Fields
        rounds: rounds of ascent (>= 1); with `stored`, the number of stored rounds that are summed
        radius: radius of the L2 ball around the reference (> 0)
        fine_tune: rounds of the remaining clients afterwards (>= 0)
        stored: instead of searching, the server makes one projected step along the negative sum of
            the mean updates of the leaving clients in their last `rounds` stored rounds

    Reference: Halimi, Kadhe, Rawat & Baracaldo, arXiv:2207.05521."""

    rounds: int = 10
    radius: float = 1.0
    fine_tune: int = 100
    stored: bool = False
    subtracts = True

    def __post_init__(self) -> None:
        require(self.rounds >= 1, f"rounds must be >= 1, got {self.rounds}")
        require(self.radius > 0.0, f"radius must be > 0, got {self.radius}")
        require(self.fine_tune >= 0, f"fine_tune must be >= 0 rounds, got {self.fine_tune}")

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "updates"

    @property
    def handed(self) -> int:
        """One vector for the reference (the last update), and with `stored` the sum of the last
        ones."""
        return 2 if self.stored else 1

    def start(self, past: Past) -> Array:
        centre = reference(past)
        if not self.stored:
            return centre
        climb = np.zeros(len(centre))
        for row in _last(past, self.rounds):
            climb += _mean(past, row, past.leaving)
        return in_ball(centre - past.step * climb, centre, self.radius)

    def phases(self, past: Past) -> tuple[Phase, ...]:
        centre = reference(past)

        def away(updates: Array, clients: Array, t: int) -> Array:
            return -updates

        def back(params: Array) -> Array:
            return in_ball(params, centre, self.radius)

        climb = Phase(self.rounds, past.sessions, "leaving", away, back)
        tune = Phase(self.fine_tune, past.sessions)
        return (tune,) if self.stored else (climb, tune)

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...]:
        climb = PlannedPhase(self.rounds, sessions, "leaving", changed=True)
        tune = PlannedPhase(self.fine_tune, sessions)
        return (tune,) if self.stored else (climb, tune)


def reference(past: Past) -> Array:
    """The final parameters as if the last stored round of the leaving clients had been made
    without them: (d,)."""
    if not len(rows := _last(past, 1)):
        return past.final
    row, everybody = int(rows[0]), np.append(past.remaining, past.leaving)
    return past.final + past.step * (
        _mean(past, row, past.remaining) - _mean(past, row, everybody)
    )


def in_ball(params: Array, centre: Array, radius: float) -> Array:
    """The nearest point of the L2 ball of `radius` around `centre`."""
    far = float(lengths((params - centre)[None])[0])
    return params if far <= radius else centre + (radius / far) * (params - centre)


def _last(past: Past, count: int) -> Array:
    """The last stored rounds in which any of the leaving clients took part, newest first."""
    assert past.history is not None  # because `stores` is not 'nothing'
    return past.history.with_any(past.leaving)[::-1][:count]


def _mean(past: Past, row: int, clients: Array) -> Array:
    """The weighted mean of what these clients sent in a stored round: (d,), zero if none took
    part."""
    assert past.history is not None
    own = past.history.took_part(row, clients)
    if not len(own):
        return np.zeros(len(past.final))
    return (
        np.einsum("n,nd->d", past.weights[own], past.history.sent(row, own))
        / past.weights[own].sum()
    )
