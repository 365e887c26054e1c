"""Epsilons against closed forms, numerical integration, exact enumeration and a second library
(dp-accounting)."""

import math
from dataclasses import dataclass, replace
from itertools import product

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from foltr.core.errors import Mistake
from foltr.core.events import GammaNoise, GaussianNoise, LaplaceNoise, RandomizedResponse
from foltr.privacy import accounting
from foltr.privacy.accounting import (
    NONE,
    ORDERS,
    bound,
    normal_epsilon,
    peak,
    pure_epsilon,
    renyi,
    sampled,
)
from property_settings import examples

DELTA = 1e-5


def best(event, times=1, delta=DELTA):
    return bound(((event, times),), delta)


def density(x, shape, scale=1.0):
    """Of the difference of two Gamma(shape, scale), by its Bessel form."""
    y, v = np.abs(x) / scale, shape - 0.5
    return (y / 2) ** v * special.kv(v, y) / (scale * math.sqrt(math.pi) * math.gamma(shape))


# ---- single events


def test_randomised_response_is_equation_10_of_kharitonov():
    assert pure_epsilon(RandomizedResponse(0.9, 11, 1)) == pytest.approx(math.log(0.9 * 10 / 0.1))
    # ln 5, four times
    assert pure_epsilon(RandomizedResponse(0.5, 6, 4)) == pytest.approx(4 * 1.6094379)
    assert pure_epsilon(RandomizedResponse(0.5, 2, 1)) == 0.0
    assert pure_epsilon(RandomizedResponse(1.0, 11, 1)) == math.inf


@pytest.mark.parametrize(
    ("clip", "times_epsilon"), [(1.0, math.sqrt(46)), (2.0, 2 * math.sqrt(46))]
)
def test_noise_for_an_l1_distance_on_an_l2_ball_costs_the_square_root_of_d(clip, times_epsilon):
    """Sensitivity 3 at epsilon 1.2, 46 weights: sqrt(46) = 6.8 times that (thesis), 13.6 times
    (published code)."""
    event = GammaNoise(shape=1.0, scale=3.0 / 1.2, l2=3.0 * clip, d=46, seen="sum")
    assert pure_epsilon(event) == pytest.approx(1.2 * times_epsilon)
    assert round(2 * math.sqrt(46), 1) == 13.6


def test_a_thousandth_share_is_nearly_bare():
    """At n = 1000, 96 % of the numbers of a message have noise below 1e-9."""
    shape, t = 1e-3, 1e-9 / (3.0 / 1.2)
    below = special.gammainc(shape, [t, 9 * t, 10 * t])
    # two variables are within t of each other if both are below t; and only if both are below 10 t
    # or both above 9 t
    least, most = below[0] ** 2, below[2] ** 2 + (1 - below[1]) ** 2
    assert 0.955 < least < most < 0.965


@pytest.mark.parametrize("shape", [0.55, 0.7, 0.9, 0.99])
def test_the_density_ratio_of_fewer_shares_is_largest_at_zero(shape):
    assert integrate.quad(lambda x: 2 * density(x, shape), 0, np.inf)[0] == pytest.approx(
        1.0, abs=1e-6
    )
    for c in (0.05, 0.5, 3.0, 20.0):
        x = np.concatenate(
            [
                np.linspace(-30, 30, 4001),
                c + np.geomspace(1e-9, 1, 200),
                -np.geomspace(1e-12, 1, 200),
            ]
        )
        x = x[(np.abs(x) > 1e-13) & (np.abs(x - c) > 1e-13)]
        ratios = np.log(density(x, shape)) - np.log(density(x - c, shape))
        assert ratios.max() <= peak(shape, c) + 1e-9
        assert np.log(density(1e-13, shape) / density(c, shape)) == pytest.approx(
            peak(shape, c), rel=0.1
        )
    assert peak(1.0, 2.5) == 2.5 and peak(0.999999, 2.5) == pytest.approx(2.5, abs=1e-4)
    assert peak(0.5, 1e-9) == math.inf


@given(
    st.floats(0.51, 1.0),
    st.floats(0.05, 20.0),
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6),
)
def test_a_change_is_worst_when_it_is_spread_evenly(shape, l2, parts):
    """epsilon = d g(l2 / sqrt d) bounds every way to spread a change of that length; its squares
    likewise."""
    c = np.array(parts) + 1e-3
    c *= l2 / np.linalg.norm(c)
    d = len(c)
    even = peak(shape, l2 / math.sqrt(d))
    each = np.array([peak(shape, x) for x in c])
    assert each.sum() <= d * even * (1 + 1e-9) + 1e-12
    assert np.square(each).sum() <= d * even**2 * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("shape", [0.75, 1.0])
