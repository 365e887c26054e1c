"""What the attacker knows of the noise: densities against integrals and oracles, clipping,
guarantees by view."""

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import kstest, laplace, norm

from chance import RARE
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.simulation.audits.noise import (
    View,
    clipped,
    events_in,
    guarantee,
    log_density,
    message,
    of_others,
    seen,
    summed,
)

LAPLACE, GAMMA = Laplace(epsilon=1.2, clip=1.0), GammaShares(epsilon=1.2, sensitivity=3.0)


def chance(privacy, view, low, high):
    """By the density, on a grid that is fine near 0, and normed there."""
    positive = np.append(0.0, np.geomspace(1e-7, 60.0, 20_000))
    x = np.concatenate([-positive[:0:-1], positive])
    density = np.exp(log_density(events_in(privacy, view, 1), view, x[:, None]))
    inside = (x >= low) & (x <= high)
    return trapezoid(density[inside], x[inside]) / trapezoid(density, x)


@pytest.mark.parametrize(
    ("privacy", "view"),
    [
        (LAPLACE, message(5)),
        (GAMMA, summed(5)),
        (GAMMA, summed(5, 4)),
        (Gaussian(1.0, 1.0, "shares"), summed(4)),
        (Gaussian(1.0, 1.0), message(4)),
        (Gaussian(1.0, 1.0), summed(3)),
    ],
    ids=str,
)
def test_draws_have_the_density_that_the_attacker_believes_in(privacy, view):
    draws = seen(
        privacy, np.zeros(1, np.float32), view, of_others(privacy, view, 20_000, 1, seed=1), 1, 0
    )[:, 0]
    for low, high in ((0.1, 0.6), (0.5, 3.0)):
        share = np.mean((draws > low) & (draws < high))
        assert share == pytest.approx(
            chance(privacy, view, low, high),
            abs=6 * math.sqrt(share / len(draws)),  # standard errors
        )


def test_shares_of_a_gamma_sum_are_laplace_and_of_normal_noise_normal():
    rest = of_others(GAMMA, summed(8), 4000, 2, seed=3)
    draws = seen(GAMMA, np.array([1.0, -2.0], np.float32), summed(8), rest, 3, 0)
    assert kstest(draws[:, 0] - 1.0, laplace(scale=2.5).cdf).pvalue > RARE
    assert kstest(draws[:, 1] + 2.0, laplace(scale=2.5).cdf).pvalue > RARE
    server = Gaussian(2.0, 0.5, "server")
    view = View("model", 6, 6)
    model = seen(server, np.zeros(3, np.float32), view, of_others(server, view, 2000, 3, 1), 1, 0)
    # of the sum, in units of one client
    assert kstest(model.ravel(), norm(scale=1.0).cdf).pvalue > RARE


def test_clipping_is_the_privatizers():
    updates = np.array([[3.0, -4.0], [0.1, 0.1], [0.0, 0.0]])
    np.testing.assert_allclose(
        clipped(LAPLACE, updates, 5), [[3 / 7, -4 / 7], [0.1, 0.1], [0.0, 0.0]]
    )
    np.testing.assert_allclose(
        clipped(Gaussian(1.0, 1.0), updates, 5), [[0.6, -0.8], [0.1, 0.1], [0.0, 0.0]]
    )
    np.testing.assert_array_equal(clipped(GAMMA, updates, 5), updates)  # there it is the learner's
    np.testing.assert_array_equal(clipped(None, updates, 5), updates)


def test_guarantees_by_who_sees_what():
    assert guarantee(None, message(5), 3, 1e-5).epsilon == math.inf
    assert (
        guarantee(LAPLACE, message(5), 3, 1e-5).epsilon
        == guarantee(LAPLACE, summed(9), 3, 1e-5).epsilon
        == 1.2
    )
    assert guarantee(GAMMA, message(5), 3, 1e-5).epsilon == math.inf
    assert guarantee(GAMMA, summed(5), 1, 1e-5).epsilon == pytest.approx(1.2, rel=1e-4)
    assert guarantee(GAMMA, summed(5, 4), 1, 1e-5).epsilon > 1.2
    # half of the noise, or less, is none
    assert guarantee(GAMMA, summed(4, 2), 1, 1e-5).epsilon == math.inf
    server = Gaussian(1.0, 1.0, "server")
    assert guarantee(server, summed(5), 3, 1e-5).epsilon == math.inf
    by_server = guarantee(server, View("model", 5, 5), 3, 1e-5).epsilon
    assert by_server == pytest.approx(
        guarantee(Gaussian(1.0, 1.0), message(5), 3, 1e-5).epsilon, rel=1e-4
    )
