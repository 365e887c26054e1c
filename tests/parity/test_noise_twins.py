"""The privatizers, compiled and plain: the same noise on the same clients."""

import numpy as np
import pytest

from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.core.seeds import Stream, key, stream
from foltr.kernels.gaussians import gaussians
from foltr.simulation.engines.twins import noise_twin

PRIVATIZERS = [
    GammaShares(epsilon=1.2, sensitivity=3.0),
    GammaShares(epsilon=0.1, sensitivity=5.0, clip="full"),
    Laplace(epsilon=1.0, clip=2.0),
    Laplace(epsilon=1.0, clip=1e6),
    Gaussian(noise=1.0, clip=0.5),
    Gaussian(noise=2.0, clip=1e6, where="shares"),
    Gaussian(noise=1.0, clip=0.5, where="server"),
]


@pytest.mark.parametrize("privacy", PRIVATIZERS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 30, 1000])
def test_the_same_noise(privacy, n):
    seed, t, clients = 5, 7, np.array([3, 0, 11, 999])
    updates = stream(1, "updates").normals(4 * 47).reshape(4, 47).astype(np.float32)
    updates[2] = 0.0
    noise = [stream(seed, "privacy", client, t) for client in clients.tolist()]
    plain = [privacy.on_client(u, n, rng) for u, rng in zip(updates, noise, strict=True)]
    kernel, settings, chances = noise_twin(privacy, n)
    fast = updates.copy()
    kernel(settings, chances, np.uint64(key(seed, "privacy")), clients, t, fast)
    np.testing.assert_allclose(fast, plain, rtol=2e-6, atol=1e-6 * np.abs(plain).max())
    if not (isinstance(privacy, Gaussian) and privacy.where == "server") and n < 1000:
        assert (fast != updates).mean() > 0.5


@pytest.mark.parametrize("n", [1, 2, 46, 480, 1001])
def test_normal_draws_are_equal_to_the_last_bit(n):
    """What a seed means must not depend on who works it out."""
    for seed in (0, 1, 2**32 - 1):
        u, r, out = np.empty(n), np.empty(n), np.empty(n)
        gaussians(np.uint64(key(seed, "any")), n, u, r, out)
        assert out.tobytes() == Stream(key(seed, "any")).gaussians(n).tobytes()