def test_renyi_divergences_of_gamma_noise_bound_the_integrals(shape):
    event = GammaNoise(shape=shape, scale=1.0, l2=1.5, d=1, seen="sum")
    for a in (1.5, 2.0, 4.0):
        f = lambda x, a=a: density(x, shape) ** a * density(x - 1.5, shape) ** (1 - a)  # noqa: E731
        total = sum(
            integrate.quad(f, *ends, limit=300)[0]
            for ends in ((-40, 0), (0, 0.75), (0.75, 1.5), (1.5, 40))
        )
        assert math.log(total) / (a - 1) <= renyi(event, np.array([a]))[0] + 1e-7


# ---- orders


@pytest.mark.parametrize(
    "event", [LaplaceNoise(1.0, 0.7, 1, "message"), RandomizedResponse(0.7, 5, 1)]
)
def test_renyi_divergences_are_those_of_the_definition(event):
    for a in (1.01, 2.0, 7.5):
        if isinstance(event, LaplaceNoise):
            f = lambda x, a=a: math.exp(-a * abs(x) - (1 - a) * abs(x - 0.7)) / 2  # noqa: E731
            total = sum(integrate.quad(f, *ends)[0] for ends in ((-50, 0), (0, 0.7), (0.7, 50)))
        else:
            p, q = 0.7, 0.3 / 4
            total = p**a * q ** (1 - a) + q**a * p ** (1 - a) + 3 * q
        assert renyi(event, np.array([a]))[0] == pytest.approx(math.log(total) / (a - 1), rel=1e-6)


def test_orders_of_dp_accounting_agree():

    one = dp.NeighboringRelation.REPLACE_ONE
    for ours, theirs in (
        (LaplaceNoise(2.0, 1.0, 3, "message"), dp.LaplaceDpEvent(2.0)),
        (GaussianNoise(3.0, 2.0, "sum"), dp.GaussianDpEvent(1.5)),
        (
            RandomizedResponse(0.9, 11, 1),
            dp.RandomizedResponseDpEvent(noise_parameter=0.11, num_buckets=11),
        ),
    ):
        orders = ORDERS[(ORDERS > 1.2) & (ORDERS < 200)][::20]
        accountant = RdpAccountant(orders, one)
        accountant.compose(theirs, 7)
        assert 7 * renyi(ours, orders) == pytest.approx(accountant._rdp, rel=1e-6)


# ---- composition


def test_normal_noise_is_analytic():
    """Balle & Wang 2018: delta(epsilon) of a Gaussian; and their own routine in dp-accounting."""
    for moved in (0.1, 1.0, 5.0, 60.0):
        e = normal_epsilon(moved, DELTA)
        delta = stats.norm.cdf(moved / 2 - e / moved) - math.exp(
            e + stats.norm.logcdf(-moved / 2 - e / moved)
        )
        assert delta == pytest.approx(DELTA, rel=1e-6)
    theirs = dp.get_epsilon_gaussian(0.8, DELTA)
    assert best(GaussianNoise(0.8, 1.0, "sum")).epsilon == pytest.approx(theirs, rel=1e-6)


def test_normal_noise_composes_as_one(times=50):
    from_pld = pld.from_gaussian_mechanism
    ours = best(GaussianNoise(8.0, 1.0, "sum"), times)
    assert ours.how.startswith("exactly")
    assert ours.epsilon == best(GaussianNoise(8.0 / math.sqrt(times), 1.0, "sum")).epsilon
    theirs = from_pld(8.0).self_compose(times).get_epsilon_for_delta(DELTA)
    assert ours.epsilon <= theirs + 1e-6 and ours.epsilon == pytest.approx(theirs, rel=0.01)
    by_orders = np.min(50 * renyi(GaussianNoise(8.0, 1.0, "sum"), ORDERS) + converted(DELTA))
    assert ours.epsilon < by_orders < 1.1 * ours.epsilon  # a second method, never below


def converted(delta):
    return np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)


