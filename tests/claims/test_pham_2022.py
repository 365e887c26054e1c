"""Pham (2022), Table 4 in kind, on real data: what one message of FPDGD gives away, and what noise
that holds, or a secure sum, leaves of it. Heavy: `pytest -m claims -s`, with FOLTR_DATA set.

The report has MQ2007 and MSLR-WEB10K; here are MQ2008 (five folds) and a sample of MSLR. Its rows
between "random" and least squares compare documents in different orders, and cannot be met."""

import numpy as np
import pytest

from foltr.components.users.cascade import Cascade
from foltr.experiment import Experiment
from foltr.simulation.audits.labels import (
    ABSENT,
    MEASURES,
    OTHERS_NORMAL,
    OTHERS_TOO,
    SETS_ABSENT,
    infer_labels,
)
from foltr.simulation.audits.noise import guarantee, message, summed
from foltr.simulation.audits.searches import searches

pytestmark = pytest.mark.claims

KINDS = ("perfect", "navigational", "informational")
# least squares, perfect clicks, on MQ2007 and on MSLR-WEB10K
PUBLISHED = {"MQ2008": (0.88, 0.80, 0.93), "MSLR": (0.88, 0.75, 0.94)}
GAMMA = "GammaShares(epsilon=1.2, sensitivity=3.0, clip='full')"
LAPLACE = "Laplace(epsilon=1.2, clip=1.0)"
SIMPLER = ("random 3", "random 4", "higher score", "higher probability", "higher distance count")
SUMS = tuple(map(summed, (2, 5, 10, 100)))


def experiments(name, pairs, privacy):
    """Pham's Table 2; trained under perfect clicks with the same privatizer."""
    common = {
        "users": "Cascade(kind='perfect')",
        "clients": 1000,
        "privacy": privacy,
        "evaluate_every": 100,
    }
    if name == "MSLR":
        data = "Letor(path='MSLR-sample', normalize=True)"
        return [
            Experiment(
                data=data, learner=f"PDGD(sessions=2, pairs={pairs!r})", rounds=100, **common
            )
        ]
    learner = f"PDGD(sessions=4, pairs={pairs!r})"
    return [
        Experiment(data=f"MQ2008(fold={fold})", learner=learner, rounds=200, **common)
        for fold in range(1, 6)
    ]


def table(name, pairs, privacy, views=(), kinds=KINDS):
    """(clicks, view, attack) -> means of the measures over queries, then over folds."""
    found, guarantees = {}, {}
    for e in experiments(name, pairs, privacy):
        params = e.run(threads=2).params.astype(np.float32)
        held_out = e.data.load("vali")
        for kind in kinds:
            made = searches(e, params, Cascade(kind), held_out, 500)
            for row in infer_labels(
                e, params, made, (message(e.cohort), *views), 1e-5, lambda *_: None
            ):
                values = [row.measures[measure].mean for measure in MEASURES]
                found.setdefault((kind, row.view, row.attack), []).append(values)
                guarantees[row.view] = row.guarantee.epsilon
    means = {place: np.nanmean(values, axis=0) for place, values in found.items()}
    print(f"\n{name}, {pairs} pairs, {privacy}")
    for (kind, view, attack), values in means.items():
        numbers = "  ".join(f"{value:.3f}" for value in values)
        print(
            f"  {kind:<13}  {view!s:<14}  {attack:<32}  {numbers}"
            f"  guaranteed {guarantees[view]:.4g}"
        )
    return means


@pytest.fixture(scope="module")
def tables(real_data):
    kept = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOLTR_DATA", str(real_data))

        def of(*setting, **more):
            if setting not in kept:
                kept[setting] = table(*setting, **more)
            return kept[setting]

        yield of


def attacked(means, kind, attack, view=None):
    view = view or message(1000)
    return means[kind, view, attack]


@pytest.mark.parametrize("name", PUBLISHED)
def test_least_squares_is_near_print_and_far_above_the_reports_other_attacks(tables, name):
    means = tables(name, "shown", GAMMA)
    for value, published in zip(
        attacked(means, "perfect", "least squares"), PUBLISHED[name], strict=False
    ):
        assert abs(value - published) <= 0.04
    for kind in KINDS:
        ours = attacked(means, kind, "least squares")[0]
        assert ours > 0.8
        assert all(ours > attacked(means, kind, other)[0] + 0.08 for other in SIMPLER)


