"""What robust rules guarantee whatever is sent, which numbers of clients they refuse, and what
they say of others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from foltr.components.aggregators.bucketing import Bucketing
from foltr.components.aggregators.bulyan import Bulyan
from foltr.components.aggregators.centered_clipping import CenteredClipping
from foltr.components.aggregators.dnc import DnC
from foltr.components.aggregators.fltrust import FLTrust
from foltr.components.aggregators.geometric_median import GeometricMedian
from foltr.components.aggregators.krum import Krum, MultiKrum
from foltr.components.aggregators.mean import Mean
from foltr.components.aggregators.median import Median
from foltr.components.aggregators.nnm import NNM
from foltr.components.aggregators.trimmed_mean import TrimmedMean
from foltr.core import Cohort, Withheld
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import aggregators
from property_settings import examples

pytestmark = pytest.mark.usefixtures("both_ways")

TWO = [  # rules that assume two attackers, for cohorts of eleven
    Krum(malicious=2),
    Krum(malicious=2, squared=True),
    MultiKrum(malicious=2),
    TrimmedMean(malicious=2),
    Median(),
    Bulyan(malicious=2),
    GeometricMedian(),
    DnC(malicious=2),
    NNM(rule=Krum(malicious=2), malicious=2),
    NNM(rule=TrimmedMean(malicious=2), malicious=2),
    Bucketing(rule=Median(), size=2),
]
OTHERS = [
    CenteredClipping(radius=0.5, iterations=3),
    FLTrust(),
    Bucketing(rule=CenteredClipping(), size=3),
]


def cohort(updates, weights=None, trusted=None):
    updates = np.array(updates, np.float32)
    weights = np.ones(len(updates)) if weights is None else np.array(weights, float)
    return Cohort(np.arange(len(updates)), updates, weights, trusted=trusted)


def direction_of(rule, c, seed=0):
    return rule(c, rule.init(c.updates.shape[1]), stream(seed, "rule"))[0]


def normals(n, d, *address):
    return stream(3, *address).normals(n * d).reshape(n, d).astype(np.float32)


quarters = st.integers(-400, 400).map(lambda i: i / 4)  # exact in float32, and so are their sums
huge = st.sampled_from(np.array([-3e38, -1e30, -1e9, 0, 1e9, 1e30, 3e38], np.float32).tolist())
honest = arrays(np.float32, (9, 3), elements=quarters)
sent = arrays(np.float32, (2, 3), elements=huge)


def mixed(ours, theirs, order):
    return cohort(np.concatenate([ours, theirs])[order])


@pytest.mark.parametrize("rule", [*TWO, *OTHERS], ids=repr)
@given(updates=arrays(np.float32, (11, 3), elements=quarters), order=st.permutations(range(11)))
@examples(30)
def test_the_order_in_which_messages_arrive_changes_no_bit(rule, updates, order):
    """Even where many updates are equal or equally far, so that ties decide."""
    c = cohort(updates, weights=np.arange(1, 12), trusted=np.array([1.0, -2.0, 0.5], np.float32))
    assert direction_of(rule, c.only(np.array(order))).tobytes() == direction_of(rule, c).tobytes()


@pytest.mark.parametrize("rule", TWO, ids=repr)
def test_moving_all_clients_moves_the_direction(rule):
    updates = normals(11, 6, "shift").astype(np.float64)
    shift = np.array([3.0, -2.0, 0.5, 0.0, 8.0, -7.0])
    c, moved = (Cohort(np.arange(11), u, np.ones(11)) for u in (updates, updates + shift))
    np.testing.assert_allclose(direction_of(rule, moved), direction_of(rule, c) + shift, atol=1e-5)


@pytest.mark.parametrize("rule", [rule for rule in TWO if rule != GeometricMedian()], ids=repr)
def test_longer_updates_give_a_longer_direction(rule):
    """All but the geometric median, whose `smoothing` is a length."""
    updates = normals(11, 6, "scale").astype(np.float64)
    c, scaled = (Cohort(np.arange(11), u, np.ones(11)) for u in (updates, -4.0 * updates))
    np.testing.assert_allclose(direction_of(rule, scaled), -4.0 * direction_of(rule, c), rtol=1e-9)


@pytest.mark.parametrize(
    "rule", [TrimmedMean(malicious=2), Median(), Bulyan(malicious=2)], ids=repr
)
@given(ours=honest, theirs=sent, order=st.permutations(range(11)))
@examples(100)
def test_two_attackers_cannot_leave_the_range_of_the_others(rule, ours, theirs, order):
    got = direction_of(rule, mixed(ours, theirs, order))
    assert (ours.min(axis=0) <= got).all() and (got <= ours.max(axis=0)).all()


@given(ours=honest, theirs=sent, order=st.permutations(range(11)), squared=st.booleans())
@examples(100)
def test_krum_follows_a_client_and_not_one_that_shouts(ours, theirs, order, squared):
    theirs = np.where(np.abs(theirs) < 1e9, 1e9, theirs)
    theirs[0] = -theirs[0]  # two that shout the same thing have at least one close neighbour
    got = direction_of(Krum(malicious=2, squared=squared), mixed(ours, theirs, order))
    assert got.tolist() in ours.astype(float).tolist()


@pytest.mark.parametrize("loud", [1e3, 1e6, 1e15, 1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("rule", TWO[:-1], ids=repr)
def test_however_loud_two_of_eleven_are(rule, loud):
    """Honest clients lie around (5, ..., 5), no farther than 0.4 in any coordinate."""
    ours = 5.0 + 0.1 * normals(9, 4, "loud")
    theirs = np.full((2, 4), loud)
    theirs[1, :2] = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        got = direction_of(rule, mixed(ours, theirs, [5, 9, 0, 1, 2, 10, 3, 4, 6, 7, 8]))
    assert np.abs(got - 5.0).max() < 0.4


@pytest.mark.parametrize("loud", [1e6, 1e30, np.inf, np.nan])
def test_centred_clipping_moves_by_the_radius_at_most(loud):
    """One of ten moves it by a tenth of the radius, whatever it sends."""
    rule, ours = CenteredClipping(radius=0.5), 0.1 * normals(10, 4, "clip")
    before, after = (
        direction_of(rule, cohort([*ours[:9], last])) for last in (np.zeros(4), np.full(4, loud))
    )
    assert np.linalg.norm(after - before) <= 0.05 + 1e-12


def test_centred_clipping_arrives_in_the_end():
    rule, memory = CenteredClipping(radius=0.5), (np.zeros(2),)
    for rounds in range(1, 21):
        direction, memory = rule(cohort([[3.0, 4.0]] * 5), memory, stream(0))
        np.testing.assert_allclose(np.linalg.norm(direction), min(5.0, 0.5 * rounds))


@pytest.mark.parametrize("loud", [1e6, 1e30, np.inf, np.nan])
def test_fltrust_is_no_longer_than_the_servers_own_update(loud):
    own = np.array([0.3, -0.1, 0.2, 0.0], np.float32)
    ours = own + 0.1 * normals(9, 4, "trust")
    with np.errstate(over="ignore", invalid="ignore"):
        got = direction_of(FLTrust(), cohort([*ours, np.full(4, loud)], trusted=own))
    assert 0.0 < np.linalg.norm(got) <= np.linalg.norm(own) * (1 + 1e-12)


def test_fltrust_needs_somebody_to_trust():
    assert (
        FLTrust(queries=7).trusted_queries == 7
        and NNM(rule=FLTrust(queries=3)).trusted_queries == 3
    )
    with pytest.raises(Mistake, match="server trusts"):
        direction_of(FLTrust(), cohort(normals(4, 3)))


def test_the_geometric_median_is_one():
    """No point nearby has a smaller weighted sum of distances; its gradient is 0."""
    updates, weights = normals(30, 5, "geometric"), 1.0 + np.arange(30) % 4
    z = direction_of(GeometricMedian(iterations=1000, smoothing=1e-12), cohort(updates, weights))
    away = updates - z
    gradient = (weights[:, None] * away / np.linalg.norm(away, axis=1)[:, None]).sum(axis=0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8 * weights.sum())


def test_the_geometric_median_of_heavy_clients_against_many_attackers():
    """Four of weight 1 at a million, three of weight 2 around 0. From there the distance to the
    former is a constant minus <z, e>, e the direction to them: what is left is minimised by
    SciPy."""
    ours, e = (0.1 * normals(3, 5, "heavy")).astype(float), np.full(5, 5**-0.5)
    c = cohort([*np.full((4, 5), 1e6), *ours], weights=[1, 1, 1, 1, 2, 2, 2])

    def left(z):
        return 2.0 * np.sqrt(np.square(ours - z).sum(axis=1) + 1e-14).sum() - 4.0 * (z @ e)

    best = min(
        (minimize(left, start, method="BFGS") for start in (*ours, ours.mean(axis=0))),
        key=lambda r: r.fun,
    )
    np.testing.assert_allclose(direction_of(GeometricMedian(), c), best.x, atol=1e-4)


def test_dnc_draws_coordinates_by_address_and_drops_more_with_more_iterations():
    updates = normals(20, 30, "dnc")
    c = cohort(updates)
    few = DnC(malicious=3, coordinates=5)
    assert (
        direction_of(few, c, 1).tolist()
        == direction_of(few, c, 1).tolist()
        != direction_of(few, c, 2).tolist()
    )
    kept = []
    for iterations in (1, 4):  # the updates are independent: the direction tells who is in it
        direction = direction_of(DnC(malicious=3, coordinates=5, iterations=iterations), c)
        shares = np.linalg.lstsq(updates.T.astype(float), direction, rcond=None)[0]
        kept.append({i for i, share in enumerate(shares) if share > 1e-6})
        np.testing.assert_allclose(shares[sorted(kept[-1])], 1 / len(kept[-1]), rtol=1e-5)
    assert len(kept[0]) == 17 and 8 <= len(kept[1]) < 17 and kept[1] < kept[0]


def test_mixing_brings_honest_clients_together():
    """Half of the distance that two groups of honest clients have goes away, and so does Krum's
    bias to one of them."""
    groups = np.concatenate([np.full((5, 2), -1.0), np.full((6, 2), 1.0)]) + 0.01 * normals(
        11, 2, "groups"
    )
    bare, after = (
        abs(direction_of(r, cohort(groups))).max()
        for r in (Krum(malicious=1), NNM(Krum(malicious=1), 1))
    )
    assert bare > 0.9 and after < 0.3


BOUNDS = [  # rule, the most clients that it refuses, what the refusal says
    (Krum(malicious=8), 10, "n > m + 2, at least 11 clients in a round: here n = 10"),
    (MultiKrum(malicious=0), 2, "n > m + 2, at least 3"),
    (TrimmedMean(malicious=5), 10, "n > 2m, at least 11"),
    (Bulyan(malicious=2), 10, "n >= 4m + 3, at least 11"),
    (
        DnC(malicious=2, strictness=1.5, iterations=3),
        9,
        "n > iterations x ceil(strictness x m), at least 10",
    ),
    (NNM(rule=Median(), malicious=4), 4, "n > m, at least 5"),
    (NNM(rule=Bulyan(malicious=2), malicious=2), 10, "n >= 4m + 3, at least 11"),
    (Bucketing(rule=Krum(malicious=2), size=3), 12, "makes 4 buckets of 12 clients: Krum"),
    (
        NNM(rule=Bucketing(rule=TrimmedMean(malicious=1), size=2), malicious=1),
        4,
        "makes 2 buckets of 4 clients",
    ),
]


@pytest.mark.parametrize(
    ("rule", "refused", "told"), BOUNDS, ids=lambda v: repr(v) if not isinstance(v, int) else ""
)
def test_too_few_clients_are_refused_and_too_few_messages_withheld(rule, refused, told):
    for n in range(1, refused + 1):
        with pytest.raises(Mistake) as mistake:
            rule.fits(n)
        with pytest.raises(Withheld):
            direction_of(rule, cohort(normals(n, 3)))
    assert told in str(mistake.value)
    rule.fits(refused + 1)
    assert np.isfinite(direction_of(rule, cohort(normals(refused + 1, 3)))).all()


def test_what_lies_outside_a_proof_is_noted():
    assert Krum(malicious=4).fits(10) == (
        "Krum's proof needs n > 2m + 2 = 10: here n = 10, m = 4",
    )
    assert Krum(malicious=4).fits(11) == () == Krum(malicious=3).fits(10)
    assert MultiKrum(malicious=4).fits(10) == (
        "Multi-Krum's proof needs n > 2m + 2 = 10: here n = 10, m = 4",
    )
    assert DnC(malicious=5).fits(10) == ("DnC assumes n > 2m = 10: here n = 10, m = 5",)
    assert NNM(rule=Krum(malicious=4), malicious=5).fits(10) == (
        "NNM's proof needs n > 2m = 10: here n = 10, m = 5",
        "Krum's proof needs n > 2m + 2 = 10: here n = 10, m = 4",
    )
    assert Bucketing(rule=Krum(malicious=2), size=2).fits(10) == (
        "Bucketing(rule=Krum(malicious=2, squared=False), size=2) makes 5 buckets of 10 clients: "
        "Krum's proof needs n > 2m + 2 = 6: here n = 5, m = 2",
    )
    for quiet in (
        TrimmedMean(malicious=4),
        Median(),
        GeometricMedian(),
        CenteredClipping(),
        FLTrust(),
        Mean(),
    ):
        assert quiet.fits(10) == ()


@pytest.mark.parametrize(
    "spec",
    [
        "Krum(malicious=-1)",
        "MultiKrum(malicious=-1)",
        "TrimmedMean(malicious=-1)",
        "Bulyan(malicious=-2)",
        "DnC(strictness=0)",
        "DnC(coordinates=0)",
        "DnC(iterations=0)",
        "GeometricMedian(smoothing=0)",
        "GeometricMedian(iterations=0)",
        "CenteredClipping(radius=0)",
        "CenteredClipping(iterations=0)",
        "FLTrust(queries=0)",
        "NNM(malicious=-1)",
        "Bucketing(size=0)",
        "Bucketing(rule=SGD())",
        "Krum(malicious=1.5)",
    ],
)
def test_impossible_settings_are_refused(spec):
    with pytest.raises(Mistake):
        aggregators.build(spec)


def test_a_rule_inside_a_rule_is_a_spec():
    spec = (
        "NNM(rule=Bucketing(rule=CenteredClipping(radius=2, iterations=1), size=3), malicious=2)"
    )
    rule = aggregators.build(spec)
    assert rule.rule.rule == CenteredClipping(radius=2.0) and aggregators.build(repr(rule)) == rule
    assert not rule.keeps_agreement and rule.trusted_queries == 0 and rule.looks_at == "rows"
    c = cohort(normals(9, 4))
    _, memory = rule(c, rule.init(4), stream(0))
    assert memory[0].shape == (4,) and memory[0].any()
