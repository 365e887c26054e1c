"""Settings chosen by the validation queries, and what a report says of them."""

import json
from dataclasses import replace
from itertools import product

import pytest
from made_runs import made_run, made_runs

from foltr.core.errors import Mistake
from foltr.report.captions import caption
from foltr.report.matrix import matrix
from foltr.report.results import load_runs
from foltr.report.study import study
from foltr.report.tuning import tuned
from foltr.simulation.sweeps.file import read_sweep
from foltr.simulation.sweeps.run import sweep
from foltr.simulation.sweeps.state import Record, Sweeps

RATES = (0.01, 0.1, 1.0)


def run(validation, test, lr=0.1, **config):
    final = {"validation_ndcg@10": validation, "ndcg@10": test}
    return made_run(final, learner=f"PDGD(lr={lr}, sessions=4)", **config)


def grid(value=lambda lr, fold, seed: 0.5):
    """Three learning rates, two folds, two seeds. On the test queries the largest is best."""
    return [
        run(value(lr, f, s), 0.1 * lr, lr, data=f"MQ2008(fold={f})", seed=s)
        for lr in RATES
        for f in (1, 2)
        for s in (1, 2)
    ]


def test_the_best_on_validation_is_chosen_whatever_the_test_queries_say():
    found = tuned(made_runs(grid(lambda lr, f, s: 0.5 - abs(lr - 0.1))))
    assert found.over == ("learner.lr",) and len(found.choices) == 2
    for fold, choice in zip((1, 2), found.choices, strict=True):
        assert choice.condition == f"fold={fold}"
        assert choice.best.setting == {"learner.lr": 0.1} and choice.candidates == 3
        assert choice.best.validation == pytest.approx(0.5) and len(choice.best.runs) == 2
    assert {r.fields["learner.lr"] for r in found.runs} == {0.1}
    assert found.table()["ndcg@10"] == pytest.approx([0.01, 0.01])


def test_each_fold_has_a_choice_of_its_own():
    """The validation queries of one fold are the test queries of another."""
    best = {1: 0.01, 2: 1.0}
    found = tuned(made_runs(grid(lambda lr, f, s: float(lr == best[f]))))
    assert [c.best.setting["learner.lr"] for c in found.choices] == [0.01, 1.0]
    assert len(found.runs) == 4


def test_the_mean_over_seeds_decides():
    lucky = {(0.01, 1): 0.9, (0.01, 2): 0.1, (0.1, 1): 0.6, (0.1, 2): 0.6}
    found = tuned(made_runs(grid(lambda lr, f, s: lucky.get((lr, s), 0.0))))
    assert {c.best.setting["learner.lr"] for c in found.choices} == {0.1}


def test_equal_settings_leave_the_first():
    assert {c.best.setting["learner.lr"] for c in tuned(made_runs(grid())).choices} == {0.01}


def test_named_methods_and_what_they_set():
    runs = [
        replace(run(lr * sign, 0.5, lr, clients=n, seed=s), method=name, sets=("clients",))
        for name, n, sign in (("few", 10, -1), ("many", 100, 1))
        for lr in RATES
        for s in (1, 2)
    ]
    found = tuned(made_runs(runs))
    assert found.over == ("learner.lr",)
    assert {c.method: c.best.setting["learner.lr"] for c in found.choices} == {
        "few": 0.01,
        "many": 1.0,
    }
    # without names, clients would be tuned as well, unless it is said what is
    plain = made_runs([replace(r, method=None, sets=()) for r in runs])
    assert set(tuned(plain).over) == {"learner.lr", "clients"}
    assert [c.condition for c in tuned(plain, over=["learner.lr"]).choices] == [
        "clients=10",
        "clients=100",
    ]


def test_whole_components_are_tuned_as_such():
    runs = [
        made_run({"validation_ndcg@10": v, "ndcg@10": 0.5}, learner=learner, seed=s)
        for v, learner in ((0.4, "PDGD(lr=0.1, sessions=4)"), (0.5, "ES(sigma=0.01, sessions=4)"))
        for s in (1, 2)
    ]
    found = tuned(made_runs(runs))
    assert found.over == ("learner",)
    assert found.choices[0].best.setting == {"learner": "ES(sigma=0.01, sessions=4)"}


