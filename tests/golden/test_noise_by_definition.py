"""The privatizers against what they are defined to be: distributions, norms, and shares that add
up."""

import math

import numpy as np
import pytest
from scipy import stats

from chance import RARE, plausible
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.core.events import Setting
from foltr.core.noise import polya_shares, within
from foltr.core.seeds import key, stream
from foltr.privacy.accounting import peak, pure_epsilon
from foltr.simulation.engines.twins import noise_twin


def sent(privacy, updates, n, t=0):
    """What many clients send, compiled (`tests/parity` compares with the plain definition)."""
    kernel, settings, chances = noise_twin(privacy, n)
    out = updates.astype(np.float32)
    kernel(settings, chances, np.uint64(key(1, "privacy")), np.arange(len(out)), t, out)
    return out.astype(np.float64)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_gamma_shares_add_up_to_laplace_noise(n):
    privacy = GammaShares(epsilon=1.2, sensitivity=3.0)
    rounds, columns = (50, 200) if n == 1000 else (10, 2000)
    totals = [sent(privacy, np.zeros((n, columns)), n, t).sum(axis=0) for t in range(rounds)]
    test = stats.kstest(np.concatenate(totals), stats.laplace(scale=2.5).cdf)
    assert test.pvalue > RARE


def polya(shape, scale, most):
    """P(z) of the difference of two negative binomial variables, z = -most .. most, by adding up
    products."""
    k = np.arange(60 * most)
    p = stats.nbinom(shape, -math.expm1(-1.0 / scale)).pmf(k)
    half = np.array([(p[: len(p) - z] * p[z:]).sum() for z in range(most + 1)])
    return np.concatenate([half[:0:-1], half])


@pytest.mark.parametrize("scale", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_shares_on_whole_numbers_have_their_law(n, scale):
    most, draws = 8, polya_shares(stream(2, "share"), 20_000, n, scale)
    exact = polya(1.0 / n, scale, most)
    counts = np.array(
        [(draws == z).sum() for z in range(-most, most + 1)] + [(np.abs(draws) > most).sum()]
    )
    expected = 20_000 * np.append(exact, 1.0 - exact.sum())
    assert plausible(counts, 20_000, expected / 20_000)
    often = expected > 20
    if often.sum() > 1:  # chi-squared is far from exact for rare numbers
        shares = expected[often] / expected[often].sum()
        test = stats.chisquare(counts[often], shares * counts[often].sum())
        assert test.pvalue > RARE
    if n == 1:  # all of the noise: discrete Laplace
        ways = np.exp(-np.abs(np.arange(-most, most + 1)) / scale)
        np.testing.assert_allclose(exact, ways * math.tanh(0.5 / scale), rtol=1e-9)


@pytest.mark.parametrize("part", [0.55, 0.667, 0.9, 0.999])
@pytest.mark.parametrize("scale", [2.0, 30.0])
def test_missing_shares_reveal_no_more_than_the_bessel_function_says(part, scale):
    """accounting.py: ln f(0) / f(c) of whole numbers is at most that of real ones, and largest at
    0."""
    most = 60
    f = np.log(polya(part, scale, most)[most:])
    lost = f[0] - f
    assert all(lost[c] <= peak(part, c / scale) * (1 + 1e-9) for c in range(1, most + 1))
    both = np.concatenate([f[:0:-1], f])
    for c in (1, 5, 20):
        assert (both[c:] - both[:-c]).max() == pytest.approx(lost[c], rel=1e-9)


def test_a_message_of_a_thousand_is_nearly_bare():
    """ALGORITHMS 5: of gamma shares 96 % are below 1e-9. On the grid nearly all numbers carry
    nothing."""
    privacy = GammaShares(epsilon=1.2, sensitivity=3.0)
    noise = sent(privacy, np.zeros((1000, 136)), 1000)
    bare = (-math.expm1(-privacy.step / privacy.scale)) ** (2 / 1000)
    assert 0.975 < bare < 0.98 and plausible((noise == 0.0).sum(), noise.size, bare)
    # not the variance of single shares: 136,000 of them leave it uncertain by 15 %
    assert stats.kstest(noise.sum(axis=0), stats.laplace(scale=2.5).cdf).pvalue > RARE


@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0, 1e3, 1e30])
def test_laplace_clips_in_l1_and_adds_what_twice_the_clip_asks_for(norm):
    privacy, update = Laplace(epsilon=0.5, clip=1.0), np.array([3.0, -1.0, 0.0, 4.0]) / 8.0 * norm
    messages = sent(privacy, np.tile(update, (30_000, 1)), 10)
    kept = update * min(1.0, 1.0 / norm if norm else 1.0)
    assert np.abs(kept).sum() <= 1.0 + 1e-9
    for j in range(4):
        assert stats.kstest(messages[:, j], stats.laplace(kept[j], 4.0).cdf).pvalue > RARE