def optimal_composition(e, k, delta):
    """Kairouz, Oh & Viswanath 2015, theorem 3.3: k mechanisms that are e-private are ((k - 2i) e,
    delta_i)-private."""
    for i in range(k // 2, -1, -1):
        terms = (
            math.comb(k, j) * (math.exp((k - j) * e) - math.exp((k - 2 * i + j) * e))
            for j in range(i)
        )
        if math.fsum(terms) / (1 + math.exp(e)) ** k <= delta:
            return (k - 2 * i) * e
    raise AssertionError


@pytest.mark.parametrize(("e", "k"), [(0.1, 60), (0.5, 25), (1.0, 40), (3.0, 12)])
def test_pure_composition_is_optimal(e, k):
    p = 1 / (1 + math.exp(-e))
    ours = accounting.answers_epsilon(e, p, 1 - p, k, DELTA)
    theirs = optimal_composition(e, k, DELTA)  # at the epsilons (k - 2i) e only
    assert theirs - 2 * e <= ours <= theirs + 1e-9
    deltas = [  # exact enumeration of who lost how often
        math.comb(k, i)
        * p ** (k - i)
        * (1 - p) ** i
        * max(0.0, 1 - math.exp(ours - (k - 2 * i) * e))
        for i in range(k + 1)
    ]
    assert math.fsum(deltas) == pytest.approx(DELTA, rel=1e-6)

    composed = pld.from_randomized_response(
        2 * (1 - p), 2, value_discretization_interval=e / 1000
    ).self_compose(k)
    assert ours == pytest.approx(composed.get_epsilon_for_delta(DELTA), rel=0.002, abs=0.002)


@pytest.mark.parametrize(("p", "values", "times"), [(0.25, 11, 40), (0.5, 6, 20), (0.9, 11, 12)])
def test_randomised_answers_compose_exactly(p, values, times):

    noise = (1 - p) * values / (values - 1)  # theirs draws among all values
    e = pure_epsilon(RandomizedResponse(p, values, 1))
    theirs = pld.from_randomized_response(
        noise, values, value_discretization_interval=e / 1000
    ).self_compose(times)
    ours = best(RandomizedResponse(p, values, times))
    expected = theirs.get_epsilon_for_delta(DELTA)
    assert ours.epsilon == pytest.approx(expected if ours.delta else times * e, rel=0.002)
    assert ours == best(RandomizedResponse(p, values, 1), times)


def test_few_answers_by_brute_force():
    """All 3^4 sequences of losses of four answers."""
    p, values = 0.4, 5
    q = (1 - p) / (values - 1)
    e = math.log(p / q)
    delta = 0.05
    epsilon = accounting.answers_epsilon(e, p, q, 4, delta)
    chance = {1: p, -1: q, 0: 1 - p - q}
    total = sum(
        math.prod(chance[i] for i in signs) * max(0.0, 1 - math.exp(epsilon - e * sum(signs)))
        for signs in product(chance, repeat=4)
    )
    assert total == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(("in_a_round", "rounds"), [(2, 1), (1, 2)])
def test_two_answers_by_hand(in_a_round, rounds):
    """Each is true with 3/4: its loss is ln 3. Both are with 9/16, so delta = 1/4 = 9/16 (1 -
    exp(epsilon - 2 ln 3)) at epsilon = ln 9 + ln(1 - 4/9) = ln 5."""
    found = best(RandomizedResponse(0.75, 2, in_a_round), rounds, delta=0.25)
    assert found.how == "exactly, as randomised answers"
    assert found.epsilon == pytest.approx(math.log(5), rel=1e-12)


def test_the_known_bug_of_the_pld_accountant():
    """Why the ledger, and these tests, use privacy loss distributions and not that class: it
    composes randomised response once, whatever the count. If this fails, dp-accounting has mended
    it."""

    def epsilon_of(count):
        accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_ONE)
        accountant.compose(dp.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=2), count)
        return accountant.get_epsilon(DELTA)

    assert epsilon_of(1) == epsilon_of(100)
    assert best(RandomizedResponse(0.75, 2, 1), 100).epsilon > 10 * epsilon_of(1)


@pytest.mark.parametrize(("e", "times"), [(0.1, 100), (1.0, 100), (4.0, 30)])
def test_laplace_noise_composes_within_a_few_percent_of_the_best(e, times):

    ours = best(LaplaceNoise(1.0, e, 46, "message"), times)
    composed = pld.from_laplace_mechanism(
        1.0, e, value_discretization_interval=e / 1000
    ).self_compose(times)
    theirs = composed.get_epsilon_for_delta(DELTA)
    assert 0.999 * theirs <= ours.epsilon <= 1.06 * theirs
    assert ours.epsilon <= e * times


