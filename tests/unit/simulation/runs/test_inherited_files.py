"""How the values of a file replace those of its base, and what it answers to mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.cli.tools import given_code
from foltr.core.errors import Mistake
from foltr.experiment.user_files import Code, use_only
from foltr.simulation.runs.config import (
    flat,
    inherited,
    load,
    load_experiment,
    overridden,
    without,
)
from foltr.simulation.sweeps.file import read_sweep


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return folder / f"{next(iter(files))}.toml"


def test_a_file_takes_from_its_base_what_it_does_not_say(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "first.toml").write_text(
        "clients = 7\nrounds = 9\nlearner.sessions = 3\nlearner.lr = 0.5\nusers.kind = 'perfect'"
    )
    written(tmp_path, second="base = 'sub/first.toml'\nrounds = 4\nlearner.lr = 0.2")
    file = written(
        tmp_path, third="base = 'second.toml'\nseed = 5\nusers = \"Cascade(kind='poison')\""
    )
    e = load_experiment(file, Code(), {"clients": 8})
    assert (e.clients, e.rounds, e.seed) == (8, 4, 5)
    assert (e.learner.sessions, e.learner.lr, e.users.kind) == (3, 0.2, "poison")


def test_files_of_components_are_loaded_for_both(tmp_path):
    rule = "from dataclasses import dataclass\nfrom foltr.core.kinds import Memoryless\n"
    rule += "from foltr.core.spec import aggregator\n@aggregator\n@dataclass(frozen=True)\n"
    rule += "class {}(Memoryless):\n    '''A mean.'''\n"
    rule += "    def combine(self, cohort):\n        return cohort.updates.mean(axis=0)\n"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "theirs.py").write_text(rule.format("Theirs"))
    (tmp_path / "ours.py").write_text(rule.format("Ours"))
    (tmp_path / "sub" / "base.toml").write_text("use = ['theirs.py']\naggregator = 'Theirs()'")
    file = written(tmp_path, own="base = 'sub/base.toml'\nuse = ['ours.py']")
    try:
        assert type(load_experiment(file, Code()).aggregator).__name__ == "Theirs"
        given = load_experiment(file, Code(), {"aggregator": "Ours()"})
        assert type(given.aggregator).__name__ == "Ours"
        with pytest.raises(Mistake, match=r"needs the code of .*theirs\.py"):
            load_experiment(file, given_code([tmp_path / "ours.py"]))
    finally:
        use_only([])


@pytest.mark.parametrize(
    "files, told",
    [
        ({"a": "base = 'a.toml'"}, r"a base includes itself: \S*a\.toml -> \S*a\.toml"),
        (
            {"a": "base = 'b.toml'", "b": "base = 'c.toml'", "c": "base = '../{folder}/a.toml'"},
            r"c\.toml: a base includes itself: \S*a\.toml -> \S*b\.toml -> \S*c\.toml -> \S*a\.to",
        ),
        ({"a": "base = 'no.toml'"}, r"a\.toml: there is no file .*no\.toml, its base"),
        ({"a": "base = '.'"}, "there is no file"),
        ({"a": "base = 3"}, "base must be the path of a TOML file, got 3"),
        ({"a": "base = ''"}, "base must be the path"),
        ({"a": "base = 'b.toml'", "b": "round = 3"}, r"b\.toml: unknown key 'round'"),
        ({"a": "base = 'b.toml'", "b": "rounds ="}, r"b\.toml is not TOML"),
        ({"a": "base = 'b.toml'", "b": "[sweep]\nseed = [1]"}, r"base of .* has a \[sweep\]"),
    ],
)
def test_mistakes_with_a_base(files, told, tmp_path):
    file = written(
        tmp_path, **{name: text.format(folder=tmp_path.name) for name, text in files.items()}
    )
    with pytest.raises(Mistake, match=told):
        load(file, Code())


BASE = (
    "rounds = 9\n[sweep]\ntitle = 'A study'\nseed = [1, 2, 3]\nusers.kind = ['perfect', 'poison']"
    "\n[[sweep.method]]\nname = 'few'\nclients = 3\n[[sweep.method]]\nname = 'many'\nclients = 9"
)


@pytest.mark.parametrize(
    "text, count, told",
    [
        ("rounds = 4", 12, ("A study", {4}, {1, 2, 3}, {"few", "many"})),
        ("seed = 2", 4, ("A study", {9}, {2}, {"few", "many"})),
        ("[sweep]\ntitle = 'Mine'\nseed = [7]", 4, ("Mine", {9}, {7}, {"few", "many"})),
        ("[sweep]\nrounds = [1, 2]", 24, ("A study", {1, 2}, {1, 2, 3}, {"few", "many"})),
        ("[[sweep.method]]\nname = 'one'\nclients = 1", 6, ("A study", {9}, {1, 2, 3}, {"one"})),
        ("[[sweep]]\nseed = [5]\n[[sweep]]\nseed = [6]", 2, ("own", {9}, {5, 6}, {None})),
        ('users = "Cascade()"', 6, ("A study", {9}, {1, 2, 3}, {"few", "many"})),
    ],
)
def test_each_key_of_a_sweep_replaces_that_of_the_base(text, count, told, tmp_path):
    swept = read_sweep(written(tmp_path, own=f"base = 'theirs.toml'\n{text}", theirs=BASE))
    e = [point.experiment for point in swept.points]
    found = {x.rounds for x in e}, {x.seed for x in e}, {point.method for point in swept.points}
    assert (swept.name, swept.title, *found) == ("own", *told) and len(e) == count


@pytest.mark.parametrize(
    "text, told",
    [
        ("clients = 5", r"own\.toml: clients has no effect: every method of the base .*theirs"),
        ("[sweep]\nclients = [5, 6]", "clients is swept twice"),
        ("users.kind = 'perfect'", "users.kind has no effect: .* a list of whole components"),
    ],
)
def test_values_of_a_file_that_its_base_would_replace_are_refused(text, told, tmp_path):
    theirs = BASE.replace("users.kind = ['perfect', 'poison']", 'users = ["Cascade()"]')
    with pytest.raises(Mistake, match=told):
        read_sweep(written(tmp_path, own=f"base = 'theirs.toml'\n{text}", theirs=theirs))


NAMES = st.sampled_from(["seed", "clients", "learner", "learner.lr", "learner.sessions", "users"])
VALUES = st.dictionaries(NAMES, st.integers(0, 9), max_size=4)


@given(VALUES, VALUES)
def test_every_value_is_of_the_file_or_else_of_its_base(own, base):
    both = inherited(own, base, "base")
    assert both == overridden(flat(base), flat(own))
    assert all(both[name] == value for name, value in own.items())
    assert all(both.get(name) == value for name, value in without(base, own).items())
    assert inherited(own, {}, "base") == own and inherited({}, base, "base") == base


LISTS = st.dictionaries(NAMES, st.just([1, 2]), max_size=4)


@given(VALUES, LISTS, VALUES, LISTS)
def test_a_field_is_given_once_in_what_is_inherited(values, lists, theirs, their_lists):
    """A single value of the file ends a list of the base, and the other way round."""
    own = {**{n: v for n, v in values.items() if n not in lists}, "sweep": lists}
    base = {**{n: v for n, v in theirs.items() if n not in their_lists}, "sweep": their_lists}
    try:
        both = inherited(own, base, "base")
    except Mistake as mistake:
        assert "has no effect" in str(mistake)
        return
    sweep = both.pop("sweep")
    assert not set(both) & set(sweep)
    assert all(sweep[name] == value for name, value in lists.items())
    assert all(both[name] == value for name, value in values.items() if name not in lists)
