"""Distinguishing games: which of two updates was it? Played many times against the real noise,
they give a lower bound of epsilon with exact confidence bounds (Jagielski, Ullman & Oprea, NeurIPS
2020).

Results are means, probabilities and AUCs with their confidence intervals.

Under (epsilon, delta)-differential privacy, a test that accepts with probability a in one world
accepts in the other with probability at least (a - delta) / exp(epsilon). A test that does better
disproves the guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Privatizer
from foltr.core.events import GammaNoise, GaussianNoise, LaplaceNoise
from foltr.privacy.accounting import Bound
from foltr.simulation.audits.noise import (
    View,
    clipped,
    events_in,
    events_of,
    guarantee,
    log_density,
    of_others,
    seen,
)

SURE = 0.999
# deltas tested besides the ledger's own: larger ones need fewer games
DELTAS = (0.01, 0.1, 0.3)
THRESHOLDS = 400
TOO_LONG = 10.0
LONGEST = 200  # most updates compared with each other
BY_SERVER = 10_000  # most games with noise of the server, which is drawn round by round
DRAWN, HELD = 10**8, 10**7  # most numbers of noise drawn per view, and held in memory


def finite(x: float) -> float | None:
    """As it stands in JSON, which has neither infinity nor NaN."""
    return round(x, 6) if math.isfinite(x) else None


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int

    def plain(self) -> dict[str, float | int | None]:
        mean, low, high = map(finite, (self.mean, self.low, self.high))
        return {"mean": mean, "low": low, "high": high, "count": self.count}


def mean_of(values: Array, sure: float = 0.95) -> Estimate:
    """The mean of values in [0, 1], one per query, NaN where undefined, with an interval by
    Student's t.

    If all values are equal, which would give an interval of no width, it is Wilson's interval for
    shares (JASA 22, 1927)."""
    from scipy.special import ndtri, stdtrit

    known = values[~np.isnan(values)]
    n = len(known)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean, spread = float(known.mean()), float(known.std(ddof=1)) if n > 1 else 0.0
    if spread > 1e-12:
        half = float(stdtrit(n - 1, 0.5 + sure / 2)) * spread / math.sqrt(n)
        return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), n)
    z = float(ndtri(0.5 + sure / 2))
    middle = mean + z * z / (2 * n)
    half = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return Estimate(mean, min(mean, max(0.0, low)), max(mean, min(1.0, high)), n)


def lower(hits: Array, n: int, miss: float) -> Array:
    """The lower bound of a probability after `hits` of n, by Clopper and Pearson (Biometrika 26,
    1934): the true one is lower with probability <= `miss`."""
    from scipy.special import betaincinv

    some = np.maximum(np.asarray(hits, float), 1)
    return np.where(np.asarray(hits) > 0, betaincinv(some, n - some + 1, miss), 0.0)


def upper(hits: Array, n: int, miss: float) -> Array:
    """The upper bound of a probability after `hits` of n, by Clopper and Pearson."""
    return 1.0 - lower(n - np.asarray(hits, float), n, miss)


def area(ones: Array, zeros: Array) -> float:
    """The AUC: the probability that one of `ones` scores higher than one of `zeros`, ties counting
    half."""
    if not len(ones) or not len(zeros):
        return math.nan
    ordered = np.sort(zeros)
    below, most = np.searchsorted(ordered, ones, "left"), np.searchsorted(ordered, ones, "right")
    return float((below + most).mean() / (2 * len(zeros)))


def area_interval(ones: Array, zeros: Array, sure: float = 0.95) -> Estimate:
    """The AUC over independent trials, with the standard error of Hanley and McNeil (Radiology
    143, 1982)."""
    from scipy.special import ndtri

    a, m, n = area(ones, zeros), len(ones), len(zeros)
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + (m - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (m * n)
    half = float(ndtri(0.5 + sure / 2)) * math.sqrt(max(variance, 0.0))
    if half == 0.0:  # no errors: a margin of 3 / n (rule of three)
        half = 3.0 / min(m, n)
    return Estimate(a, max(0.0, a - half), min(1.0, a + half), m + n)


@dataclass(frozen=True)
class Test:
    """At one delta: the guarantee, and the lower bound of epsilon that the game proves."""

    guarantee: Bound
    at_least: float

    @property
    def broken(self) -> bool:
        return self.at_least > self.guarantee.epsilon


@dataclass(frozen=True)
class Game:
    """The result of one distinguishing game."""

    name: str
    view: str
    unit: str
    right: Estimate  # share of correct guesses, with both equally likely
    tests: tuple[Test, ...]  # the first at the ledger's delta

    @property
    def broken(self) -> bool:
        return any(test.broken for test in self.tests)

    @property
    def at_least(self) -> float:
        return self.tests[0].at_least

    @property
    def guarantee(self) -> Bound:
        return self.tests[0].guarantee

    def plain(self) -> dict[str, Any]:
        tests = [
            {
                "delta": each.guarantee.delta,
                "epsilon_promised": finite(each.guarantee.epsilon),
                "epsilon_at_least": round(each.at_least, 6),
                "broken": each.broken,
            }
            for each in self.tests
        ]
        return {
            "game": self.name,
            "view": self.view,
            "unit": self.unit,
            "right": self.right.plain(),
            "tests": tests,
            "broken": self.broken,
        }


def game_result(
    name: str,
    view: str,
    unit: str,
    ones: Array,
    zeros: Array,
    guarantee: Callable[[float], Bound],
    delta: float,
) -> Game:
    """The result of a game, from the scores of a test in either world. The threshold is chosen on
    one half of the scores and counted on the other."""
    bounds = [guarantee(each) for each in (delta, *DELTAS)]
    distinct = list(dict.fromkeys(bounds))  # a pure guarantee (delta = 0) is the same for each
    miss = (1.0 - SURE) / (2 * len(distinct))  # two counts per bound
    halves = ones[0::2], ones[1::2], zeros[0::2], zeros[1::2]
    tests = tuple(Test(each, epsilon_at_least(*halves, each.delta, miss)) for each in distinct)
    return Game(name, view, unit, _right(*halves), tests)


def epsilon_at_least(
    chosen_ones: Array,
    counted_ones: Array,
    chosen_zeros: Array,
    counted_zeros: Array,
    delta: float,
    miss: float,
) -> float:
    """max(0, ln((a - delta) / b)), with a lower bound of a and an upper bound of b that each fail
    with probability at most `miss`."""
    best, pick = 0.0, None
    for sign in (1.0, -1.0):
        first, second = (chosen_ones, chosen_zeros) if sign > 0 else (-chosen_zeros, -chosen_ones)
        edges = np.unique(np.quantile(first, np.linspace(0.0, 1.0, THRESHOLDS), method="nearest"))
        found = _bound(first, second, edges, delta, miss)
        if found.max() > best:
            best, pick = float(found.max()), (sign, edges[found.argmax()])
    if pick is None:
        return 0.0
    sign, edge = pick
    first, second = (counted_ones, counted_zeros) if sign > 0 else (-counted_zeros, -counted_ones)
    return max(0.0, float(_bound(first, second, np.array([edge]), delta, miss)[0]))


def _bound(first: Array, second: Array, edges: Array, delta: float, miss: float) -> Array:
    hits = len(first) - np.searchsorted(np.sort(first), edges, "left")
    false = len(second) - np.searchsorted(np.sort(second), edges, "left")
    a, b = lower(hits, len(first), miss) - delta, upper(false, len(second), miss)
    return np.where(a > 0.0, np.log(np.maximum(a, 1e-300) / b), -np.inf)


def _right(chosen_ones: Array, ones: Array, chosen_zeros: Array, zeros: Array) -> Estimate:
    """How often the guess with the best threshold is right."""
    both = np.concatenate([chosen_ones, chosen_zeros])
    edges = np.quantile(both, np.linspace(0.0, 1.0, THRESHOLDS), method="nearest")
    share = [(chosen_ones >= edge).mean() + (chosen_zeros < edge).mean() for edge in edges]
    edge = edges[int(np.argmax(share))]
    return mean_of(np.concatenate([ones >= edge, zeros < edge]).astype(float))


def play(
    pairs: dict[str, tuple[Array, Array]],
    privacy: Privatizer | None,
    view: View,
    times: int,
    delta: float,
    seed: int,
    played: Privatizer | None = None,
) -> Iterator[Game]:
    """Play `times` games for each of the two updates (d,) of every pair.

    `played` is what devices and server really do, if it is not what `privacy` describes. The noise
    of the other clients is drawn once for all pairs: each bound is valid by itself."""
    d = len(next(iter(pairs.values()))[0])
    clients = 1 if view.kind == "message" else view.arriving
    most = BY_SERVER if view.kind == "model" else times
    times = max(200, min(times, most, DRAWN // (clients * d), HELD // d))
    doing, events = played or privacy, events_in(privacy, view, d)
    rest = of_others(doing, view, times, d, seed)

    def guaranteed(at: float) -> Bound:
        return guarantee(privacy, view, d, at)

    for name, pair in pairs.items():
        zero, one = clipped(privacy, np.stack(pair).astype(np.float64), view.asked)
        scores = []
        for t, update in enumerate(pair):
            got = seen(doing, update.astype(np.float32), view, rest, seed, t)
            as_one, as_zero = (log_density(events, view, got - each) for each in (one, zero))
            scores.append(as_one - as_zero)
        zeros, ones = scores
        yield game_result(name, str(view), "one client-round", ones, zeros, guaranteed, delta)


def worst_updates(
    privacy: Privatizer | None, params: Array, n: int
) -> dict[str, tuple[Array, Array]]:
    """Pairs of updates that are as far apart as the guarantee allows: in one number, and equally
    in all numbers. If the privatizer itself clips, they are far too long, so that it must clip."""
    d, start, found = len(params), params.astype(np.float64), {}
    one, alike = np.eye(1, d)[0], np.full(d, 1.0 / math.sqrt(d))
    for event in events_of(privacy, d, n):
        if isinstance(event, LaplaceNoise | GaussianNoise):
            clip = (event.l1 if isinstance(event, LaplaceNoise) else event.l2) / 2
            found["worst case"] = TOO_LONG * clip * one, -TOO_LONG * clip * one
        elif isinstance(event, GammaNoise):  # any weights in the ball, minus the broadcast weights
            for name, way in (("one coordinate", one), ("all coordinates", alike)):
                edge = event.l2 / 2 * way
                found[f"worst case, {name}"] = edge - start, -edge - start
    return found


@dataclass(frozen=True, eq=False)
class Distance:
    """The largest distance between two real updates in the norm of the noise, and the allowed
    sensitivity."""

    norm: str
    found: float
    allowed: float
    pair: tuple[Array, Array]

    @property
    def broken(self) -> bool:
        return self.found > self.allowed * (1.0 + 1e-5)

    def plain(self) -> dict[str, Any]:
        return {
            "norm": self.norm,
            "found": round(self.found, 6),
            "allowed": self.allowed if math.isfinite(self.allowed) else None,
            "broken": self.broken,
        }


def largest_distance(privacy: Privatizer | None, updates: Array, n: int) -> Distance:
    """The largest distance between two of the longest updates (rows, d), after clipping."""
    left = clipped(privacy, updates.astype(np.float64), n)
    order, norm, allowed = 2, "L2", math.inf
    for event in events_of(privacy, updates.shape[1], n):
        if isinstance(event, LaplaceNoise):
            order, norm, allowed = 1, "L1", event.l1
        elif isinstance(event, GaussianNoise | GammaNoise):
            allowed = event.l2
    long = np.argsort(-np.linalg.norm(left - left.mean(axis=0), ord=order, axis=1))[:LONGEST]
    apart = np.stack([np.linalg.norm(left[long] - left[i], ord=order, axis=1) for i in long])
    i, j = np.unravel_index(apart.argmax(), apart.shape)
    return Distance(norm, float(apart.max()), allowed, (updates[long[i]], updates[long[j]]))
