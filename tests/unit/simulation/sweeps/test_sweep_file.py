"""The [sweep] table: what it means, and what it answers to mistakes."""

import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.simulation.runs import config
from foltr.simulation.sweeps.file import expanded, read_sweep


def points(text):
    content = tomllib.loads(text)
    table = content.pop("sweep", {})
    return expanded(config.flat(content), table)


def test_lists_are_crossed_and_seeds_vary_slowest():
    found = points(
        "[sweep]\nusers.kind = ['perfect', 'informational']\nseed = [3, 1]\nclients = [10, 20]"
    )
    told = [(p.experiment.seed, p.experiment.users.kind, p.experiment.clients) for p in found]
    assert told == [
        (s, k, c) for s in (3, 1) for k in ("perfect", "informational") for c in (10, 20)
    ]


def test_zipped_lists_go_together_and_cross_with_the_rest():
    found = points(
        "[sweep]\nseed = [1, 2]\n[[sweep.zip]]\nclients = [10, 100]\nlearner.sessions = [40, 4]\n"
        "[[sweep.zip]]\nranker = ['Linear()', 'MLP(hidden=8)']\nrounds = [5, 6]"
    )
    told = {
        (p.experiment.clients, p.experiment.learner.sessions, p.experiment.rounds) for p in found
    }
    assert told == {(10, 40, 5), (10, 40, 6), (100, 4, 5), (100, 4, 6)} and len(found) == 8


def test_methods_are_named_and_may_differ_from_the_base():
    found = points(
        "clients = 7\nlearner.lr = 0.5\n[[sweep.method]]\nname = 'a'\n[[sweep.method]]\nname ="
        " 'b'\nclients = 9\nlearner = 'PDGD(sessions=3)'"
    )
    a, b = found
    assert (a.method, a.experiment.clients, a.experiment.learner.lr) == ("a", 7, 0.5)
    assert (b.method, b.experiment.clients, b.experiment.learner.sessions) == ("b", 9, 3)


def test_a_whole_component_and_a_field_of_it_can_be_swept_together():
    found = points(
        "[sweep]\nranker.hidden = [8, 16]\n[[sweep.method]]\nname = 'net'\nranker = 'MLP()'"
    )
    assert [p.experiment.ranker.hidden for p in found] == [8, 16]


@pytest.mark.parametrize(
    "text, told",
    [
        ("[sweep]\nsede = [1]", "unknown key 'sede': did you mean 'seed'"),
        ("[sweep]\nlearner.sesions = [1]", "PDGD has no field 'sesions': did you mean 'sessions'"),
        ("[sweep]\nseed = 1", "must be a list, got 1: put a single value above"),
        ("[sweep]\nseed = []", "sweep.seed is an empty list"),
        ("[sweep]\nseed = [1, 2, 1]", "sweep.seed has 1 twice"),
        ("seed = 3\n[sweep]\nseed = [1, 2]", "seed has both one value"),
        ("[sweep]\nseed = [1]\n[sweep.zip]\nseed = [1]", "seed is swept twice"),
        ("[sweep.zip]\nseed = [1, 2]\nclients = [1]", "must have equal lengths"),
        ("[sweep.zip]\nseed = 2", "must be a list"),
        ("[[sweep.method]]\nclients = 2", "needs a name"),
        (
            "[[sweep.method]]\nname = 'a'\n[[sweep.method]]\nname = 'a'\nclients = 2",
            "two methods have the name 'a'",
        ),
        ("[[sweep.method]]\nname = 'a'\n[[sweep.method]]\nname = 'b'", "has one experiment twice"),
        (
            "[sweep]\nclients = [1, 0, -1]",
            "2 of 3 experiments cannot be built. The first: .*got 0",
        ),
        ("[sweep]\nranker = ['Linear()', 'MPL()']", "1 of 2 .* did you mean 'MLP'"),
        (
            f"[sweep]\nseed = {list(range(1000))}\nclients = {list(range(1, 200))}",
            "199,000 experiments",
        ),
    ],
)
def test_mistakes_are_refused(text, told):
    with pytest.raises(Mistake, match=told):
        points(text)


