"""Runs as methods x conditions x repetitions, and what they are called."""

from dataclasses import replace
from itertools import product

import pytest
from made_runs import KINDS, made_run, made_runs

from foltr.core.errors import Mistake
from foltr.report.results import Skipped
from foltr.report.study import study


def users(kind):
    return f"Cascade(kind='{kind}')"


def labels(groups):
    return [group.label for group in groups]


def methods(*configs):
    return labels(study(made_runs([made_run(**config) for config in configs])).methods)


def test_methods_conditions_and_pairs():
    grid = product((10, 100), KINDS, (1, 2, 3), (1, 2))
    runs = [
        made_run(clients=c, users=users(k), data=f"MQ2008(fold={f})", seed=s)
        for c, k, f, s in grid
    ]
    found = study(made_runs(runs))
    assert labels(found.methods) == ["clients=10", "clients=100"]
    assert labels(found.conditions) == list(KINDS)
    assert found.paired_by == ("data.fold", "seed") and found.baseline == 0
    assert {len(cell) for cell in found.cells.values()} == {6} and len(found.cells) == 6
    run = found.cell(1, 2)[(3, None, 2)]
    assert (run.fields["clients"], run.fields["data.fold"], run.fields["seed"]) == (100, 3, 2)
    assert "informational" in run.config["users"]
    assert found.methods[1].differs == {"clients": 100}


def test_labels_say_how_methods_differ():
    assert methods({}, {"ranker": "MLP(hidden=64)"}) == ["Linear", "MLP"]
    mlps = ["MLP(hidden=8)", "MLP(hidden=64)"]
    assert methods({}, *({"ranker": ranker} for ranker in mlps)) == ["Linear", *mlps]
    assert methods({}, {"learner": "PDGD(lr=0.1, sessions=8)"}) == ["sessions=4", "sessions=8"]
    assert methods({}) == ["all runs"]


def test_names_of_a_sweep_come_first_and_are_distinguished():
    named = [
        {"method": "FPDGD"},
        {"method": "PDGD", "clients": 1},
        {"method": "FPDGD", "clients": 1000},
    ]
    assert methods(*named) == ["FPDGD, clients=100", "PDGD", "FPDGD, clients=1000"]


def test_fields_of_one_name_in_two_components_are_qualified():
    one = {"learner": "PDGD(lr=0.1)", "optimizer": "SGD(lr=1.0)"}
    other = {"learner": "PDGD(lr=0.2)", "optimizer": "SGD(lr=0.5)"}
    assert methods(one, other) == [
        "learner.lr=0.1, optimizer.lr=1.0",
        "learner.lr=0.2, optimizer.lr=0.5",
    ]


def test_a_field_that_only_one_has_still_gives_two_labels():
    """As of two versions, one of which knows a field that the other does not."""
    old, new = {"learner": "PDGD(lr=0.1)"}, {"learner": "PDGD(lr=0.1, mu=0.0)"}
    assert methods(old, new, {**new, "clients": 1}) == [
        "clients=100",
        "mu=0.0, clients=100",
        "mu=0.0, clients=1",
    ]
    assert methods(old, new) == ["all runs", "mu=0.0"]


def test_labels_are_never_equal():
    """Here one value is text and looks like the other, which is a number."""
    specs = ["Mine(x=1)", "Mine(x='1')", "Mine(x=2)", "Mine(x=1.0)", "Mine(x='1.0')"]
    found = methods(*({"learner": spec} for spec in specs))
    assert found == ["x=1", "x=1 #2", "x=2", "x=1.0", "x=1.0 #2"]


def test_the_order_of_fields_in_a_file_makes_no_method():
    one, other = made_run(seed=1), made_run(seed=2)
    turned = replace(other, config=dict(reversed(other.config.items())))
    assert len(study(made_runs([one, turned])).methods) == 1


def test_columns_by_a_field_of_a_component():
    runs = [
        made_run(learner=f"PDGD(lr=0.1, sessions={n})", users=users(k), seed=1)
        for n in (2, 4)
        for k in KINDS
    ]
    found = study(made_runs(runs), columns=["learner.sessions"])
    assert labels(found.conditions) == ["sessions=2", "sessions=4"]
    assert labels(found.methods) == list(KINDS)


def test_a_fold_can_be_a_column():
    found = study(
        made_runs([made_run(data=f"MQ2008(fold={f})", seed=s) for f in (1, 2) for s in (1, 2)]),
        columns=["users", "data.fold"],
    )
    assert labels(found.conditions) == ["fold=1", "fold=2"] and found.paired_by == ("seed",)


