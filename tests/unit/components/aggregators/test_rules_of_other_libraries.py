"""Robust rules against those of Flower and ByzFL, where they are defined alike. ByzFL brings
PyTorch: but for some numbers that it gave, its tests are run by `pytest -m tools` (`pip install
byzfl`).

Where they differ: both sum squared distances in Krum (our `squared=True`). ByzFL's Krum counts n -
m - 1 neighbours, which is ours for m - 1; its Multi-Krum counts so too but keeps n - m, which is
no setting of ours; its geometric median starts at 0, ours at the median (both get to the same
point). Neither has DnC or FLTrust, and ByzFL draws its buckets from NumPy's global state."""

import numpy as np
import pytest

from foltr.components.aggregators.bulyan import Bulyan
from foltr.components.aggregators.centered_clipping import CenteredClipping
from foltr.components.aggregators.geometric_median import GeometricMedian
from foltr.components.aggregators.krum import Krum, MultiKrum
from foltr.components.aggregators.median import Median
from foltr.components.aggregators.nnm import NNM
from foltr.components.aggregators.trimmed_mean import TrimmedMean
from foltr.core import Cohort
from foltr.core.seeds import stream

pytestmark = pytest.mark.usefixtures("both_ways")

CASES = [
    (n, m, seed) for n, m in ((7, 1), (10, 1), (11, 2), (23, 5), (40, 3)) for seed in range(4)
]


@pytest.fixture(scope="module")
def flower():
    return pytest.importorskip("flwr.server.strategy.aggregate", reason="needs foltr[deploy]")


@pytest.fixture(scope="module")
def byzfl():
    import byzfl

    return byzfl


def made(n, m, seed, weights=None):
    """m clients far off, in float64, which is what the libraries compute in."""
    updates = stream(seed, "libraries", n).normals(n * 12).reshape(n, 12)
    updates[-m:] = 5.0 * updates[-m:] + 3.0
    return Cohort(np.arange(n), updates, np.ones(n) if weights is None else weights)


def results(c):
    """As Flower has them: layers and a number of examples per client."""
    return [
        ([u[:5].copy(), u[5:].reshape(7, 1)], int(w))
        for u, w in zip(c.updates, c.weights, strict=True)
    ]


def flat(layers):
    return np.concatenate([np.ravel(layer) for layer in layers])


def ours(rule, c):
    return rule(c, rule.init(c.updates.shape[1]), stream(0))[0]


def test_flowers_krum_and_multi_krum(flower):
    for n, m, seed in CASES:
        c = made(n, m, seed, 1.0 + np.arange(n) % 3)
        theirs = flower.aggregate_krum(results(c), m, 0)
        np.testing.assert_array_equal(ours(Krum(malicious=m, squared=True), c), flat(theirs))
        theirs = flower.aggregate_krum(results(c), m, n - m)
        np.testing.assert_allclose(
            ours(MultiKrum(malicious=m, squared=True), c), flat(theirs), rtol=1e-12
        )


def test_flowers_median_trimmed_mean_and_bulyan(flower):
    for n, m, seed in CASES:
        c = made(n, m, seed)
        np.testing.assert_allclose(
            ours(Median(), c), flat(flower.aggregate_median(results(c))), rtol=1e-12
        )
        cut = (m + 0.5) / n  # which it rounds down to m clients
        theirs = flower.aggregate_trimmed_avg(results(c), cut)
        np.testing.assert_allclose(ours(TrimmedMean(malicious=m), c), flat(theirs), rtol=1e-12)
        theirs = flower.aggregate_bulyan(results(c), m, flower.aggregate_krum, to_keep=0)
        np.testing.assert_allclose(ours(Bulyan(malicious=m), c), flat(theirs), rtol=1e-12)


@pytest.mark.tools
def test_byzfls_krum_median_and_trimmed_mean(byzfl):
    for n, m, seed in CASES:
        c = made(n, m, seed)
        np.testing.assert_array_equal(
            ours(Krum(malicious=m - 1, squared=True), c), byzfl.Krum(m)(c.updates)
        )
        np.testing.assert_allclose(ours(Median(), c), byzfl.Median()(c.updates), rtol=1e-12)
        np.testing.assert_allclose(
            ours(TrimmedMean(malicious=m), c), byzfl.TrMean(m)(c.updates), rtol=1e-12
        )


@pytest.mark.tools
def test_byzfls_geometric_median_and_centred_clipping(byzfl):
    for n, m, seed in CASES:
        c = made(n, m, seed)
        theirs = byzfl.GeometricMedian(nu=1e-9, T=2000)(c.updates)
        np.testing.assert_allclose(ours(GeometricMedian(2000, 1e-9), c), theirs, atol=1e-7)
        rule, other, memory = (
            CenteredClipping(2.0, 3),
            byzfl.CenteredClipping(L=3, tau=2.0),
            (np.zeros(12),),
        )
        for t in range(3):
            c = made(n, m, 100 + 10 * seed + t)
            direction, memory = rule(c, memory, stream(0))
            np.testing.assert_allclose(direction, other(c.updates), rtol=1e-12)


@pytest.mark.tools
def test_byzfls_nearest_neighbour_mixing(byzfl):
    for n, m, seed in CASES:
        c = made(n, m, seed)
        for rule in (Median(), TrimmedMean(malicious=m)):
            mixed = c.sending(byzfl.NNM(m)(c.updates))
            np.testing.assert_allclose(
                ours(NNM(rule=rule, malicious=m), c), ours(rule, mixed), rtol=1e-12
            )


@pytest.mark.parametrize(
    ("rule", "given"),
    # the first three of twelve numbers that flwr 1.41.0 and, from the geometric median on, byzfl
    # 0.0.11 gave
    [
        (Krum(malicious=2, squared=True), [0.843702946983, -0.643274655807, -0.044023668781]),
        (MultiKrum(malicious=2, squared=True), [0.327562155902, -0.021581833075, -0.087559531446]),
        (TrimmedMean(malicious=2), [0.378004429779, 0.019505253083, 0.325053560778]),
        (Median(), [0.478821993915, -0.182900862157, 0.153652542666]),
        (Bulyan(malicious=2), [0.981605949112, -0.287909378378, -0.07909645935]),
        (GeometricMedian(2000, 1e-9), [0.381936983304, -0.11753288188, 0.095887969772]),
        (CenteredClipping(2.0, 3), [0.333040187717, -0.090621481592, 0.095504625515]),
        (NNM(rule=Median(), malicious=2), [0.327562155902, -0.021581833075, -0.087559531446]),
    ],
    ids=repr,
)
def test_what_they_gave(rule, given):
    np.testing.assert_allclose(ours(rule, made(11, 2, 0))[:3], given, rtol=0, atol=1e-8)