@pytest.mark.parametrize("where, share", [("client", 1.0), ("shares", 0.2), ("server", 0.0)])
def test_gaussian_noise_by_place(where, share):
    # norm 5, ten times too long
    privacy, update = (Gaussian(noise=2.0, clip=0.5, where=where), np.array([3.0, 4.0, 0.0]))
    messages, kept = sent(privacy, np.tile(update, (20_000, 1)), 25), np.array([0.3, 0.4, 0.0])
    if not share:
        np.testing.assert_allclose(messages, np.tile(kept, (20_000, 1)), atol=2e-6)
        noisy = np.array([privacy.on_server(kept, 25, stream(4, i)) for i in range(5000)])
        assert stats.kstest(noisy[:, 1], stats.norm(0.4, 1.0 / 25).cdf).pvalue > RARE
        return
    for j in range(3):
        assert stats.kstest(messages[:, j], stats.norm(kept[j], share).cdf).pvalue > RARE


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e3, 1e37])
def test_no_update_is_longer_than_the_ledger_believes(size):
    """Rounding must not lengthen what was clipped."""
    updates = (stream(9).normals(500 * 300).reshape(500, 300) * size).astype(np.float32)
    for norms in (
        np.abs(updates).sum(axis=1, dtype=float),
        np.sqrt(np.square(updates, dtype=float).sum(axis=1)),
    ):
        order = 1 if norms[0] > 50 * size else 2
        kept = np.array([within(u, norm, 0.1) for u, norm in zip(updates, norms, strict=True)])
        lengths = np.linalg.norm(kept, order, axis=1)
        assert lengths.max() <= 0.1
        assert size < 1e-3 or lengths.min() > 0.1 * (1 - 2e-6)
    as_sent = sent(Gaussian(noise=1.0, clip=0.1, where="server"), updates, 5)
    assert np.linalg.norm(as_sent, axis=1).max() <= 0.1


@pytest.mark.parametrize("broken", [np.inf, np.nan])
def test_an_update_that_is_not_finite_is_sent_as_zero(broken):
    updates = np.array([[1.0, broken, 2.0]])
    np.testing.assert_array_equal(
        sent(Gaussian(noise=1.0, clip=0.1, where="server"), updates, 5), np.zeros((1, 3))
    )
    assert np.isfinite(sent(Laplace(epsilon=1.0, clip=0.1), updates, 5)).all()


@pytest.mark.parametrize(
    "privacy",
    [
        Laplace(epsilon=1.0, clip=0.1),
        Laplace(epsilon=500.0, clip=0.1),
        Gaussian(noise=20.0, clip=0.1),
    ],
    ids=repr,
)
def test_every_message_can_come_from_every_update(privacy):
    """Mironov (CCS 2012): in plain floating point the last bits exclude updates. On the grid they
    cannot."""
    step = privacy.step(10) if isinstance(privacy, Gaussian) else privacy.step
    nothing, something = (
        np.zeros((3000, 46)),
        np.tile(0.0999 * stream(3).uniforms(46) / 46, (3000, 1)),
    )
    for updates in (nothing, something):
        messages = sent(privacy, updates, 10) / step
        np.testing.assert_array_equal(messages, np.rint(messages))
        # float32 holds each exactly, so nothing is lost after the grid
        assert np.abs(messages).max() < 2**24
        assert set((messages.ravel() % 4).tolist()) == {0.0, 1.0, 2.0, 3.0}


def test_a_reward_is_sent_as_often_as_stated():
    privacy, counts, n = RandomizedReward(p=0.6), np.zeros(5), 40_000
    for i in range(n):
        counts[privacy.on_reward(2, 5, stream(6, i))] += 1
    expected = n * np.array([0.1, 0.1, 0.6, 0.1, 0.1])
    assert stats.chisquare(counts, expected).pvalue > RARE


def test_the_mean_of_what_is_sent():
    """Kharitonov (WSDM 2019), eq. 7: (p V - 1) / (V - 1) x value + constant."""
    values, p = np.array([0.0, 0.2, 0.25, 0.5, 1.0]), 0.7
    told = [p * v + (1 - p) / 4 * (values.sum() - v) for v in values]
    slope, constant = (p * 5 - 1) / 4, (1 - p) / 4 * values.sum()
    np.testing.assert_allclose(told, slope * values + constant, rtol=1e-12)


def test_epsilon_of_one_answer():
    """Kharitonov (WSDM 2019), eq. 10."""
    for p, epsilon in ((0.9, math.log(0.9 * 10 / 0.1)), (1.0, math.inf)):
        (event,) = RandomizedReward(p=p).events(
            Setting(d=1, cohort=1, least_arriving=1, sessions=1, values=11)
        )
        assert pure_epsilon(event) == pytest.approx(epsilon)
