"""`--only`: which experiments are left, and what it answers to mistakes."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.cli.tools import typed_choices
from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.report.results import load_runs
from foltr.simulation.sweeps.file import Point, as_file_name, narrowed, read_sweep
from foltr.simulation.sweeps.run import sweep
from foltr.simulation.sweeps.state import Overview, Record

STUDY = """
data = "Synthetic(queries=40)"
[sweep]
title = "A study"
seed = [1, 2, 3]
ranker = ["Linear()", "MLP(hidden=8)"]
attack = ["DataPoisoning()"]
malicious = [1]
[sweep.zip]
clients = [10, 20]
learner.sessions = [4, 2]
[[sweep.method]]
name = "Krum, f = 1"
aggregator = "Krum(malicious=1)"
[[sweep.method]]
name = "mean"
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def only(study, *words):
    return read_sweep(study, only=typed_choices(list(words), "--only"))


@pytest.mark.parametrize(
    "words, count",
    [
        ([], 24),
        (["seed=1"], 8),
        (["seed=1|3"], 16),
        (["seed=1, clients=10"], 4),
        (["seed=1", "clients=10"], 4),
        (["learner.sessions=2, clients=20"], 12),
        (["ranker=MLP"], 12),
        (["ranker=MLP(hidden=8)"], 12),
        (["ranker='MLP(hidden=8)' | Linear"], 24),
        (["ranker.hidden = 8"], 12),
        (["method='Krum, f = 1', seed=2"], 4),
        (["method=mean"], 12),
        (["aggregator.malicious=1"], 12),
        (["attack=DataPoisoning, privacy=none"], 24),
        (["roaming=false"], 24),
        (["learner.lr=0.1", "data.queries=40"], 24),
        (["learner=PDGD(sessions=2, lr=0.1)"], 12),
    ],
)
def test_experiments_with_these_values_are_left(study, words, count):
    swept = only(study, *words)
    assert len(swept.points) == count
    assert (swept.name == "study") == (not words)


@pytest.mark.parametrize(
    "words, told",
    [
        (["seed=9"], "'seed=9' leaves no experiment: seed is 1, 2 or 3"),
        (["seed=1|9"], "'seed=9' leaves no experiment"),
        (["seed=one"], "'seed=one' leaves no experiment: seed is 1, 2 or 3"),
        (["sede=1"], "no experiment has a field 'sede': did you mean 'seed'"),
        (["data.fold=1"], "no experiment has a field 'data.fold'"),
        (["learner.sesions=1"], "did you mean 'learner.sessions'"),
        (["metod=mean"], "did you mean 'method'"),
        (["method=Krum"], "method is 'Krum, f = 1' or 'mean'"),
        (["ranker=MLP(hidden=9)"], r"ranker is Linear\(\) or MLP\(hidden=8\)"),
        (["attack=none"], r"attack is DataPoisoning\(\)"),
        (["clients=10, learner.sessions=2"], "but not together: clients = 10, learner.sess"),
        (["seed"], "needs FIELD=VALUE, got 'seed'"),
        (["seed="], "needs FIELD=VALUE, got 'seed='"),
        (["=1"], "needs FIELD=VALUE"),
        ([""], "needs FIELD=VALUE"),
        (["method=Krum, f = 1"], "method is 'Krum, f = 1' or 'mean'"),
        (["method=Krum, few"], "text with a comma needs quotes"),
        (["seed=1", "seed=2"], r"names seed twice: .* seed=1\|2"),
        (["ranker=MLP(hidden=8"], "are not closed"),
        (["method='mean"], "are not closed"),
    ],
)
def test_what_leaves_nothing_is_told(study, words, told):
    with pytest.raises(Mistake, match=told):
        only(study, *words)


def test_a_study_without_methods_has_no_such_field(tmp_path):
    (tmp_path / "s.toml").write_text("[sweep]\nseed = [1]")
    with pytest.raises(Mistake, match=r"no field|no experiment has a field 'method': known"):
        only(tmp_path / "s.toml", "method=a")


@pytest.mark.parametrize("name", ["thesis-3.6", "thesis-3.8-3.9", "thesis-4-intents"])
def test_a_published_study_can_be_narrowed_to_one_experiment(name):
    """By the values of its last experiment, whatever the study varies."""
    file = Path(__file__).parents[4] / "reproduce" / f"{name}.toml"
    point = read_sweep(file).points[-1]
    wanted = {f.name: [getattr(point.experiment, f.name)] for f in fields(Experiment)}
    if point.method is not None:
        wanted["method"] = [point.method]
    assert read_sweep(file, only=wanted).points == (point,)


numbers = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True)


@given(numbers, numbers, numbers, numbers)
def test_what_is_left_has_the_values_and_nothing_else_is_lost(seeds, clients, some, few):
    found = [Point(Experiment(seed=s, clients=c), None) for s in seeds for c in clients]
    try:
        left = narrowed(found, {"seed": some, "clients": few})
    except Mistake:
        assert not set(some) <= set(seeds) or not set(few) <= set(clients)
        return
    has = [p for p in found if p.experiment.seed in some and p.experiment.clients in few]
    assert left == tuple(has)


def test_a_narrowed_sweep_leaves_the_record_of_the_whole_study(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        "data = 'Synthetic(queries=40)'\nclients = 2\nrounds = 3\n[sweep]\nseed = [1, 2, 3]\n"
    )
    whole, narrow = read_sweep(file), only(file, "seed=1|3")
    assert (narrow.name, narrow.title) == ("study.seed=1+3", "study (only seed = 1 or 3)")
    first = sweep(whole.points[:1], tmp_path / "runs", whole.name)  # stopped early, say
    record = first.record.path.read_text()
    made = sweep(narrow.points, tmp_path / "runs", narrow.name, narrow.title)
    assert (len(made.made), len(made.found)) == (1, 1)
    assert first.record.path.read_text() == record and made.record.path != first.record.path
    states = [Overview(Record.read(each.record.path)).look() for each in (first, made)]
    assert [(state.planned, state.done) for state in states] == [(1, 1), (2, 2)]
    runs = load_runs(made.record.path)
    assert runs.title == narrow.title and runs.planned == 2 and runs["seed"] == [1, 3]
    assert len(sweep(whole.points, tmp_path / "runs", whole.name).found) == 2


def test_records_of_different_selections_have_different_names():
    assert as_file_name({"seed": [1], "data.fold": [1, 2]}) == "data.fold=1+2,seed=1"
    assert as_file_name({"data.fold": [1], "seed": [1]}) == as_file_name(
        {"seed": [1], "data.fold": [1]}
    )
    names = ["a b", "a_b", "a, b", "a/b", "a|b", "a+b", "", "x" * 300, "x" * 301]
    made = [as_file_name({"method": [name]}) for name in names]
    assert len(set(made)) == len(names) and max(map(len, made)) < 120
    assert not any(set(name) & set("/\\:|*?<>\"' ") for name in made)