@pytest.mark.parametrize(
    ("runs", "more", "told"),
    [
        ([], {}, "no finished run to choose from"),
        (grid()[:1], {}, "there is nothing to choose from"),
        (grid(), {"by": "ndgc@10"}, "no measure is called 'validation_ndgc@10'"),
        (
            grid(),
            {"over": ["learner.rl"]},
            "no run has a field 'learner.rl' to tune: did you mean",
        ),
        (grid(), {"over": ["data.fold"]}, "data.fold is not tuned: it is a condition"),
        (grid(), {"over": ["clients"]}, "one setting only of clients"),
        (grid()[:-1], {}, "learner.lr = 1.0 has no finished run with seed 2"),
        (grid(lambda lr, f, s: None), {}, "were not measured on validation queries"),
    ],
)
def test_what_cannot_be_chosen_is_refused(runs, more, told):
    with pytest.raises(Mistake, match=told):
        tuned(made_runs(runs), **more)


FILE = """
data = "Synthetic(queries=30)"
clients = 4
rounds = 6
evaluate_every = 3
evaluate_on = "validation"
[sweep]
title = "A study"
learner.lr = [0.01, 0.1]
data.seed = [1, 2]
seed = [1, 2]
"""


def test_a_record_of_the_chosen_runs(tmp_path):
    (tmp_path / "study.toml").write_text(FILE)
    read = read_sweep(tmp_path / "study.toml")
    swept = sweep(read.points, tmp_path, read.name, read.title)
    found = tuned(load_runs(swept.record.path))
    kept = tmp_path / "study.tuned.sweep.json"
    found.keep(kept)
    assert json.loads(kept.read_text())["note"] == found.statement
    runs = load_runs(kept)
    assert len(runs) == 4 and {r.name for r in runs} == {r.name for r in found.runs}
    table = matrix(study(runs), "ndcg@10")
    assert len(table.study.methods) == 1 and table.study.methods[0].label == "tuned"
    assert "chosen among 2 by nDCG@10 on the validation queries" in caption(table)
    # a folder is read by its sweeps alone
    assert {r.method for r in load_runs(tmp_path)} == {None} and len(load_runs(tmp_path)) == 8
    assert len(Sweeps(tmp_path).overviews()) == 1
    assert not Record.read(swept.record.path).tuned and Record.read(kept).tuned


def test_choices_whose_conditions_have_different_fields():
    """Attacks of two classes, and a baseline among the methods."""
    runs = [
        run(0.5 + lr, 0.1, lr, seed=s, attack=attack)
        for attack in ("LittleIsEnough(knowledge='own')", "DataPoisoning(clicks='poison')")
        for lr in RATES
        for s in (1, 2)
    ]
    found = tuned(made_runs(runs))
    table = found.table()
    assert table["condition"] == ["LittleIsEnough", "DataPoisoning"]
    assert list(table.columns)[-2:] == ["validation_ndcg@10", "ndcg@10"]
    assert table["learner.lr"] == [1.0, 1.0]


def test_components_inside_components_are_tuned():
    rules = [f"Bucketing(rule=TrimmedMean(malicious={m}), size=2)" for m in (0, 1)]
    runs = [
        made_run({"validation_ndcg@10": v, "ndcg@10": 0.5}, aggregator=rule, seed=s)
        for v, rule in zip((0.4, 0.5), rules, strict=True)
        for s in (1, 2)
    ]
    found = tuned(made_runs(runs))
    assert len(found.choices) == 1 and found.choices[0].candidates == 2
    assert found.choices[0].best.setting == {"aggregator.rule": "TrimmedMean(malicious=1)"}
    with pytest.raises(Mistake, match=r"tune aggregator\.rule as a whole"):
        tuned(made_runs(runs), over=["aggregator.rule.malicious"])


def test_how_a_run_is_measured_and_divided_is_not_tuned():
    runs = [
        run(0.1 * i, 0.5, lr, seed=1, empty=empty, partition=partition)
        for i, (lr, empty, partition) in enumerate(
            product((0.01, 0.1), ("skip", "one"), ("IID()", "ByLabel(labels=1)"))
        )
    ]
    found = tuned(made_runs(runs))
    assert found.over == ("learner.lr",) and len(found.choices) == 4
    assert tuned(made_runs(runs), over=["learner.lr", "partition"]).over[1] == "partition"
    with pytest.raises(Mistake, match="empty is not tuned"):
        tuned(made_runs(runs), over=["empty"])
