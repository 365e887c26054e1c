"""From events to epsilon, by closed forms. Only `sampled` needs an optional package,
dp-accounting.

P and Q are the distributions of all that is observed, with one client's data and with any other
data in their place.

- Epsilons of pure guarantees (delta = 0) add up (Dwork et al., TCC 2006).
- Randomised response composes exactly: the privacy loss ln(P/Q) of one answer is e, -e or 0,
  and the distribution of the sum is computed. With two values it dominates every mechanism of
  the same e (Kairouz, Oh & Viswanathan, ICML 2015).
- Normal noise composes exactly: T rounds of l2/sd are one of sqrt(T) l2/sd (Dong, Roth & Su,
  JRSS-B 2022), whose epsilon at a delta is that of Balle & Wang (ICML 2018).
- Renyi divergences add up at every order a > 1 (Mironov, CSF 2017). They give epsilon = D_a +
  ln(1 - 1/a) - ln(a delta) / (a - 1) (Canonne, Kamath & Steinke, NeurIPS 2020), at the best a.

Two facts on noise that is drawn independently for each coordinate, which the papers do not state:

- Laplace noise against a change c: one coordinate that takes the whole change |c|_1 is the
  worst case. (The optimal tests between P and Q of a log-concave location family are
  thresholds, so a change by c1 and by c2 in two coordinates is at most as easy to detect as a
  change by c1 + c2 in one: group privacy, Dong, Roth & Su, theorem 2.14.)
- Shares of noise on whole steps: a part a <= 1 of the shares of discrete Laplace noise exp(-e
  |z|) adds up to the difference of two negative binomial variables. Its probabilities are
  moments, f(z) = C integral over y > e of exp(-y |z|) (cosh y - cosh e)^-a dy, so they fall,
  and are log-convex, on either side of 0. Hence ln f(x) / f(x - c) is largest at x = 0: g(c) =
  ln f(0) / f(c), which is concave in c with g(0) = 0. As (cosh y - cosh e) / (y^2 - e^2) rises
  with y, g is at most what it is with y^2 - e^2 instead: that of the difference of two Gamma(a,
  b) variables, b = 1 / e steps, whose density is |x|^v K_v(|x| / b), v = a - 1/2 (K: the
  modified Bessel function). A change of Euclidean norm l2 in d coordinates is worst when it is
  spread evenly: epsilon = d g(l2 / sqrt d), which is sqrt(d) l2 / b at a = 1. An e-private
  coordinate has D_a <= a e^2 / 2 (Bun & Steinke, TCC 2016), and the sum of these, too, is
  largest when spread evenly, as (g(c)/c) g'(c) falls: D_a <= a d g(l2 / sqrt d)^2 / 2, which is
  a (l2 / b)^2 / 2 at full shares, for any d. With half of the shares or fewer the Bessel
  function's bound is infinite, and no guarantee is given.

If probabilities have an error of a factor exp(x) at most, over both data sets together
(`Event.log_error`), an (epsilon, delta) of the described noise is (epsilon + x, delta exp(x)) of
the drawn noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.events import Event, GammaNoise, GaussianNoise, LaplaceNoise, RandomizedResponse
from foltr.core.guards import known

# orders of Renyi divergences; each gives a valid bound, the grid a nearly optimal one
ORDERS = 1.0 + np.geomspace(1e-4, 1e6, 3001)
COUNTED = 10_000  # most answers that are composed exactly; more are bounded by Renyi divergences
# an epsilon at delta > 0 is reported only if it is below WORTH x the epsilon at delta = 0
WORTH = 0.95

# Standard deviations, scales: draws end at 37 and 690 (`noise.py`), so for smaller sensitivities
# the missing tail has a probability below 1e-18.
FARTHEST_NORMAL = 28.0
FARTHEST = 600.0
LARGEST_LOG_ERROR = 100.0  # largest `log_error` in total; beyond, no guarantee is given

ADDED = "added up"
WORST = "exactly, as the worst mechanism with that epsilon"

Parts = tuple[tuple[Event, int], ...]  # events, and how often each occurs


@dataclass(frozen=True)
class Bound:
    """An (epsilon, delta) guarantee, and how it was computed."""

    epsilon: float  # infinite: no guarantee
    delta: float
    how: str
    secret: bool = False  # whether it assumes that nobody knows who takes part in which round


NONE = Bound(math.inf, 0.0, "no finite epsilon is known")


def bound(parts: Parts, delta: float) -> Bound:
    """The smallest known epsilon of all these events together, for an observer of all of them."""
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    log_error = sum(times * known(event).log_error for event, times in parts)
    if log_error > LARGEST_LOG_ERROR or any(_too_far(event) for event, _ in parts):
        return NONE
    parts = tuple(_single(event, times) for event, times in parts)
    pure = Bound(
        epsilon=sum(times * pure_epsilon(event) for event, times in parts) + log_error,
        delta=0.0,
        how="by itself" if sum(times for _, times in parts) == 1 else ADDED,
    )
    found = [
        Bound(epsilon + log_error, delta, how)
        for epsilon, how in _approximate(parts, delta * math.exp(-log_error))
    ]
    best = min(found, key=lambda each: each.epsilon, default=NONE)
    chosen = best if best.epsilon < WORTH * pure.epsilon or math.isinf(pure.epsilon) else pure
    return chosen if math.isfinite(chosen.epsilon) else NONE


def _too_far(event: Event) -> bool:
    """Whether the sensitivity exceeds the range of the drawn noise, so that some messages are
    possible for one data set only."""
    if isinstance(event, GaussianNoise):
        return event.l2 > FARTHEST_NORMAL * event.sd
    if isinstance(event, LaplaceNoise):
        return event.l1 > FARTHEST * event.scale
    return isinstance(event, GammaNoise) and event.l2 > FARTHEST * event.scale


def _single(event: Event, times: int) -> tuple[Event, int]:
    """The event without repetitions, `grid` and `log_error`, so that equal events can be
    combined."""
    if isinstance(event, RandomizedResponse):
        return replace(event, times=1), times * event.times
    return replace(event, grid=None, log_error=0.0), times  # so that equal noises are combined


def _square(x: float) -> float:
    return x * x  # infinity where x ** 2 would raise


def pure_epsilon(event: Event) -> float:
    """The epsilon of one event at delta = 0."""
    if isinstance(event, RandomizedResponse):
        p, others = event.p, event.values - 1
        return math.inf if p == 1.0 else event.times * math.log(p * others / (1.0 - p))
    if isinstance(event, LaplaceNoise):
        return event.l1 / event.scale
    if isinstance(event, GammaNoise):
        return event.d * peak(event.shape, event.l2 / math.sqrt(event.d) / event.scale)
    return math.inf  # normal noise has no finite epsilon at delta = 0


def peak(shape: float, x: float) -> float:
    """g(x) = ln f(0) / f(x), with f the density of the difference of two Gamma(shape, 1)
    variables."""
    if shape == 1.0 or x == 0.0:
        return x
    if shape <= 0.5:
        return math.inf
    from scipy.special import kve

    v = shape - 0.5
    return max(
        0.0, math.lgamma(v) - math.log(2.0) - v * math.log(x / 2.0) - math.log(kve(v, x)) + x
    )


def renyi(event: Event, a: Array) -> Array:
    """The Renyi divergence of one event at the orders `a`, or an upper bound of it."""
    if isinstance(event, RandomizedResponse):
        return _response(event.p, event.values, a) * event.times
    if isinstance(event, LaplaceNoise):
        e = event.l1 / event.scale
        up, down = np.log(a / (2 * a - 1)) + (a - 1) * e, np.log((a - 1) / (2 * a - 1)) - a * e
        return np.maximum(np.logaddexp(up, down), 0.0) / (a - 1)
    if isinstance(event, GammaNoise):
        e = peak(event.shape, event.l2 / math.sqrt(event.d) / event.scale)
        return np.minimum(a * event.d * e * e / 2.0, event.d * e)
    return a * _square(event.l2 / event.sd) / 2.0


def _response(p: float, values: int, a: Array) -> Array:
    if p == 1.0:
        return np.full_like(a, math.inf)
    q = (1.0 - p) / (values - 1)
    up, down = a * math.log(p) + (1 - a) * math.log(q), a * math.log(q) + (1 - a) * math.log(p)
    rest = math.log(q * (values - 2)) if values > 2 else -math.inf
    return np.maximum(np.logaddexp(np.logaddexp(up, down), rest), 0.0) / (a - 1)


def _approximate(parts: Parts, delta: float) -> list[tuple[float, str]]:
    """All ways to an epsilon at this delta: pairs of epsilon and method."""
    total = sum(times * renyi(event, ORDERS) for event, times in parts)
    with np.errstate(invalid="ignore"):
        epsilons = total + np.log1p(-1.0 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1.0)
    found = [(max(0.0, float(np.min(epsilons))), "by Renyi divergences")]
    normal = [
        times * _square(event.l2 / event.sd)
        for event, times in parts
        if isinstance(event, GaussianNoise)
    ]
    if len(normal) == len(parts):
        exact = normal_epsilon(math.sqrt(sum(normal)), delta)
        found.insert(0, (exact, "exactly, as normal noise"))
    if len({event for event, _ in parts}) == 1:
        event, times = parts[0][0], sum(times for _, times in parts)
        e = pure_epsilon(event)
        if 1 < times <= COUNTED and 0.0 < e < math.inf:
            if isinstance(event, RandomizedResponse):
                p = event.p
                q = (1.0 - p) / (event.values - 1)
                how = "exactly, as randomised answers"
            else:  # two values
                p = 1.0 / (1.0 + math.exp(-e))
                q = 1.0 / (1.0 + math.exp(min(e, 700.0)))
                how = WORST
            found.append((answers_epsilon(e, p, q, times, delta), how))
    return found


def answers_epsilon(e: float, p: float, q: float, times: int, delta: float) -> float:
    """The epsilon of `times` answers, each with privacy loss e with probability p, -e with q, else
    0.

    It is the least epsilon with sum over losses of P(loss) (1 - exp(epsilon - loss))+ <= delta."""
    losses = _power(np.array([q, max(0.0, 1.0 - p - q), p]), times)
    at = e * np.arange(-times, times + 1)
    return _least(
        lambda epsilon: float(losses @ np.maximum(-np.expm1(np.minimum(epsilon - at, 0.0)), 0.0)),
        delta,
    )


def _power(chances: Array, times: int) -> Array:
    """The distribution of a sum of `times` draws. All terms are positive, so nothing cancels."""
    made = np.ones(1)
    while times:
        if times & 1:
            made = np.convolve(made, chances)
        times >>= 1
        if times:
            chances = np.convolve(chances, chances)
    return made


def normal_epsilon(moved: float, delta: float) -> float:
    """The epsilon of N(0, 1) against N(moved, 1).

    It is the least epsilon with F(moved/2 - epsilon/moved) - exp(epsilon) F(-moved/2 -
    epsilon/moved) <= delta (Balle & Wang 2018, theorem 8)."""
    if moved == 0.0:
        return 0.0
    from scipy.special import log_ndtr, ndtr

    def fails(epsilon: float) -> float:
        up, down = moved / 2 - epsilon / moved, -moved / 2 - epsilon / moved
        return float(ndtr(up) - math.exp(min(0.0, epsilon + log_ndtr(down))))

    return _least(fails, delta)


def _least(fails: Callable[[float], float], delta: float) -> float:
    """The least epsilon with fails(epsilon) <= delta, rounded up."""
    low, high = 0.0, 1.0
    while fails(high) > delta:
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fails(middle) > delta else (low, middle)
    return high


def sampled(event: GaussianNoise, cohort: int, clients: int, rounds: int, delta: float) -> Bound:
    """The guarantee of `rounds` of noise on `cohort` of `clients`, for an observer that does not
    know who was drawn (uniformly, without replacement: Wang, Balle & Kasiviswanathan, AISTATS
    2019)."""
    try:
        from dp_accounting import (
            GaussianDpEvent,
            NeighboringRelation,
            SampledWithoutReplacementDpEvent,
        )
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise Mistake(
            "accounting for clients that are drawn in secret needs dp-accounting: "
            "pip install 'foltr[privacy]', or set participation = 1.0"
        ) from None
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    noise = GaussianDpEvent(event.sd / event.l2)
    accountant.compose(SampledWithoutReplacementDpEvent(clients, cohort, noise), rounds)
    how = "by Renyi divergences, with secret participation"
    log_error = rounds * event.log_error
    return Bound(
        float(accountant.get_epsilon(delta * math.exp(-log_error))) + log_error,
        delta,
        how,
        secret=True,
    )
