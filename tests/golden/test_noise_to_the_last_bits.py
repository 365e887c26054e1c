"""Privacy noise, probability by probability: what the ledger adds for a computer's arithmetic is
enough."""

import math

import mpmath
import numpy as np
import pytest

from chance import RARE
from foltr.components.privatizers import gaussian, laplace
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.core import noise
from foltr.core.events import GaussianNoise, LaplaceNoise
from foltr.core.seeds import SystemStream, stream
from foltr.core.seeds import gaussian as quick_gaussian
from foltr.privacy.accounting import bound

mpmath.mp.dps = 50
# where the formula of the middle meets that of the tails: 1.4395 standard deviations
BRANCH = 0.075


def exact_quantile(v):
    """x with P(N > x) = v, by Newton's method from a double."""
    v = mpmath.mpf(float(v))
    x = mpmath.mpf(float(noise.upper_quantile(np.array([float(v)]))[0]))
    for _ in range(4):
        x += (mpmath.erfc(x / mpmath.sqrt(2)) / 2 - v) / mpmath.npdf(x)
    return x


def test_normal_draws_are_right_to_a_few_of_the_last_bits_from_the_middle_to_the_far_tails():
    far, around = np.geomspace(2.0**-960, 2.0**-128, 20), BRANCH + np.linspace(-1e-9, 1e-9, 21)
    v = np.concatenate([far, np.geomspace(2.0**-128, 0.5, 300), around, [0.4999999]])
    off = [abs(float(mpmath.mpf(float(got)) - exact_quantile(each))) for got, each in
           zip(noise.upper_quantile(v), v, strict=True)]  # fmt: skip
    assert max(off[20:]) < 1e-14 and max(off) < 2e-14


def test_there_is_no_gap_where_formulas_meet():
    """The quick draws of `seeds` jump there: on a grid of 2^-46 of the reach they left 43,678
    points undrawn."""
    v = np.array([np.nextafter(BRANCH, 0.0), BRANCH, np.nextafter(BRANCH, 1.0)])
    assert np.ptp(noise.upper_quantile(v)) < 2e-15
    assert np.ptp(quick_gaussian(v)) > 1e-9


def mass(below, j):
    """Of the tail probabilities that are drawn as j, where `below(v)` says which steps v is drawn
    as (falling)."""

    def edge(k):
        low, high = mpmath.mpf(0), mpmath.mpf(0.5)  # drawn above k, and at most k
        for _ in range(400):
            middle = (low + high) / 2
            if below(float(middle)) > k:
                low = middle
            else:
                high = middle
            if float(low) == float(high):
                break
        return high

    return edge(j - 1) - edge(j)


def test_every_point_of_the_server_s_grid_has_its_probability():
    privacy, n = Gaussian(noise=5.0, clip=0.1, where="server"), 1000
    sd, step = privacy.sd / n, privacy.step(n)

    def drawn(v):
        return math.floor(sd * float(noise.upper_quantile(np.array([v]))[0]) / step + 0.5)

    rng = np.random.default_rng(1)
    for x in [*rng.uniform(0.01, 12.0, 12), 1.4395, 1.43953147]:
        j = round(x * sd / step)
        ends = [mpmath.erfc((j + side) * step / sd / mpmath.sqrt(2)) / 2 for side in (-0.5, 0.5)]
        true = ends[0] - ends[1]
        assert abs(mpmath.log(mass(drawn, j) / true)) < gaussian.LOG_ERROR / 2, x


def test_every_number_that_a_device_draws_by_laplace_has_its_probability():
    privacy = Laplace(epsilon=1.0, clip=0.1)

    def drawn(v):
        return math.floor(privacy.scale * -math.log(2.0 * v) / privacy.step + 0.5)

    for x in (0.01, 0.7, 3.0, 10.0, 24.0, 36.0, 60.0):
        j = round(x * privacy.scale / privacy.step)
        ends = [mpmath.exp(-(j + side) * privacy.step / privacy.scale) / 2 for side in (-0.5, 0.5)]
        assert abs(mpmath.log(mass(drawn, j) / (ends[0] - ends[1]))) < laplace.LOG_ERROR / 2, x


class Scripted:
    """A stream whose words are known."""

    def __init__(self, words):
        self.left = words

    def words(self, n):
        taken, self.left = self.left[:n], self.left[n:]
        return np.array(taken, np.uint64)

    def at(self, part):
        return self


def test_small_tail_probabilities_have_more_bits():
    side, v = noise.tails(Scripted([2**64 - 1, 2**54, 6, 1, 2**63, 0, 0, 2**60]), 4)
    np.testing.assert_array_equal(side, [1.0, -1.0, -1.0, 1.0])
    assert v[0] == 0.5 and v[1] == (2.0**53 + 0.5) * 2.0**-64
    assert v[2] == 3.5 * 2.0**-64
    assert v[3] == (2.0**60 + 0.5) * 2.0**-256  # 63 bits and 128 more were 0


def test_draws_have_no_end_that_an_adversary_could_meet():
    """With 127 bits normal draws ended at 13.1: at noise 0.2 one message in 900 could come from
    one update only."""
    deep = noise.finer(0, Scripted([0] * 20))
    assert 0.0 < deep < 2.0**-900 and 36.0 < noise.upper_quantile(np.array([deep]))[0] < 38.0
    assert -math.log(2.0 * deep) > 650.0
    far = [pure_bound(GaussianNoise(1.0, l2, "message", 1.0)).epsilon for l2 in (27.0, 29.0)]
    assert math.isfinite(far[0]) and far[1] == math.inf
    assert pure_bound(LaplaceNoise(1.0, 599.0, 1, "message", 1.0)).epsilon == pytest.approx(599.0)
    assert pure_bound(LaplaceNoise(1.0, 601.0, 1, "message", 1.0)).epsilon == math.inf


def pure_bound(event):
    return bound(((event, 1),), 1e-5)


@pytest.mark.parametrize("make", [noise.normals, noise.laplaces])
def test_devices_draw_from_the_same_law(make):
    from scipy import stats

    law = stats.norm if make is noise.normals else stats.laplace
    assert stats.kstest(make(SystemStream(), 20_000), law.cdf).pvalue > RARE
    assert stats.kstest(make(stream(3), 20_000), law.cdf).pvalue > RARE
