"""Student's t-test with numbers that a hand, or arithmetic of 400 digits, can check."""

import math

import numpy as np
import pytest

from foltr.report.statistics import expanded_level, half_width, paired_t, two_tailed


def test_a_test_by_hand():
    """Differences 1, 2, 3, 4, 5: mean 3, variance (4 + 1 + 0 + 1 + 4) / 4 = 2.5, t = 3 / sqrt(2.5
    / 5) = 3 sqrt(2).

    With 4 degrees of freedom P(|T| > t) = 1 - u (3 - u^2) / 2, where u = t / sqrt(4 + t^2) =
    sqrt(18 / 22)."""
    test = paired_t(np.array([11.0, 12.0, 13.0, 14.0, 15.0]), np.full(5, 10.0))
    u = math.sqrt(9 / 11)
    assert (test.n, test.difference) == (5, 3.0)
    assert test.sd == pytest.approx(math.sqrt(2.5), rel=1e-15)
    assert test.t == pytest.approx(3 * math.sqrt(2), rel=1e-15)
    assert test.effect == pytest.approx(3 / math.sqrt(2.5), rel=1e-15)
    assert test.p == pytest.approx(1 - u * (3 - u * u) / 2, rel=1e-13)
    assert test.interval == pytest.approx(
        (3 - 2.7764451 * math.sqrt(0.5), 3 + 2.7764451 * math.sqrt(0.5)), rel=1e-7
    )


def test_sleep():
    """The hours of sleep gained with two drugs by ten patients, with which Student (1908)
    introduced the test: the mean difference is 1.58 hours, t = 4.062, p = 0.0028."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    test = paired_t(np.array(second), np.array(first))
    assert test.difference == pytest.approx(1.58)
    assert test.t == pytest.approx(4.0621, abs=5e-5)
    assert test.p == pytest.approx(0.002833, abs=5e-7)
    assert test.interval == pytest.approx((0.7001142, 2.4598858), abs=5e-8)


@pytest.mark.parametrize(
    ("df", "t", "p"),
    [  # by the incomplete beta function with 420 digits
        (1, 1e-9, 0.99999999936338022763),
        (1, 12.5, 0.050821347332231791019),
        (1, 1e200, 6.3661977236758136234e-201),
        (2, 4.0, 0.057190958417936634132),
        (2, 1e120, 1.00000000000000004e-240),
        (4, 2.5, 0.066766544811988145039),
        (4, 1e75, 6.000000000000001763e-300),
        (9, 2.262157162740992, 0.050000000004675688601),
        (24, 1e-6, 0.99999921038122357316),
        (24, 3.0, 0.0062057366165247410292),
        (24, 1e13, 5.886359014588416e-297),
        (99, 5.0, 2.4813960130409478239e-6),
        (99, 1500.0, 1.7905924879105405087e-217),
        (299, 12.0, 2.4004975588465331944e-27),
        (999, 40.0, 1.24264211962714241e-209),
    ],
)
def test_tails(df, t, p):
    assert two_tailed(t, df) == pytest.approx(p, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("t", [1e-12, 0.01, 1.0, 7.0, 1e5, 1e100])
def test_tails_in_closed_form(t):
    """With one degree of freedom (Cauchy) and with two."""
    assert two_tailed(t, 1) == pytest.approx(2 / math.pi * math.atan(1 / t), rel=1e-13, abs=0.0)
    root = math.sqrt(2 + t * t)
    assert two_tailed(t, 2) == pytest.approx(2 / root / (root + t), rel=1e-13, abs=0.0)


def test_ends_of_a_distribution():
    for df in (1, 2, 24):
        assert (
            two_tailed(0.0, df) == 1.0
            and two_tailed(math.inf, df) == two_tailed(-math.inf, df) == 0.0
        )


def test_half_a_t_interval():
    """t of 0.975 is 12.7062 with one degree of freedom and 2.0639 with 24: from any table."""
    assert half_width(1.0, 2) == pytest.approx(12.7062 / math.sqrt(2), abs=5e-5)
    assert half_width(2.0, 25) == pytest.approx(2.0639 * 2 / 5, abs=5e-5)


@pytest.mark.parametrize(("n", "t"), [(5, 2.7764451052), (10, 2.2621571628), (25, 2.0638985616)])
def test_expanded_level(n, t):
    """2 Phi(z) - 1 = erf(z / sqrt(2)) of z = sqrt(n / (n - 1)) t, with the 0.975 quantile t of a
    table: for five values z = 3.1042, and 0.9981 is asked for so that 0.95 may be had."""
    assert expanded_level(n) == pytest.approx(
        math.erf(math.sqrt(n / (n - 1)) * t / math.sqrt(2)), rel=1e-10
    )


def test_expanded_level_of_five():
    """Phi(-3.1042) is 0.000954 in a table of the normal distribution, twice that 0.00191."""
    assert expanded_level(5) == pytest.approx(0.99809, abs=5e-6)