def test_a_file_is_named_and_options_come_in_between(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text("rounds = 10\n[sweep]\ntitle = 'A grid'\nseed = [1, 2]")
    swept = read_sweep(file, {"rounds": 3, "learner.sessions": 2})
    assert (swept.name, swept.title) == ("grid", "A grid")
    assert {(p.experiment.rounds, p.experiment.learner.sessions) for p in swept.points} == {(3, 2)}
    with pytest.raises(Mistake, match="--set seed=3 has no effect"):
        read_sweep(file, {"seed": 3})
    file.write_text("rounds = 10")
    with pytest.raises(Mistake, match="table: `foltr run"):
        read_sweep(file)
    file.write_text("[sweep]\ntitle = 3")
    with pytest.raises(Mistake, match="title must be text"):
        read_sweep(file)


def test_a_sweep_is_no_single_run(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text("[sweep]\nseed = [1, 2]")
    with pytest.raises(Mistake, match=r"`foltr sweep .*grid\.toml` runs it"):
        config.read(file)


numbers = st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


@given(
    seeds=numbers,
    clients=numbers,
    zipped=st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
)
def test_any_sweep_has_every_combination_once(seeds, clients, zipped):
    table = {
        "seed": seeds,
        "clients": clients,
        "zip": {"rounds": zipped, "evaluate_every": zipped},
    }
    found = [p.experiment for p in expanded({}, table)]
    told = [(e.seed, e.clients, e.rounds, e.evaluate_every) for e in found]
    assert sorted(told) == sorted((s, c, z, z) for s in seeds for c in clients for z in zipped)
    assert len(set(found)) == len(found)


KEYS = st.sampled_from(
    ["seed", "zip", "method", "name", "learner", "sessions", "ranker", "data", "fold", "x"]
)
LEAVES = (
    st.none() | st.integers(-2, 5) | st.sampled_from(["Linear()", "MLP(", "", "a"]) | st.floats()
)
TABLES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(st.dictionaries(KEYS, TABLES, max_size=5))
def test_no_table_gives_a_traceback(table):
    """It is refused, or gives different experiments."""
    with suppress(Mistake):
        experiments = [point.experiment for point in expanded({}, table)]
        assert len(set(experiments)) == len(experiments) > 0


def test_several_tables_are_united(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(
        "rounds = 3\n[[sweep]]\ntitle = 'Two grids'\nseed = [1, 2]\nclients = [5, 6]\n"
        "[[sweep]]\nseed = [1, 2, 3]\nclients = [6]\n"
    )
    swept = read_sweep(file)
    told = {(p.experiment.seed, p.experiment.clients) for p in swept.points}
    assert (
        told == {(1, 5), (1, 6), (2, 5), (2, 6), (3, 6)}
        and len(swept.points) == 5
        and swept.title == "Two grids"
    )
    file.write_text("[[sweep]]\nseed = [1]\n[[sweep]]\n[[sweep.method]]\nname = 'a'\n")
    with pytest.raises(Mistake, match="one experiment has two names: None and 'a'"):
        read_sweep(file)


def test_a_whole_component_replaces_what_the_base_said_of_its_fields():
    found = points(
        "users.kind = 'perfect'\nlearner.sessions = 2\n[sweep]\nusers ="
        " [\"Cascade(kind='poison')\"]\n[[sweep.method]]\nname = 'a'\nlearner = 'PDGD(sessions=8)'"
    )
    assert found[0].experiment.users.kind == "poison" and found[0].experiment.learner.sessions == 8


STUDIES = [
    f
    for f in sorted((Path(__file__).parents[4] / "reproduce").glob("*.toml"))
    if "[sweep]" in f.read_text()
]


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_every_study_can_be_built(file):
    """It reads no data."""
    studied = read_sweep(file)
    assert len(studied.points) > 1 and studied.title != file.stem
    assert f"foltr sweep reproduce/{file.name}" in file.read_text()