@pytest.mark.parametrize("name", PUBLISHED)
def test_of_the_reports_other_attacks_none_is_the_best(tables, name):
    """In print "higher probability" has a higher accuracy and precision than "higher distance
    count", and a lower recall, under all three kinds of clicks. Here its precision is higher, and
    its accuracy is not."""
    means = tables(name, "shown", GAMMA)
    for kind in KINDS:
        by_count = attacked(means, kind, "higher distance count")
        by_probability = attacked(means, kind, "higher probability")
        assert -0.005 < by_count[0] - by_probability[0] < 0.05  # accuracy
        assert by_probability[1] > by_count[1] + 0.005  # precision


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("pairs", ["shown", "examined"])
def test_an_attacker_who_knows_pdgd_recovers_all_clicks_from_a_message(tables, name, pairs):
    """Of a thousand gamma shares one is nearly nothing in nearly all numbers: what is left of the
    noise is no hindrance to regression that does not mind a few outliers, nor to a search over the
    sets of clicks."""
    means = tables(name, pairs, GAMMA)
    for kind in KINDS:
        assert attacked(means, kind, "least deviations, weights known")[0] > 0.97
        assert attacked(means, kind, "all click sets of PDGD")[0] > 0.985
        assert attacked(means, kind, "all click sets of PDGD")[3] > 0.985


@pytest.mark.parametrize("outside", [False, True])
def test_where_the_ball_bites_the_weights_bring_clicks_back(real_data, monkeypatch, outside):
    """No noise. A ball that training keeps the weights in bends plain least squares a little;
    weights that are outside, as the noise of few clients leaves them, are scaled back in the first
    session, and then it finds nothing."""
    monkeypatch.setenv("FOLTR_DATA", str(real_data))
    e = Experiment(
        data="MQ2008()", learner="PDGD(pairs='shown', max_norm=0.3)", clients=1000, rounds=200
    )
    params = e.run(threads=2).params.astype(np.float32) * (10.0 if outside else 1.0)
    made = searches(e, params, e.users, e.data.load("vali"), 500)
    found = infer_labels(e, params, made, (message(1000),), 1e-5, lambda *_: None)
    rows = {row.attack: row.measures["AUC"].mean for row in found}
    print(f"\nweights {'outside' if outside else 'inside'}: {rows}")
    assert rows["least squares"] < (0.65 if outside else 0.98)
    assert (
        min(rows[f"{how}, weights known"] for how in ("least squares", "least deviations")) > 0.985
    )
    assert rows["all click sets of PDGD"] > 0.995


@pytest.mark.parametrize("name", PUBLISHED)
def test_laplace_noise_on_each_message_hides_clicks(tables, name):
    means = tables(name, "shown", LAPLACE)
    for kind in KINDS:
        for attack in (
            "least squares",
            "least deviations, weights known",
            "all click sets of PDGD",
        ):
            assert abs(attacked(means, kind, attack)[3] - 0.5) < 0.12


@pytest.mark.parametrize("name", PUBLISHED)
def test_gamma_shares_behind_a_secure_sum_hide_clicks(tables, name):
    means = tables(name, "shown", GAMMA, SUMS, kinds=("perfect",))
    for view in SUMS:
        for attack in (
            "least squares",
            "least squares, weights known",
            ABSENT,
            OTHERS_NORMAL,
            SETS_ABSENT,
        ):
            assert abs(attacked(means, "perfect", attack, view)[3] - 0.5) < 0.14


def test_a_secure_sum_without_noise_hides_clicks_from_least_squares_when_many_take_part(tables):
    means = tables("MQ2008", "shown", None, SUMS, kinds=("perfect",))
    two, five, ten, hundred = (attacked(means, "perfect", "least squares", view) for view in SUMS)
    assert two[0] > 0.95 and two[3] > 0.98
    assert two[3] > five[3] > ten[3] > hundred[3] and hundred[3] < 0.7
    # not just what users in general click
    assert hundred[3] > attacked(means, "perfect", ABSENT, SUMS[3])[3] + 0.04


def test_a_secure_sum_without_noise_hides_nothing_of_ten_from_who_tries_click_sets(tables):
    """50 and 100 documents, 46 weights. Of a hundred clients something is left to find."""
    means = tables("MQ2008", "shown", None, SUMS, kinds=("perfect",))
    two, five, ten, hundred = (attacked(means, "perfect", OTHERS_NORMAL, view) for view in SUMS)
    assert two[0] > 0.99 and five[0] > 0.99 and 0.92 < ten[3] < 0.97 and hundred[3] > 0.64
    assert all(attacked(means, "perfect", OTHERS_TOO, view)[3] > 0.99 for view in SUMS[:3])
    assert attacked(means, "perfect", OTHERS_TOO, SUMS[2])[0] > 0.98
    absent = [attacked(means, "perfect", SETS_ABSENT, view)[3] for view in SUMS]
    assert max(absent) < 0.6 and hundred[3] > absent[3] + 0.05


def test_the_ledger_says_which_is_which():
    from foltr.components.privatizers.gamma_shares import GammaShares
    from foltr.components.privatizers.laplace import Laplace

    shares, laplace = GammaShares(1.2, 3.0, "full"), Laplace(1.2, 1.0)
    assert guarantee(shares, message(1000), 46, 1e-5).epsilon == np.inf
    assert 13.0 < guarantee(shares, summed(100), 46, 1e-5).epsilon < 16.3
    assert guarantee(laplace, message(1000), 46, 1e-5).epsilon == 1.2
