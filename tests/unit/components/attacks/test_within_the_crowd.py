"""Min-Max and Min-Sum keep to their limits, and go right up to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import asked_of
from foltr.components.attacks._crafting import away
from foltr.components.attacks.min_max import MinMax, MinSum
from foltr.core import Cohort, cohorts
from foltr.core.seeds import stream
from property_settings import examples

pytestmark = pytest.mark.usefixtures("both_ways")

ROUNDS = {
    "seed": st.integers(0, 2**40),
    "m": st.integers(1, 5),
    "honest": st.integers(2, 8),
    "d": st.integers(1, 20),
    "shift": st.floats(-2.0, 2.0),
    "direction": st.sampled_from(["std", "unit", "sign"]),
    "knowledge": st.sampled_from(["own", "all"]),
}


def farthest(x, known):
    """What Min-Max limits: the largest distance to a known update, and that of two known ones."""
    return np.sqrt(np.square(known - x).sum(axis=1)).max(), np.sqrt(
        cohorts.squared_distances(known)
    ).max()


def in_all(x, known):
    """What Min-Sum limits."""
    return np.square(known - x).sum(), np.square(np.sqrt(cohorts.squared_distances(known))).sum(
        axis=1
    ).max()


@pytest.mark.parametrize(("attack", "limited"), [(MinMax, farthest), (MinSum, in_all)])
@given(**ROUNDS)
@examples(100)
def test_the_largest_step_within_the_limit(
    attack, limited, seed, m, honest, d, shift, direction, knowledge
):
    n = m + honest
    updates = (stream(seed, "updates").normals(n * d).reshape(n, d) + shift).astype(np.float32)
    malicious = np.arange(n) < m
    sent = attack(direction=direction, knowledge=knowledge).craft(
        Cohort(np.arange(n), updates, np.ones(n)),
        malicious,
        asked_of(9, np.zeros(d, np.float32)),
        stream(1, "attack"),
    )
    assert (sent == sent[0]).all()
    known = updates[malicious if knowledge == "own" else ~malicious].astype(float)
    mu, x = known.mean(axis=0), sent[0].astype(float)
    reached, limit = limited(x, known)
    assert reached == pytest.approx(limit, rel=1e-5, abs=1e-5)
    p = away(known, mu, direction)
    if len(known) > 1:
        gamma = (x - mu) @ p / (p @ p)
        np.testing.assert_allclose(x, mu + gamma * p, atol=1e-5 * (1.0 + np.abs(x).max()))
        assert gamma > 0.0
        assert limited(mu + 1.001 * gamma * p, known)[0] > limit
