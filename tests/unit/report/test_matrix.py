"""What is tested against what, what is refused and why, and what is said of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import KINDS, luck, made_run, made_runs
from scipy import stats

from foltr.errors import Mistake
from foltr.report.matrix import MEASURES, matrix, measured
from foltr.report.statistics import bootstrap_interval, paired_t
from foltr.report.study import study


def value(clients, kind, fold, seed):
    """Folds differ much, methods little: only a paired test sees it."""
    gain = {1: 0.0, 10: 0.004, 100: -0.004, 1000: 0.0}[clients]
    return 0.4 + 0.05 * fold + gain + 0.001 * luck(clients, kind, fold, seed)


def grid(clients=(1, 10, 100), kinds=KINDS, folds=(1, 2, 3), seeds=(1, 2), **more):
    return [
        made_run(value(c, k, f, s), clients=c, users=f"Cascade(kind='{k}')", data=f"MQ2008(fold={f})", seed=s, **more)
        for c in clients
        for k in kinds
        for f in folds
        for s in seeds
    ]


def of(runs, measure="ndcg@10", **more):
    return matrix(study(made_runs(runs)), measure, **more)


def without(runs, **fields):
    names = {name.replace("_", "."): value for name, value in fields.items()}
    return [run for run in runs if not all(run.fields[name] == value for name, value in names.items())]


def changed(runs, test, **more):
    """Runs of which those that pass `test` are changed."""
    return [replace(run, **{name: {**getattr(run, name), **its} for name, its in more.items()}) if test(run) else run
            for run in runs]  # fmt: skip


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
        assert (entry.n, entry.mean, entry.sd) == (6, pytest.approx(own.mean()), pytest.approx(own.std(ddof=1)))
        assert entry.interval == bootstrap_interval(own)
        assert entry.refused == ""
        if i == 0:
            assert entry.test is None and entry.corrected is None and entry.mark == ""
        else:
            assert entry.test == paired_t(own, base)
            assert entry.corrected == pytest.approx(min(1.0, 6 * stats.ttest_rel(own, base).pvalue), rel=1e-12)
            assert entry.mark == ("▲" if i == 1 else "▼")
        assert entry.best == (i == 1)


def named(found):
    """The entries of a matrix by the names of their methods and conditions."""
    methods, conditions = found.study.methods, found.study.conditions
    return {(methods[i].label, conditions[j].label): entry for (i, j), entry in found.entries.items()}


@settings(deadline=None)
@given(st.permutations(range(1, 36)))
def test_pairs_are_found_by_name_and_the_order_of_runs_changes_no_bit(order):
    runs = grid(clients=(1, 10))
    shuffled = [runs[0], *(runs[i] for i in order)]  # the first run's method is the baseline
    assert named(of(shuffled)) == named(of(runs))


def test_any_baseline():
    found = matrix(study(made_runs(grid()), baseline="clients=100"), "ndcg@10")
    assert [found.entries[i, 0].mark for i in range(3)] == ["▲", "▲", ""]
    assert "the baseline (clients=100)" in found.told


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
        ({"clients": 1, "data_fold": 3, "seed": 2}, "not paired: the baseline lacks data.fold=3, seed=2"),
        ({"clients": 10, "data_fold": 3, "seed": 2}, "not paired: clients=10 lacks data.fold=3, seed=2"),
        ({"clients": 1, "data_fold": 2}, "not paired: the baseline lacks data.fold=2, seed=1 (and 1 more)"),
    ],
)
def test_a_missing_run_is_named(gone, reason):
    found = of(without(grid(clients=(1, 10)), **gone))
    for j in range(3):
        entry = found.entries[1, j]
        assert entry.refused == reason and entry.test is None and entry.corrected is None and entry.mark == ""
        assert entry.mean > 0.4  # it has its number all the same
    assert found.family == 3  # as asked for


def test_runs_missing_on_both_sides():
    runs = without(without(grid(clients=(1, 10)), clients=1, seed=1, data_fold=2), clients=10, seed=2)
    assert of(runs).entries[1, 0].refused == (
        "not paired: the baseline lacks data.fold=2, seed=1; clients=10 lacks data.fold=1, seed=2 (and 2 more)"
    )


def test_a_condition_without_the_baseline():
    perfect = "Cascade(kind='perfect')"
    runs = [run for run in grid() if not (run.config["clients"] == 1 and run.config["users"] == perfect)]
    found = matrix(study(made_runs(runs), baseline="clients=1"), "ndcg@10")
    at = [c.label for c in found.study.conditions].index("perfect")
    base = found.study.baseline
    assert (base, at) not in found.entries
    refusals = {found.entries[i, at].refused for i in range(3) if i != base}
    assert refusals == {"not paired: the baseline has no run in this condition"}
    assert found.family == 6 and "of which 2 could not be made" in found.told


@pytest.mark.parametrize("undefined", [None, math.nan, math.inf, "0.5", True])
def test_an_undefined_value_counts_as_missing(undefined):
    runs = grid(clients=(1, 10), kinds=KINDS[:1])
    hole = changed(runs, lambda run: run.config["clients"] == 10 and run.config["seed"] == 2
                   and run.fields["data.fold"] == 1, final={"ndcg@10": undefined})  # fmt: skip
    entry = of(hole).entries[1, 0]
    assert entry.n == 5 and entry.refused == "not paired: clients=10 has no value for data.fold=1, seed=2"
    both = changed(runs, lambda run: run.config["seed"] == 2 and run.fields["data.fold"] == 1,
                   final={"ndcg@10": undefined})  # fmt: skip
    entry = of(both).entries[1, 0]
    assert entry.n == 5 and entry.test.n == 5 and entry.refused == ""
    assert not math.isnan(entry.mean)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"final": {"empty": "zero"}}, "queries without a relevant document: 'zero', the baseline 'skip'"),
        ({"final": {"queries": 157}}, "on 157 held-out queries, the baseline on 156"),
        ({"environment": {"data": {"test": "b"}}}, "on data of other content than the baseline"),
        ({"environment": {"results": 2}}, "by a foltr of results 2, the baseline by one of results 1"),
    ],
)
def test_runs_that_were_measured_in_other_ways(more, reason):
    runs = grid(clients=(1, 10), environment={"results": 1, "data": {"test": "a"}})
    odd = changed(runs, lambda run: run.config["clients"] == 10 and run.config["seed"] == 2, **more)
    entry = of(odd).entries[1, 0]
    assert entry.refused == f"not measured alike: {reason} (data.fold=1, seed=2)" and entry.test is None
    unknown = changed(odd, lambda run: run.config["clients"] == 1,
                      final={"empty": None, "queries": None}, environment={"data": None, "results": None})  # fmt: skip
    assert of(unknown).entries[1, 0].test is not None  # what nobody says is not held against anybody


def test_sums_over_rounds_need_equal_rounds():
    runs = [made_run(0.5 + 0.01 * luck(r, s), rounds=r, seed=s) for r in (20, 40) for s in (1, 2, 3)]
    assert of(runs).entries[1, 0].test is not None
    assert of(runs, "online").entries[1, 0].refused == (
        "not measured alike: a sum over 40 rounds, the baseline's over 20 (seed=1)"
    )


def test_one_pair_is_too_few():
    found = of([made_run(0.5, clients=c) for c in (1, 2)])
    entry = found.entries[1, 0]
    assert entry.refused == "one pair only: a t-test needs two or more"
    assert math.isnan(entry.sd) and all(map(math.isnan, entry.interval)) and entry.n == 1
    assert found.told == (
        "One run per cell. Nothing is tested: of 1 comparison (1 method x 1 condition, this measure) "
        "with the baseline (clients=1) none could be paired."
    )


def test_what_is_told():
    assert of(grid()).told == (
        "Mean and standard deviation over 6 runs that differ in data.fold and seed. Two-tailed paired t-tests against "
        "the baseline (clients=1) over 6 pairs of runs with equal data.fold and seed; Bonferroni-corrected for a "
        "family of 6 comparisons (2 methods x 3 conditions, this measure); significant where corrected p < 0.05."
    )
    fewer = of(without(grid(), users="Cascade(kind='perfect')", seed=2), alpha=0.01)
    assert "over 3 to 6 runs" in fewer.told and "over 3 to 6 pairs" in fewer.told and "p < 0.01" in fewer.told


def test_one_method_is_not_tested():
    found = of(grid(clients=(1,)))
    assert found.family == 0 and found.told.endswith("Nothing is tested: there is one method.")
    assert {entry.test for entry in found.entries.values()} == {None}


def test_equal_means_are_all_best():
    found = of([made_run(0.5, clients=c, seed=s) for c in (1, 2) for s in (1, 2)])
    assert found.entries[0, 0].best and found.entries[1, 0].best


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
    assert {"ndcg@10", "online", "mrr@10", "expected_maxrr", "maxrr", "online_ndcg@10"} == set(MEASURES)