def test_other_pairs():
    runs = made_runs(
        [made_run(clients=c, learner=f"PDGD(lr={lr})") for c in (1, 2) for lr in (0.1, 0.2)]
    )
    found = study(runs, pairs=["clients"])
    assert labels(found.methods) == ["lr=0.1", "lr=0.2"] and found.paired_by == ("clients",)
    found = study(runs, pairs=["learner"])  # with all that is in it
    assert labels(found.methods) == ["clients=1", "clients=2"] and found.paired_by == ("learner",)


def test_values_that_cannot_be_looked_up():
    runs = [made_run(learner=f"Mine(sizes=[{n}, 1])", seed=s) for n in (2, 4) for s in (1, 2)]
    assert labels(study(made_runs(runs)).methods) == ["sizes=(2, 1)", "sizes=(4, 1)"]
    assert len(study(made_runs(runs), pairs=["seed", "learner.sizes"]).cells[0, 0]) == 4


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"columns": ["user"]},
            "no run has a field 'user' for the columns: did you mean 'users'?",
        ),
        (
            {"pairs": ["data.fodl"]},
            "no run has a field 'data.fodl' for the pairs: did you mean 'data.fold'?",
        ),
        (
            {"baseline": "clients=11"},
            "no method is called 'clients=11': did you mean 'clients=1'?",
        ),
        ({"baseline": 2}, "no method is called 2: methods are 0 .. 1"),
        ({"baseline": "-1"}, "methods are 0 .. 1"),
    ],
)
def test_what_does_not_exist(wanted, message):
    with pytest.raises(Mistake) as error:
        study(made_runs([made_run(clients=1), made_run(clients=10)]), **wanted)
    assert message in str(error.value)


def test_a_baseline_by_number_or_label():
    runs = made_runs([made_run(clients=c) for c in (1, 10, 100)])
    assert [study(runs, baseline=b).baseline for b in (None, 1, "1", "clients=100")] == [
        0,
        1,
        1,
        2,
    ]


def test_nothing_to_report():
    runs = replace(
        made_runs([]), skipped=(Skipped("runs/x", "it is damaged"),), unfinished=("runs/y",)
    )
    with pytest.raises(
        Mistake, match=r"no finished run.*1 are unfinished.*1 were skipped.*it is damaged"
    ):
        study(runs)


def test_one_config_twice_is_refused():
    one = made_run()
    with pytest.raises(Mistake, match="have the same config, but not the same identity"):
        study(made_runs([one, replace(one, path=one.path.with_name("other"))]))


def with_environment(seed, **environment):
    return made_run(seed=seed, environment={"results": 1, **environment})


def test_a_changed_file_of_a_user_makes_another_method():
    """Seeds 1 and 2 were made before the edit, 3 and 4 after: never repetitions of one thing."""
    runs = [
        with_environment(seed, files={"rule.py": "old" if seed < 3 else "new"})
        for seed in (1, 2, 3, 4)
    ]
    found = study(made_runs(runs))
    assert len(found.methods) == 2 and [len(cell) for cell in found.cells.values()] == [2, 2]
    assert all(method.label.startswith("files=") for method in found.methods)
    same = [with_environment(seed, files={"rule.py": "old"}) for seed in (1, 2)]
    assert len(study(made_runs(same)).methods) == 1


def test_data_that_changed_makes_another_condition_and_results_another_method():
    runs = [
        with_environment(seed, data={"train": "a", "test": "b" if seed < 3 else "c"})
        for seed in (1, 2, 3)
    ]
    assert len(study(made_runs(runs)).conditions) == 2
    folds = [
        made_run(data=f"MQ2008(fold={f})", environment={"results": 1, "data": {"test": str(f)}})
        for f in (1, 2)
    ]
    assert len(study(made_runs(folds)).conditions) == 1  # each fold has its own content, of course
    mixed = [with_environment(1), made_run(seed=2, environment={"results": 0})]
    assert [method.label for method in study(made_runs(mixed)).methods] == [
        "results=1",
        "results=0",
    ]


def test_a_component_of_another_revision_makes_another_method():
    """Runs of before its mechanism changed are read, and not pooled with those of after."""
    runs = [
        with_environment(1),
        with_environment(2, revisions={}),
        with_environment(3, revisions={"Gaussian": 2}),
    ]
    assert [len(study(made_runs(some)).methods) for some in (runs, runs[:2])] == [2, 1]


