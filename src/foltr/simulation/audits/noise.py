"""Noise as an attacker meets it: many messages or sums at once, its density, and its guarantee.

The noise itself is always that of the experiment's privatizer. What the attacker knows of it, and
its guarantee, are what the privatizer states in its events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from foltr.core import Array, Privatizer
from foltr.core.errors import Mistake
from foltr.core.events import Event, GammaNoise, GaussianNoise, LaplaceNoise, Setting
from foltr.core.seeds import stream
from foltr.privacy.accounting import NONE, Bound, bound
from foltr.privacy.adversaries import share

ROUNDING = 1e-6  # assumed error of an update in float32
WORK = 2 * 10**6  # numbers drawn at a time
OTHERS = 10**9  # the round number of the others' noise


@dataclass(frozen=True)
class View:
    """What is observed: a message, the sum of a round's messages (`arriving` of the `asked`), or
    the model that the server makes."""

    kind: Literal["message", "sum", "model"]
    asked: int
    arriving: int

    def __str__(self) -> str:
        if self.kind == "message":
            return "each message"
        if self.kind == "model":
            return f"the model after a round of {self.arriving:,}"
        of = f"the sum of {self.arriving:,}"
        return of if self.arriving == self.asked else f"{of} (of {self.asked:,} asked)"


def message(n: int) -> View:
    return View("message", n, n)


def summed(n: int, arriving: int | None = None) -> View:
    return View("sum", n, n if arriving is None else arriving)


def events_of(
    privacy: Privatizer | None, d: int, asked: int, arriving: int | None = None
) -> tuple[Event, ...]:
    """What the privatizer does to updates of one search, in a round of so many clients."""
    if privacy is None:
        return ()
    arriving = asked if arriving is None else arriving
    return privacy.events(Setting(d, asked, arriving, sessions=1, values=0))


def events_in(privacy: Privatizer | None, view: View, d: int) -> tuple[Event, ...]:
    """The noise that a view carries; () if there is none."""
    events = events_of(privacy, d, view.asked, view.arriving)
    if view.kind == "model":
        return events
    if any(event.seen == "model" for event in events):
        return ()
    if view.kind == "sum":
        return events
    return tuple(
        event if event.seen == "message" else share(event, view.arriving) for event in events
    )


def guarantee(privacy: Privatizer | None, view: View, d: int, delta: float) -> Bound:
    """The (epsilon, delta) for one client and round, against an observer of this view."""
    events = events_in(privacy, view, d)
    return bound(tuple((event, 1) for event in events), delta) if events else NONE


def clipped(privacy: Privatizer | None, updates: Array, n: int) -> Array:
    """The updates (rows, d) after the privatizer's clipping, which anybody can compute."""
    for event in events_of(privacy, updates.shape[1], n):
        if isinstance(event, LaplaceNoise):
            norms, clip = np.abs(updates).sum(axis=1), event.l1 / 2.0
        elif isinstance(event, GaussianNoise):
            norms, clip = np.sqrt(np.square(updates).sum(axis=1)), event.l2 / 2.0
        else:
            continue
        updates = updates * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]
    return updates


def variance(privacy: Privatizer | None, view: View, d: int) -> float:
    """The variance of the noise in each number of a sum."""
    total = 0.0
    for event in events_in(privacy, view, d):
        times = view.arriving if event.seen == "message" else 1
        if isinstance(event, GaussianNoise):
            total += times * event.sd**2
        elif isinstance(event, LaplaceNoise | GammaNoise):
            shape = event.shape if isinstance(event, GammaNoise) else 1.0
            total += times * 2.0 * event.scale**2 * shape
    return total


def log_density(events: tuple[Event, ...], view: View, residuals: Array) -> Array:
    """The logarithm of the density of residuals (..., d), up to a constant."""
    if not events:
        return -np.square(residuals).sum(axis=-1) / ROUNDING**2
    total = np.zeros(residuals.shape[:-1])
    for event in events:
        total += _density(_summed(event, view), residuals)
    return total


def _summed(event: Event, view: View) -> Event:
    """The noise of a sum whose messages each carry the whole noise; a sum of many Laplace
    variables is taken as normal."""
    if view.kind == "message" or event.seen != "message" or view.arriving == 1:
        return event
    laplace = isinstance(event, LaplaceNoise)
    one = math.sqrt(2.0) * event.scale if laplace else event.sd  # type: ignore[union-attr]
    return GaussianNoise(sd=one * math.sqrt(view.arriving), l2=0.0, seen="sum")


def _density(event: Event, x: Array) -> Array:
    if isinstance(event, LaplaceNoise) or (isinstance(event, GammaNoise) and event.shape == 1.0):
        return -np.abs(x).sum(axis=-1) / event.scale
    if isinstance(event, GaussianNoise):
        return -np.square(x).sum(axis=-1) / (2.0 * event.sd**2)
    if not isinstance(event, GammaNoise):
        raise Mistake(
            f"the audit has no density of {type(event).__name__}: it cannot attack updates with"
            " that noise"
        )
    size = np.maximum(np.abs(x), ROUNDING) / event.scale
    return (np.interp(np.log(size), *_bessel(event.shape)) - size).sum(axis=-1)


@cache
def _bessel(shape: float) -> tuple[Array, Array]:
    """A table of ln(x^v K_v(x)) + x at ln x, v = shape - 1/2: up to exp(-x) the density of a
    difference of two Gamma(shape, 1) variables (Kotz, Kozubowski & Podgorski, 2001). K is slow to
    compute."""
    from scipy.special import kve

    v, at = shape - 0.5, np.linspace(math.log(1e-12), math.log(1e4), 4001)
    return at, v * at + np.log(kve(v, np.exp(at)))


def sent(
    privacy: Privatizer | None, updates: Array, n: int, seed: int, t: int, first: int = 0
) -> Array:
    """The messages of clients first, first + 1, ... for the updates (rows, d), in round t of n
    clients."""
    from foltr.simulation.engines.local import privatize

    messages = np.array(updates, np.float32)
    if privacy is not None:
        privatize(privacy, messages, np.arange(first, first + len(messages)), n, seed, t)
    return messages


def of_others(privacy: Privatizer | None, view: View, times: int, d: int, seed: int) -> Array:
    """`times` draws of the noise that the other clients add to a view; their updates are known and
    taken as 0."""
    others = 0 if view.kind == "message" else view.arriving - 1
    found = np.zeros((times, d))
    if others == 0 or privacy is None:
        return found
    step = max(1, WORK // (others * d))
    for start in range(0, times, step):
        rows = min(step, times - start)
        nothing = np.zeros((rows * others, d), np.float32)
        messages = sent(privacy, nothing, view.asked, seed, OTHERS, start * others)
        sums = messages.reshape(rows, others, d).sum(axis=1, dtype=np.float64)
        found[start : start + rows] = sums
    return found


def seen(
    privacy: Privatizer | None, update: Array, view: View, rest: Array, seed: int, t: int
) -> Array:
    """What a view shows of a client that sends `update` (d,), once for each row of `rest`."""
    found = rest + sent(privacy, np.tile(update, (len(rest), 1)), view.asked, seed, t)
    if view.kind == "model" and privacy is not None:
        for i, row in enumerate(found):
            row[:] = view.arriving * privacy.on_server(
                row / view.arriving, view.arriving, stream(seed, "audit", t, i)
            )
    return found