@pytest.mark.parametrize("shifts", [(0.5, 0.5), (1.5, 0.1), (2.0, 1.0), (0.2,) * 6])
def test_one_coordinate_that_takes_the_whole_change_is_the_worst_for_laplace_noise(shifts):
    """Deltas of several coordinates that are moved, rounded up, against those of one that is moved
    by the sum."""

    def of(shift):
        return pld.from_laplace_mechanism(1.0, shift, value_discretization_interval=5e-4)

    several = of(shifts[0])
    for shift in shifts[1:]:
        several = several.compose(of(shift))
    for epsilon in np.linspace(0.0, sum(shifts), 30):
        assert (
            several.get_delta_for_epsilon(epsilon)
            <= of(sum(shifts)).get_delta_for_epsilon(epsilon) + 2e-3
        )


def test_gamma_noise_of_many_rounds_needs_no_factor_of_d():
    """At shape 1 the Renyi bound is that of normal noise of the same scale, for any d."""
    few, many = (best(GammaNoise(1.0, 100.0, 3.0, d, "sum"), 200).epsilon for d in (46, 100_000))
    assert many == pytest.approx(few, rel=1e-6)
    normal = best(GaussianNoise(100.0, 3.0, "sum"), 200).epsilon
    assert normal <= few <= 1.1 * normal


def test_numbers_of_fpdgd_as_published():
    """FPDGD at (1.2, 3) with 46 weights: 8.14 a round outright, 5.84 at delta 1e-5, 899 over 1000
    rounds."""
    event = GammaNoise(1.0, 2.5, 3.0, 46, "sum")
    assert pure_epsilon(event) == pytest.approx(8.1388, abs=1e-4)
    assert best(event).epsilon == pytest.approx(5.838, abs=0.001)
    assert best(event, 1000).epsilon == pytest.approx(898.96, abs=0.01)


def test_large_epsilons_are_not_flattered():
    """Where an epsilon is beyond what a double can tell from certainty, rounds simply add up."""
    for e in (30.0, 152.0, 5000.0):
        assert best(LaplaceNoise(1.0, e, 1, "message"), 1000).epsilon >= 0.94 * 1000 * e
        assert best(GammaNoise(0.51, 1.0, e / 40, 46, "sum"), 10).epsilon > 0
    event = GammaNoise(0.51, 2.5, 3.0, 46, "sum")
    assert best(event, 1000).epsilon == pytest.approx(1000 * pure_epsilon(event))


@given(
    st.one_of(
        st.builds(
            LaplaceNoise,
            st.floats(0.1, 10),
            st.floats(0, 10),
            st.integers(1, 99),
            st.just("message"),
        ),
        st.builds(GaussianNoise, st.floats(0.1, 10), st.floats(0, 10), st.just("sum")),
        st.builds(RandomizedResponse, st.floats(0.5, 0.99), st.integers(2, 20), st.integers(1, 4)),
        st.builds(
            GammaNoise,
            st.floats(0.51, 1),
            st.floats(0.1, 10),
            st.floats(0, 10),
            st.integers(1, 99),
            st.just("sum"),
        ),
    ),
    st.integers(1, 30),
)
@examples(60)
def test_more_rounds_reveal_more_and_bounds_are_sane(event, times):
    once, often, more = best(event), best(event, times), best(event, times + 1)
    assert 0.0 <= once.epsilon <= often.epsilon / accounting.WORTH + 1e-9
    assert often.epsilon <= more.epsilon / accounting.WORTH + 1e-9
    assert often.epsilon <= times * pure_epsilon(event) * (1 + 1e-12)
    assert best(event, times, 1e-3).epsilon <= often.epsilon / accounting.WORTH + 1e-9


# ---- a part of the clients, drawn in secret


def test_a_secret_part_of_the_clients_is_hidden_better():
    noise = GaussianNoise(8.0, 2.0, "model")
    some, all_of_them = (
        sampled(noise, 100, 1000, 100, DELTA),
        sampled(noise, 1000, 1000, 100, DELTA),
    )
    assert some.epsilon < 0.5 * all_of_them.epsilon
    assert all_of_them.epsilon >= best(noise, 100).epsilon
    # what holds of every mechanism (Balle, Barthe & Gaboardi 2018): ln(1 + q (e^eps - 1)) at q
    # delta, here once
    once = best(noise, 1, DELTA / 0.1)
    assert sampled(noise, 100, 1000, 1, DELTA).epsilon >= 0.0
    assert math.log1p(0.1 * math.expm1(once.epsilon)) < best(noise).epsilon


