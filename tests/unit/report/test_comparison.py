"""`foltr.compare`: one call, one table, against the experiment that was asked for."""

import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.experiment import Experiment

SMALL = {"data": "Synthetic(queries=40)", "rounds": 6, "evaluate_every": 3}


def several(clients=(2, 4), **fields):
    return [Experiment(**SMALL, clients=n, **fields) for n in clients]


def test_a_table_of_tests_against_the_baseline(tmp_path):
    found = foltr.compare(
        several(), baseline=1, names=["two", "four"], seeds=range(1, 4), out=tmp_path
    )
    assert [method.label for method in found.study.methods] == [
        "two",
        "four",
    ] and found.study.baseline == 1
    entry = found.matrices[0].entries[0, 0]
    two, four = (
        [run.final["ndcg@10"] for run in found.runs if run.method == name]
        for name in ("two", "four")
    )
    assert (
        entry.test.difference == pytest.approx(sum(two) / 3 - sum(four) / 3) and entry.test.n == 3
    )
    assert "two" in repr(found) and "family of 1" in repr(found) and "toprule" in found.latex()
    assert found.csv().count("\n") == 1 + 2 * 2
    found.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 50_000
    again = foltr.compare(
        several(), baseline=1, names=["two", "four"], seeds=range(1, 4), out=tmp_path
    )
    assert again.runs["run"] == found.runs["run"]


def test_experiments_that_differ_in_their_users_are_methods():
    users = ["Cascade(kind='perfect')", "Cascade(kind='poison')", "PositionBased()"]
    found = foltr.compare(
        [Experiment(**SMALL, clients=3, users=u) for u in users], baseline=2, seeds=(1, 2)
    )
    assert len(found.study.methods) == 3 and len(found.study.conditions) == 1
    assert found.study.methods[found.study.baseline].label.startswith("PositionBased")
    assert found.runs["users"][::3][0].startswith("Cascade(kind='perfect'")


def test_users_and_folds_from_outside_are_conditions_and_repetitions():
    kinds = ["Cascade(kind='perfect')", "Cascade(kind='informational')"]
    found = foltr.compare(several(users="Cascade(kind='poison')"), seeds=(1, 2), users=kinds)
    assert [condition.label for condition in found.study.conditions] == [
        "perfect",
        "informational",
    ]
    with pytest.raises(Mistake, match="Synthetic has no field 'fold'"):
        foltr.compare(several(), folds=(1, 2))


def test_seeds_of_data_are_methods_when_they_are_what_differs():
    two = [
        Experiment(rounds=4, clients=3, data=f"Synthetic(queries=40, seed={seed})")
        for seed in (1, 2)
    ]
    found = foltr.compare(two, names=["one", "two"], seeds=(1, 2))
    assert [method.label for method in found.study.methods] == ["one", "two"]


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({"experiments": several((2,))}, "at least two"),
        ({"experiments": several((2, 2))}, "experiments 0 and 1 are equal"),
        ({"names": ["a"]}, "2 experiments need as many names"),
        ({"baseline": 2}, "baseline must be in 0 .. 1, got 2"),
        ({"seeds": ()}, "at least one seed"),
        ({"measures": ("ndcg",)}, "did you mean 'ndcg@10'"),
        ({"jobs": 0}, "jobs must be >= 1"),
    ],
)  # fmt: skip
def test_mistakes(wrong, told):
    with pytest.raises(Mistake, match=told):
        repr(foltr.compare(**{"experiments": several(), "seeds": (1,), **wrong}))


def test_a_run_that_fails_is_reported():
    broken = [
        Experiment(**SMALL, clients=2),
        Experiment(rounds=4, clients=2, data="Letor(path='nowhere')"),
    ]
    with pytest.raises(Mistake, match="1 runs failed, the first"):
        foltr.compare(broken, seeds=(1,))


def test_with_and_without_an_attack_are_methods_of_one_condition():
    """The attack is what the experiments differ in."""
    clean, attacked = several(), several(attack="MinMax()", malicious=1)
    found = foltr.compare([clean[0], attacked[0]], seeds=(1, 2), quiet=True)
    assert len(found.study.conditions) == 1 and len(found.study.methods) == 2
    assert found.matrices[0].entries[1, 0].test is not None


def test_a_measure_by_its_spec():
    found = foltr.compare(several(), seeds=(1, 2), measures=["ndcg@10", "nDCG(k=5)"], quiet=True)
    assert [each.measure for each in found.matrices] == ["ndcg@10", "ndcg@5"]
    with pytest.raises(Mistake, match=r"no measure is called 'ndcg@5'.* or write it as nDCG"):
        foltr.compare(several(), seeds=(1,), measures=["ndcg@5"])
