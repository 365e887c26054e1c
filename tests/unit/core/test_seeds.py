"""Addresses: stable, apart from each other, and independent of the order in which they are
asked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chance import plausible
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.core.seeds import SystemStream, key, stream

words = st.text(max_size=8) | st.integers(0, 2**63)
addresses = st.lists(words, max_size=4).map(tuple)


@given(st.integers(0, 2**63), addresses, addresses)
def test_other_address_other_key(seed, one, other):
    assert (key(seed, *one) == key(seed, *other)) == (one == other)


@given(addresses, st.integers(0, 1000))
def test_an_address_below_is_the_longer_address(address, part):
    assert stream(1, *address).at(part).key == key(1, *address, part)


def test_drawing_singly_and_together_is_the_same():
    one, many = stream(3, "x"), stream(3, "x").uniforms(100)
    assert [one.uniform() for _ in range(100)] == many.tolist()


def test_draws_do_not_repeat_the_keys_below():
    draws = set(stream(3, "x").words(1000).tolist())
    assert not draws & {key(3, "x", i) for i in range(1000)}


def test_distributions():
    u, z = stream(4).uniforms(200_000), stream(5).normals(200_001)
    assert 0.0 < u.min() and u.max() < 1.0
    # seven standard errors
    np.testing.assert_allclose([u.mean(), u.var()], [1 / 2, 1 / 12], atol=5e-3)
    moments = [z.mean(), z.var(), (z**3).mean(), (z**4).mean()]
    errors = 7.0 * np.sqrt(np.array([1, 2, 15, 96]) / len(z))
    assert (np.abs(np.subtract(moments, [0, 1, 0, 3])) < errors).all()
    assert len(z) == 200_001


def test_samples_have_no_repeats_and_reach_everybody():
    drawn = [stream(6, "part", t).sample(10, 3) for t in range(200)]
    assert all(len(set(s.tolist())) == 3 and (np.diff(s) > 0).all() for s in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=10)
    assert plausible(counts, 200, 0.3)


def test_draws_of_the_system_are_fresh_and_of_the_same_laws():
    system = SystemStream()
    assert not np.array_equal(system.words(4), system.words(4))
    assert system.at(3).uniform() != system.at(3).uniform()
    u = system.uniforms(20_000)
    assert 0.0 < u.min() and u.max() < 1.0 and abs(u.mean() - 0.5) < 0.015  # seven standard errors
    assert abs(system.gaussians(20_000).std() - 1.0) < 0.04  # eight
    assert {system.integer(3) for _ in range(200)} == {0, 1, 2}
    update = np.zeros(5, np.float32)
    for privacy in (
        GammaShares(epsilon=1, sensitivity=3),
        Laplace(epsilon=1, clip=1),
        Gaussian(noise=1, clip=1),
    ):
        assert not np.array_equal(
            privacy.on_client(update, 2, system), privacy.on_client(update, 2, system)
        )
