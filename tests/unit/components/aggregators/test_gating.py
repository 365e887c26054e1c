"""The compiled look at a round against its plain definition, and what counts as a copy."""

import numpy as np
import pytest

from foltr.components.aggregators import gated as gating
from foltr.core.compiled import using
from foltr.core.seeds import stream
from foltr.kernels import rules as kernel
from foltr.simulation.engines.twins import KERNELS

BOUNDS = (0.9, 4.0, 2.0, 2.5)


def drawn(n, d, t, kind):
    u = stream(1, "updates", n, d, t).normals(n * d).reshape(n, d)
    if kind == "shifted":
        u[: n // 3] += 1.0
    elif kind == "sparse":
        u[stream(1, "who", n, t).uniforms(n) < 0.6] = 0.0
        u[:, 0] = 0.0
    elif kind == "shouting":
        u[: n // 3] *= 1e6
    elif kind == "nothing":
        u[:] = 0.0
    elif kind == "copies":
        u[: max(0, (n - 1) // 2)] = u[0]
    return u


@pytest.mark.parametrize("kind", ["plain", "shifted", "sparse", "shouting", "nothing", "copies"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 2), (3, 1), (10, 46), (17, 5), (64, 9)])
def test_the_kernel_does_what_the_definition_says(n, d, dtype, kind):
    plain, compiled = ((np.zeros((n, d)), np.zeros((n, 4)), np.zeros(d + 2)) for _ in range(2))
    for t in range(12):
        updates = drawn(n, d, t, kind).astype(dtype)
        single = ~gating.copies(updates)
        one = gating.look(updates, single, BOUNDS, *plain)
        with using(KERNELS):
            two = gating.look(updates, single, BOUNDS, *compiled)
        np.testing.assert_array_equal(one, two)
        for a, b in zip(plain, compiled, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(a).max()))


def test_both_know_the_columns_by_the_same_numbers():
    for name in ("WEIGHT", "SQUARES", "ENERGY", "SCORE", "FLOOR"):
        assert getattr(gating, name) == getattr(kernel, name)


def test_copies_are_equal_rows_other_than_nothing():
    a, b, c, zero = [1.0, 2.0], [1.0, 2.5], [3.0, 0.0], [0.0, 0.0]

    def found(*rows):
        return np.flatnonzero(gating.copies(np.array(rows, np.float32))).tolist()

    assert found(a, b, c) == []
    assert found(a, b, c, a, zero, zero) == [0, 3]
    assert found(a, b, c, a, zero, zero, b) == [0, 1, 3, 6]  # two pairs are no majority
    assert found(a, a, a, b, c, zero, [9.0, 9.0]) == [0, 1, 2]
    assert found(a, a, a, b, c, zero) == [0, 1, 2]  # half
    assert found(a, a, a, a, b, b, zero) == []  # it is the majority that agrees
    assert found(a, a) == [] and found(a) == [] and found(zero, zero, zero) == []