def test_without_dp_accounting_only_that_is_refused(monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("dp_accounting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert best(LaplaceNoise(1.0, 1.0, 3, "message"), 10).epsilon <= 10.0
    with pytest.raises(Mistake, match=r"foltr\[privacy\]"):
        sampled(GaussianNoise(1.0, 1.0, "model"), 10, 100, 5, DELTA)


# ---- what is refused


@dataclass(frozen=True)
class Invented:
    seen: str = "message"


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Invented(), "cannot account for events of type Invented"),
        (RandomizedResponse(0.05, 11, 1), "out of range"),
        (RandomizedResponse(1.2, 11, 1), "out of range"),
        (RandomizedResponse(0.9, 1, 1), "out of range"),
        (LaplaceNoise(0.0, 1.0, 1, "message"), "out of range"),
        (RandomizedResponse(0.9, 11, 0), "out of range"),
        (LaplaceNoise(1.0, math.nan, 1, "message"), "out of range"),
        (LaplaceNoise(1.0, math.inf, 1, "message"), "out of range"),
        (LaplaceNoise(1.0, -1.0, 1, "message"), "out of range"),
        (GammaNoise(1.5, 1.0, 1.0, 1, "sum"), "out of range"),
        (GammaNoise(0.0, 1.0, 1.0, 1, "sum"), "out of range"),
        (GammaNoise(1.0, 1.0, math.inf, 1, "sum"), "out of range"),
        (GammaNoise(1.0, 1.0, 1.0, 0, "sum"), "out of range"),
        (GaussianNoise(1.0, math.inf, "sum"), "out of range"),
        (GaussianNoise(1.0, 1.0, "sum", grid=0.0), "out of range"),
        (GaussianNoise(1.0, 1.0, "sum", log_error=-1e-9), "out of range"),
        (GaussianNoise(1.0, 1.0, "nowhere"), "out of range"),
    ],
)
def test_nothing_is_guessed(event, told):
    with pytest.raises(Mistake, match=told):
        best(event)


@pytest.mark.parametrize(
    ("largest", "larger"),
    [
        (GaussianNoise(2.0, 56.0, "sum"), GaussianNoise(2.0, 56.1, "sum")),
        (LaplaceNoise(2.0, 1200.0, 1, "message"), LaplaceNoise(2.0, 1200.1, 1, "message")),
        (GammaNoise(1.0, 2.0, 1200.0, 1, "sum"), GammaNoise(1.0, 2.0, 1200.1, 1, "sum")),
        (
            GaussianNoise(1.0, 1.0, "sum", log_error=50),
            GaussianNoise(1.0, 1.0, "sum", log_error=51),
        ),
    ],
    ids=["normal", "Laplace", "Gamma", "log_error"],
)
def test_without_noise_that_reaches_far_enough_nothing_is_guaranteed(largest, larger):
    """The drawn noise ends at 28 standard deviations, or 600 scales. Errors of the drawing may add
    up to 100."""
    assert math.isfinite(best(largest, times=2).epsilon)
    assert best(larger, times=2) == NONE


def test_an_event_that_only_inherits_a_known_one_is_refused():
    @dataclass(frozen=True)
    class Quieter(GaussianNoise):
        pass

    with pytest.raises(Mistake, match="Quieter"):
        best(Quieter(1.0, 1.0, "sum"))


def test_a_delta_is_a_probability():
    for delta in (0.0, 1.0, -1e-5, math.nan):
        with pytest.raises(Mistake, match="delta"):
            best(GaussianNoise(1.0, 1.0, "sum"), 1, delta)


def test_several_events_of_a_round_add_up():
    one, two = GaussianNoise(3.0, 1.0, "sum"), GaussianNoise(4.0, 1.0, "sum")
    both = bound(((one, 5), (two, 5)), DELTA)
    assert both.epsilon == pytest.approx(
        best(replace(one, sd=(5 / 9 + 5 / 16) ** -0.5)).epsilon, rel=1e-9
    )
    mixed = bound(
        ((LaplaceNoise(1.0, 0.5, 1, "message"), 1), (RandomizedResponse(0.5, 6, 1), 1)), DELTA
    )
    assert mixed.epsilon == pytest.approx(0.5 + math.log(5))
