"""What is tested against what, what is refused and why, and what is said of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import KINDS, luck, made_run, made_runs
from scipy import stats

from foltr.core.errors import Mistake
from foltr.report.captions import caption
from foltr.report.matrix import matrix
from foltr.report.measures import measured
from foltr.report.measures import value as value_of
from foltr.report.statistics import expanded_interval, paired_t
from foltr.report.study import study
from foltr.simulation.runs.columns import usual_columns
from property_settings import examples

OF = "Data: MQ2008. Queries without a relevant document are skipped."


def value(clients, kind, fold, seed):
    """Folds differ much, methods little: only a paired test sees it."""
    gain = {1: 0.0, 10: 0.004, 100: -0.004, 1000: 0.0}[clients]
    return 0.4 + 0.05 * fold + gain + 0.001 * luck(clients, kind, fold, seed)


def grid(clients=(1, 10, 100), kinds=KINDS, folds=(1, 2, 3), seeds=(1, 2), **more):
    return [
        made_run(
            value(c, k, f, s),
            clients=c,
            users=f"Cascade(kind='{k}')",
            data=f"MQ2008(fold={f})",
            seed=s,
            **more,
        )
        for c in clients
        for k in kinds
        for f in folds
        for s in seeds
    ]


def of(runs, measure="ndcg@10", **more):
    return matrix(study(made_runs(runs)), measure, **more)


def without(runs, **fields):
    names = {name.replace("_", "."): value for name, value in fields.items()}
    return [
        run for run in runs if not all(run.fields[name] == value for name, value in names.items())
    ]


def changed(runs, test, **more):
    """Runs of which those that pass `test` are changed."""
    return [
        (
            replace(run, **{name: {**getattr(run, name), **its} for name, its in more.items()})
            if test(run)
            else run
        )
        for run in runs
    ]


def test_every_number():
    found = of(grid())
    assert found.family == 6 and found.measure == "ndcg@10" and len(found.entries) == 9
    cells = {
        (i, j): np.array([value(c, k, f, s) for f in (1, 2, 3) for s in (1, 2)])
        for i, c in enumerate((1, 10, 100))
        for j, k in enumerate(KINDS)
    }
    for (i, j), entry in found.entries.items():
        own, base = cells[i, j], cells[0, j]
        assert (entry.n, entry.mean, entry.sd) == (
            6,
            pytest.approx(own.mean()),
            pytest.approx(own.std(ddof=1)),
        )
        assert entry.interval == expanded_interval(own)
        assert entry.refused == ""
        if i == 0:
            assert (
                entry.test is entry.over_data is None
                and entry.corrected is None
                and entry.mark == ""
            )
        else:
            assert entry.test == paired_t(own, base)
            assert entry.corrected == pytest.approx(
                min(1.0, 6 * stats.ttest_rel(own, base).pvalue), rel=1e-12
            )
            again = stats.ttest_1samp((own - base).reshape(3, 2).mean(axis=1), 0.0)  # over folds
            assert (entry.over_data.n, entry.over_data.t) == (
                3,
                pytest.approx(again.statistic, rel=1e-9),
            )
            assert entry.corrected_data == pytest.approx(min(1.0, 6 * again.pvalue), rel=1e-9)
            remains = 6 * again.pvalue < 0.05
            assert entry.mark == (
                ("▲" if i == 1 else "▼") if remains else ("△" if i == 1 else "▽")
            )
        assert entry.best == (i == 1)


def named(found):
    """The entries of a matrix by the names of their methods and conditions."""
    methods, conditions = found.study.methods, found.study.conditions
    return {
        (methods[i].label, conditions[j].label): entry for (i, j), entry in found.entries.items()
    }


@examples(20)
@given(st.permutations(range(1, 36)))
def test_pairs_are_found_by_name_and_the_order_of_runs_changes_no_bit(order):
    runs = grid(clients=(1, 10))
    shuffled = [runs[0], *(runs[i] for i in order)]  # the first run's method is the baseline
    assert named(of(shuffled)) == named(of(runs))


def test_any_baseline():
    found = matrix(study(made_runs(grid()), baseline="clients=100"), "ndcg@10")
    assert [found.entries[i, 0].mark for i in range(3)] == ["△", "▲", ""]
    assert "the baseline (clients=100)" in caption(found)


def test_the_correction_decides():
    """One p of about 0.013: significant alone, and not among six comparisons."""
    a, b = [0.50, 0.52, 0.51, 0.53, 0.55, 0.51], [0.49, 0.50, 0.51, 0.51, 0.52, 0.50]
    runs = [made_run(v, clients=c, seed=s) for c, vs in ((1, b), (2, a)) for s, v in enumerate(vs)]
    alone = of(runs).entries[1, 0]
    assert 0.01 < alone.test.p < 0.02 and alone.corrected == alone.test.p and alone.mark == "▲"
    more = [made_run(v, clients=c, seed=s) for c in range(3, 8) for s, v in enumerate(b)]
    among = of(runs + more)
    assert among.family == 6 and among.entries[1, 0].corrected == 6 * alone.test.p
    assert among.entries[1, 0].mark == "" and of(runs + more, alpha=0.2).entries[1, 0].mark == "▲"
    assert among.entries[2, 0].test.p == 1.0  # equal to the baseline, run by run


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (
            {"clients": 1, "data_fold": 3, "seed": 2},
            "not paired: the baseline lacks data.fold=3, seed=2",
        ),
        (
            {"clients": 10, "data_fold": 3, "seed": 2},
            "not paired: clients=10 lacks data.fold=3, seed=2",
        ),
        (
            {"clients": 1, "data_fold": 2},
            "not paired: the baseline lacks data.fold=2, seed=1 (and 1 more)",
        ),
    ],
)
def test_a_missing_run_is_named(gone, reason):
    found = of(without(grid(clients=(1, 10)), **gone))
    for j in range(3):
        entry = found.entries[1, j]
        assert (
            entry.refused == reason
            and entry.test is None
            and entry.corrected is None
            and entry.mark == ""
        )
        assert entry.mean > 0.4  # it has its number all the same
    assert found.family == 3  # as asked for


def test_runs_missing_on_both_sides():
    runs = without(
        without(grid(clients=(1, 10)), clients=1, seed=1, data_fold=2), clients=10, seed=2
    )
    assert (
        of(runs).entries[1, 0].refused
        == "not paired: the baseline lacks data.fold=2, seed=1; clients=10 lacks data.fold=1,"
        " seed=2 (and 2 more)"
    )


def test_a_condition_without_the_baseline():
    perfect = "Cascade(kind='perfect')"
    runs = [
        run
        for run in grid()
        if not (run.config["clients"] == 1 and run.config["users"] == perfect)
    ]
    found = matrix(study(made_runs(runs), baseline="clients=1"), "ndcg@10")
    at = [c.label for c in found.study.conditions].index("perfect")
    base = found.study.baseline
    assert (base, at) not in found.entries
    refusals = {found.entries[i, at].refused for i in range(3) if i != base}
    assert refusals == {"not paired: the baseline has no run in this condition"}
    assert found.family == 6 and "of which 2 could not be made" in caption(found)


@pytest.mark.parametrize("undefined", [None, math.nan, math.inf, "0.5", True])
def test_an_undefined_value_counts_as_missing(undefined):
    runs = grid(clients=(1, 10), kinds=KINDS[:1])
    hole = changed(runs, lambda run: run.config["clients"] == 10 and run.config["seed"] == 2
                   and run.fields["data.fold"] == 1, final={"ndcg@10": undefined})  # fmt: skip
    entry = of(hole).entries[1, 0]
    assert (
        entry.n == 5
        and entry.refused == "not paired: clients=10 has no value for data.fold=1, seed=2"
    )
    both = changed(runs, lambda run: run.config["seed"] == 2 and run.fields["data.fold"] == 1,
                   final={"ndcg@10": undefined})  # fmt: skip
    entry = of(both).entries[1, 0]
    assert entry.n == 5 and entry.test.n == 5 and entry.refused == ""
    assert not math.isnan(entry.mean)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"empty": "zero"}, "queries without a relevant document: 'zero', the baseline 'skip'"),
        ({"queries": 157}, "on 157 held-out queries, the baseline on 156"),
    ],
)
def test_runs_that_were_measured_in_other_ways(more, reason):
    runs = grid(clients=(1, 10))
    odd = changed(
        runs, lambda run: run.config["clients"] == 10 and run.config["seed"] == 2, final=more
    )
    entry = of(odd).entries[1, 0]
    assert (
        entry.refused == f"not measured alike: {reason} (data.fold=1, seed=2)"
        and entry.test is None
    )
    unknown = changed(
        odd, lambda run: run.config["clients"] == 1, final={"empty": None, "queries": None}
    )
    # what nobody says is not held against anybody
    assert of(unknown).entries[1, 0].test is not None


def not_alike(runs):
    """Why methods were refused, and whether any of them is said to be best."""
    found = of(runs)
    reasons = {entry.refused for entry in found.entries.values() if entry.refused}
    return reasons, any(entry.best for entry in found.entries.values())


def test_a_method_on_data_of_its_own():
    """Where a sweep's methods set a field of the data they stand in one column, but must not be
    compared."""
    runs = [
        replace(
            made_run(0.5, data=f"Mine(noise={n})", seed=s, environment={"data": {"test": n}}),
            sets=("data.noise",),
        )
        for n in (0, 1)
        for s in (1, 2)
    ]
    assert not_alike(runs) == (
        {"not measured alike: on data of other content than the baseline (seed=1)"},
        False,
    )


def test_a_method_by_another_version():
    runs = [
        made_run(0.5, clients=c, seed=s, environment={"results": c})
        for c in (1, 2)
        for s in (1, 2)
    ]
    reason = (
        "not measured alike: by a foltr of results 2, the baseline by one of results 1 (seed=1)"
    )
    assert not_alike(runs) == ({reason}, False)


def test_sums_over_rounds_need_equal_rounds():
    runs = [
        made_run(0.5 + 0.01 * luck(r, s), rounds=r, seed=s) for r in (20, 40) for s in (1, 2, 3)
    ]
    assert of(runs).entries[1, 0].test is not None
    assert (
        of(runs, "online").entries[1, 0].refused
        == "not measured alike: a sum over 40 rounds, the baseline's over 20 (seed=1)"
    )


def test_one_pair_is_too_few():
    found = of([made_run(0.5, clients=c) for c in (1, 2)])
    entry = found.entries[1, 0]
    assert entry.refused == "one pair only: a t-test needs two or more"
    assert math.isnan(entry.sd) and all(map(math.isnan, entry.interval)) and entry.n == 1
    assert caption(found) == (
        "One run in each cell. The comparison (1 method x 1 condition, this measure) with the"
        " baseline (clients=1) could not be tested: there is one pair only. "
        + OF.replace("MQ2008", "MQ2008(fold=1)")
    )
    # means they have
    assert of([made_run(0.5 + 0.1 * (c == 2), clients=c) for c in (1, 2)]).entries[1, 0].best


def test_what_a_caption_says():
    found = of(grid())
    marks = [entry.mark for entry in found.entries.values() if entry.mark]
    assert sorted(set(marks)) == ["▲", "△", "▽"] and len(marks) == 6 and marks.count("▲") == 1
    assert caption(found) == (
        "Mean and standard deviation over 6 runs that differ in data.fold and seed. Two-tailed"
        " paired t-tests against the baseline (clients=1) over 6 pairs of runs with equal"
        " data.fold and seed; Bonferroni-corrected for a family of 6 comparisons (2 methods x 3"
        " conditions, this measure); significant where corrected p < 0.05. Runs of one data.fold"
        " share its queries, so these 6 pairs are not independent, and the tests are about these"
        " splits only. Tests over the mean of each data.fold (3 pairs) are about other queries"
        " too: they confirm 1 of 6 significant differences. " + OF
    )
    fewer = of(without(grid(), users="Cascade(kind='perfect')", seed=2), alpha=0.01)
    assert "over 3 to 6 pairs" in caption(fewer) and "p < 0.01" in caption(fewer)
    assert caption(fewer).startswith(
        "Mean and standard deviation over 3 runs that differ in data.fold (perfect), over 6 runs"
        " that differ in data.fold and seed (navigational; informational)."
    )


def test_data_without_folds_are_not_said_to_vary_them():
    own = [
        made_run(0.5 + 0.01 * luck(c, s), clients=c, seed=s, data="Yahoo()")
        for c in (1, 10)
        for s in (1, 2)
    ]
    found = of(grid(clients=(1, 10), kinds=KINDS[:1]) + own)
    assert (
        "over 6 runs that differ in data.fold and seed (MQ2008), over 2 runs that differ in seed"
        " (Yahoo)." in (caption(found))
    )
    assert "over 2 to 6 pairs of runs that are equal in these fields;" in caption(
        found
    ) and "Data: MQ2008, Yahoo." in caption(found)
    assert (
        "so these 6 pairs are not independent" in caption(found)
        and found.entries[1, 1].over_data is None
    )
    gone = of(
        without(grid(clients=(1, 10), kinds=KINDS[:1]) + own, data="Yahoo()", clients=10, seed=2)
    )
    assert gone.entries[1, 1].refused == "not paired: clients=10 lacks seed=2"


def test_the_rule_for_empty_queries_is_stated_where_it_matters():
    runs = [
        made_run({"ndcg@10": 0.5, "online": 1.0, "expected_maxrr": 0.4}, seed=s, empty="one")
        for s in (1, 2)
    ]
    told = "Data: MQ2008(fold=1). Queries without a relevant document count 1."
    assert caption(of(runs)).endswith(told)
    assert caption(of(runs, "online")).endswith(
        "Data: MQ2008(fold=1)."
    ) and "relevant" not in caption(of(runs, "expected_maxrr"))
    runs += [made_run(0.5, seed=s, empty="zero") for s in (1, 2)]
    assert caption(of(runs)).endswith(
        "Queries without a relevant document count 1 or count 0, depending on the run."
    )


def test_data_are_named_shortly_where_that_is_enough():
    one = [made_run(0.5, data="Synthetic(queries=100, features=20)", seed=s) for s in (1, 2)]
    assert "Data: Synthetic. " in caption(of(one))
    two = [
        made_run(0.5, data=f"Synthetic(queries={q})", seed=s) for q in (100, 200) for s in (1, 2)
    ]
    assert "Data: Synthetic(queries=100), Synthetic(queries=200). " in caption(of(two))


def test_what_was_chosen_is_stated():
    runs = made_runs(grid(kinds=KINDS[:1])).where(**{"data.fold": 1})
    assert "Only runs with data.fold = 1." in caption(matrix(study(runs), "ndcg@10"))


def test_gaps_are_stated():
    perfect = [run for run in grid() if run.config["users"] == "Cascade(kind='perfect')"]
    gone = [run for run in grid() if run not in perfect or run.config["clients"] == 1]
    assert caption(of(gone)).endswith("The table is incomplete: 2 of 9 cells are empty.")
    assert caption(of(without(gone, clients=10, seed=1))).endswith(
        "The table is incomplete: 2 of 9 cells are empty and 2 of 9 cells lack runs that others"
        " have."
    )
    assert "incomplete" not in caption(of(grid()))


def test_one_method_is_not_tested():
    found = of(grid(clients=(1,)))
    assert found.family == 0 and "Nothing is tested: there is only one method." in caption(found)
    assert {entry.test for entry in found.entries.values()} == {None}
    assert not any(entry.best for entry in found.entries.values())


# ---- the second test: over folds


def test_seeds_of_a_fold_are_not_samples_of_their_own():
    """By hand: gains of 0.01, 0.02, 0.03 on three folds, each seen alike by four seeds but for
    +-0.001.

    Over 12 runs: mean 0.02, sum of squares 8 x 0.01^2 + 12 x 0.001^2 = 0.000812, t = 0.02 /
    sqrt(0.000812 / 11 / 12). Over folds: mean 0.02, sd 0.01, t = 0.02 / (0.01 / sqrt(3)) = 3.4641,
    p = 1 - t / sqrt(2 + t^2) = 0.0742."""
    noise = {1: 0.001, 2: -0.001, 3: 0.001, 4: -0.001}
    runs = [
        made_run(
            0.5 + (0.01 * f + noise[s]) * (c == 10), clients=c, data=f"MQ2008(fold={f})", seed=s
        )
        for c in (1, 10)
        for f in (1, 2, 3)
        for s in noise
    ]
    entry = of(runs).entries[1, 0]
    assert (
        entry.test.t == pytest.approx(0.02 / math.sqrt(0.000812 / 11 / 12))
        and entry.corrected < 1e-4
    )
    assert (entry.over_data.n, entry.over_data.sd) == (3, pytest.approx(0.01))
    assert entry.over_data.t == pytest.approx(2 * math.sqrt(3))
    assert entry.corrected_data == pytest.approx(1 - math.sqrt(12 / 14)) and entry.mark == "△"
    assert of(runs, alpha=0.1).entries[1, 0].mark == "▲"


def test_how_often_each_test_errs():
    """Methods that differ by the luck of a fold (shared by its seeds) and of a run, and not on
    average: the test over runs finds a difference far too often, that over folds in about 5 of 100
    studies."""
    rng, wrong = np.random.default_rng(1), {"runs": 0, "data": 0}
    for _ in range(300):
        gains = rng.normal(0.0, 0.02, (5, 1)) + rng.normal(0.0, 0.01, (5, 5))
        runs = [
            made_run(0.5 + (c == 10) * gains[f, s], clients=c, data=f"MQ2008(fold={f})", seed=s)
            for c in (1, 10) for f in range(5) for s in range(5)
        ]  # fmt: skip
        entry = of(runs).entries[1, 0]
        wrong["runs"] += entry.corrected < 0.05
        wrong["data"] += entry.corrected_data < 0.05
        assert (entry.mark in ("▲", "▼")) == (
            entry.corrected < 0.05 and entry.corrected_data < 0.05
        )
    assert wrong["runs"] > 90 and 5 <= wrong["data"] <= 27  # of 300: 15 expected, sd 3.8


@pytest.mark.parametrize(("folds", "seeds"), [((1, 2, 3), (1,)), ((1,), (1, 2, 3))])
def test_where_nothing_is_shared_or_everything_there_is_one_test(folds, seeds):
    found = of(grid(folds=folds, seeds=seeds))
    assert all(
        entry.over_data is None and entry.corrected_data is None
        for entry in found.entries.values()
    )
    assert {entry.mark for entry in found.entries.values()} <= {
        "",
        "▲",
        "▼",
    } and "share" not in caption(found)


# ---- the highest mean


def test_only_what_can_be_compared_competes():
    """The best fold alone would lift a mean."""
    runs = grid(kinds=KINDS[:1])
    easy = [run for run in runs if run.config["clients"] != 100 or run.fields["data.fold"] == 3]
    found = of(easy)
    assert max(found.entries, key=lambda place: found.entries[place].mean) == (2, 0)
    assert [found.entries[i, 0].best for i in range(3)] == [False, True, False]
    assert found.usual_n == 6 and [found.unusual_n(found.entries[i, 0]) for i in range(3)] == [
        "",
        "",
        "n=2",
    ]
    alone = of([run for run in easy if run.config["clients"] != 10])
    assert not any(entry.best for entry in alone.entries.values())
    gentle = changed(runs, lambda run: run.config["clients"] == 10, final={"empty": "one"})
    # measured otherwise
    assert [of(gentle).entries[i, 0].best for i in range(3)] == [True, False, False]


def test_without_the_baseline_the_first_is_what_others_must_match():
    runs = [
        run
        for run in grid()
        if not (run.config["clients"] == 1 and "perfect" in run.config["users"])
    ]
    found = matrix(study(made_runs(runs), baseline="clients=1"), "ndcg@10")
    assert (
        named(found)["clients=10", "perfect"].best
        and not named(found)["clients=100", "perfect"].best
    )


def test_equal_means_are_all_best():
    found = of([made_run(0.5, clients=c, seed=s) for c in (1, 2) for s in (1, 2)])
    assert found.entries[0, 0].best and found.entries[1, 0].best


def test_online_measures_are_means_of_the_last_rounds():
    """Of the last round alone they would be a list or a few per client."""
    run = made_run({"online_ndcg@10": 9.9, "maxrr": 9.9}, rounds=60, curve=lambda t: t / 100)
    assert value_of(run, "online_ndcg@10") == pytest.approx((0.58 + 0.59 + 0.60) / 3)
    for name in ("online_ndcg@10", "maxrr"):
        assert "last 5 % of rounds" in usual_columns()[name].label
    run.metrics.online["online_ndcg@10"][-2:] = [math.nan, math.nan]
    assert value_of(run, "online_ndcg@10") == pytest.approx(0.58)
    run.metrics.online["online_ndcg@10"][-3] = math.nan
    assert value_of(run, "online_ndcg@10") is None
    short = made_run({"online_ndcg@10": 9.9}, rounds=3, curve=lambda t: t)
    # which it does not tell
    assert value_of(short, "online_ndcg@10") == 3.0 and value_of(short, "maxrr") is None


def test_measures():
    runs = [made_run({"ndcg@10": None, "online": 3.0, "mrr@10": math.nan, "seconds": 2.0})]
    assert measured(study(made_runs(runs))) == ["online"]
    assert set(measured(study(made_runs(grid())))) == {"ndcg@10", "online"}
    with pytest.raises(Mistake, match="no run has a value of 'mrr@10': choose one of online"):
        of(runs, "mrr@10")
    with pytest.raises(Mistake, match="no measure is called 'ndgc@10': did you mean 'ndcg@10'"):
        of(runs, "ndgc@10")
    with pytest.raises(Mistake, match=r"alpha must be in \(0, 1\), got 5"):
        of(runs, "online", alpha=5)
    online, merged = {"online", "maxrr", "online_ndcg@10"}, {"merged_ndcg@10", "merged_mrr@10"}
    offline = {"ndcg@10", "mrr@10", "expected_maxrr", "train_expected_maxrr", "train_ndcg@10"}
    of_clients = {"own_ndcg@10", "personal_ndcg@10", "personal_own_ndcg@10"}
    validation = {f"validation_{name}" for name in ("ndcg@10", "mrr@10", "expected_maxrr")}
    assert online | merged | offline | of_clients | validation == set(usual_columns())


def test_where_less_is_better():
    """One method is at .5 after round 10, the other after round 40 or so, always later."""
    runs = [
        made_run(clients=c, seed=s, rounds=60, curve=lambda t, c=c, s=s: 0.05 * t / (c + s % 2))
        for c in (1, 4)
        for s in (1, 2, 3, 4)
    ]
    asked = made_runs(runs).measuring("RoundsTo(level=0.5)")
    found = matrix(study(asked, baseline=1), "rounds_to_0.5")
    soon, late = found.entries[0, 0], found.entries[1, 0]
    assert soon.mean < late.mean and soon.best and not late.best
    assert soon.mark == "▲" and soon.test.difference < 0.0
    never = made_runs(runs).measuring("RoundsTo(level=99.0)")
    with pytest.raises(Mistake, match="no run has a value of 'rounds_to_99'"):
        matrix(study(never), "rounds_to_99")
    with pytest.raises(Mistake, match=r"nDCG\(k=5\) is no measure of a whole run"):
        made_runs(runs).measuring("nDCG(k=5)")