def test_what_a_method_sets_is_the_methods():
    """Poisoned users are a method here, not a column; nor are its data's seeds repetitions."""
    kinds = {"honest": "perfect", "poisoned": "poison"}
    runs = [
        replace(
            made_run(users=f"Cascade(kind={kind!r})", seed=seed, method=name), sets=("users.kind",)
        )
        for name, kind in kinds.items()
        for seed in (1, 2)
    ]
    found = study(made_runs(runs))
    assert labels(found.methods) == ["honest", "poisoned"] and len(found.conditions) == 1
    runs = [
        replace(
            made_run(data=f"Synthetic(seed={n})", seed=seed, method=f"data {n}"),
            sets=("data.seed",),
        )
        for n in (1, 2)
        for seed in (1, 2)
    ]
    assert labels(study(made_runs(runs)).methods) == ["data 1", "data 2"]


def test_pairs_that_are_asked_for_go_before_the_default_columns():
    runs = [
        made_run(users=f"Cascade(kind={kind!r})", seed=seed)
        for kind in ("perfect", "poison")
        for seed in (1, 2)
    ]
    found = study(made_runs(runs), pairs=("users", "seed"))
    assert len(found.conditions) == 1 and len(found.cell(0, 0)) == 4


def test_components_inside_components_have_no_quotes():
    rules = ("NNM(rule=Krum(malicious=2))", "NNM(rule=Median())", "Mean()")
    runs = [made_run(aggregator=rule, seed=seed) for rule in rules for seed in (1, 2)]
    assert labels(study(made_runs(runs)).methods) == [
        "NNM(rule=Krum(malicious=2))",
        "NNM(rule=Median())",
        "Mean",
    ]


def attacked(rule, attack, seed, **more):
    return made_run(aggregator=rule, attack=attack, seed=seed, **{"malicious": 2, **more})


def test_methods_are_compared_under_one_attack():
    rules, attacks = ("Mean()", "Median()"), ("DataPoisoning()", "FangTrimmed()")
    runs = [attacked(*each) for each in product(rules, attacks, (1, 2))]
    runs += [
        made_run(aggregator=rule, seed=seed, malicious=0, roaming=False)
        for rule, seed in product(rules, (1, 2))
    ]
    found = study(made_runs(runs))
    assert labels(found.methods) == ["Mean", "Median"]
    assert labels(found.conditions) == ["DataPoisoning", "FangTrimmed", "no attack"]
    assert {len(cell) for cell in found.cells.values()} == {2} and len(found.cells) == 6
    # the earlier order, if asked for
    found = study(made_runs(runs), columns=["users", "data"])
    assert len(found.methods) == 6 and labels(found.conditions) == ["all runs"]


def test_attacks_by_other_numbers_of_clients_are_other_conditions():
    rules, attack = ("Mean()", "Median()"), "LittleIsEnough(knowledge='{}')"
    runs = [
        attacked(rule, attack.format(what), 1, malicious=n)
        for rule, what, n in product(rules, ("own", "all"), (1, 2))
    ]
    assert labels(study(made_runs(runs)).conditions) == [
        "knowledge=own, malicious=1",
        "knowledge=own, malicious=2",
        "knowledge=all, malicious=1",
        "knowledge=all, malicious=2",
    ]


def test_an_attack_aimed_at_the_rule_of_the_run_is_one_condition():
    rules = ("Mean()", "Krum(malicious=2)")
    aimed = [attacked(rule, f"Tailored(rule={rule})", 1) for rule in rules]
    found = study(made_runs(aimed))
    assert len(found.methods) == 2 and len(found.conditions) == 1
    other = attacked("Mean()", "Tailored(rule=Median())", 1)
    found = study(made_runs([*aimed, other]))
    assert labels(found.conditions) == ["rule=its rule", "rule=Median()"]


def test_attacks_on_a_single_method_are_the_methods():
    runs = [attacked("Mean()", attack, 1) for attack in ("DataPoisoning()", "FangTrimmed()")]
    runs = [made_run(aggregator="Mean()"), *runs]
    found = study(made_runs(runs))
    assert labels(found.methods) == ["no attack", "DataPoisoning", "FangTrimmed"]
    assert labels(found.conditions) == ["all runs"]


def test_an_attack_that_a_named_method_sets_is_part_of_it():
    runs = [
        replace(attacked("Mean()", attack, 1), method=name, sets=("attack",))
        for name, attack in (("poisoned", "DataPoisoning()"), ("fang", "FangTrimmed()"))
    ]
    assert labels(study(made_runs(runs)).methods) == ["poisoned", "fang"]
