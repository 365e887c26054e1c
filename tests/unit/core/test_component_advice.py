"""A class that is no component, or gives what it should not, is told what to write."""

import re

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.core import kinds
from foltr.core.advice import BASES, verbs
from foltr.core.errors import Mistake
from foltr.core.spec import FAMILIES, aggregators
from foltr.experiment.user_files import use

HEAD = """
from dataclasses import dataclass
import numpy as np
from foltr.core import kinds
from foltr.core.spec import *
from foltr.core.spec import aggregator, attack, click_model, learner, partition
"""
LEARN = "def learn(self, ranker, params, memory, user, rng, t, send_reward):"
SHOWS = f"""
@learner
@dataclass(frozen=True)
class Mine(kinds.SendsUpdates):
    sessions: int = 2
    {LEARN}
        for s in range(user.sessions{{more}}):
            user.session(lambda docs: {{shown}})
        return {{gives}}
"""


def component(family, base, body, mark="@dataclass(frozen=True)", fields=""):
    inside = "\n".join(
        f"    {line}" for line in [*fields.splitlines(), *body.splitlines(), "pass"]
    )
    return f"{HEAD}\n@{family}\n{mark}\nclass Mine({base}):\n{inside}\n"


def learner(more="", shown="np.arange(len(docs))", gives="params * 0, 1.0, memory"):
    return HEAD + SHOWS.format(more=more, shown=shown, gives=gives)


@pytest.fixture
def file(tmp_path):
    yield tmp_path / "mine.py"
    for family in FAMILIES:
        for cls in family.members().values():
            if cls.__module__.startswith("foltr_user_mine"):
                family.forget(cls.__module__)


COMBINE = "def combine(self, cohort): return cohort.updates.mean(axis=0, dtype=float)"
REGISTERED = {
    "no method": (
        component("aggregator", "kinds.Memoryless", ""),
        "Mine is no aggregator: it has no combine: write combine(self, cohort)",
    ),
    "misspelt method": (
        component("attack", "kinds.ChangesMessages", "def crafts(self): ..."),
        "Mine is no attack: it has no craft: write craft(self, cohort, malicious, ask, rng)",
    ),
    "no tables": (
        component(
            "click_model", "kinds.TableClickModel", "def clicks(self, shown, grades, rng): ..."
        ),
        "it has no tables: write tables(self, grades, depth), which returns None if",
    ),
    "no clicks": (
        component("click_model", "object", "def tables(self, grades, depth): return None"),
        "it has no clicks: write clicks(self, shown, grades, rng), or inherit TableClickModel",
    ),
    "no learn": (
        component("learner", "kinds.SendsUpdates", "sessions: int = 1"),
        "has no learn: write learn(self, ranker, params, memory, user, rng, t, send_reward)",
    ),
    "no sessions": (
        component("learner", "kinds.SendsUpdates", f"{LEARN} ..."),
        "it has no sessions: add the field `sessions: int`",
    ),
    "no decode": (
        component("learner", "kinds.LearnerDefaults", f"{LEARN} ...\nsessions: int = 1"),
        "no reward_levels, decode: add `reward_levels = 0` and write decode(self, payloads,"
        " params), or inherit SendsUpdates",
    ),
    "a parameter too few": (
        component("attack", "kinds.ChangesMessages", "def craft(self, cohort, malicious): ..."),
        "craft takes (self, cohort, malicious): write craft(self, cohort, malicious, ask, rng)",
    ),
    "restricted of another form": (
        component(
            "learner",
            "kinds.SendsUpdates",
            f"sessions: int = 1\n{LEARN} ...\ndef restricted(self, radius): ...",
        ),
        "restricted takes (self, radius): write restricted(self, ball=None, memory=True,",
    ),
    "a method for a property": (
        component("aggregator", "kinds.Memoryless", f"{COMBINE}\ndef is_mean(self): return True"),
        "is_mean is asked for without brackets: write @property above `def is_mean(self)`",
    ),
    "no dataclass": (
        component("aggregator", "kinds.Memoryless", COMBINE, mark=""),
        "must be a frozen dataclass, because its repr is its config: write"
        " @dataclass(frozen=True) below @aggregator",
    ),
    "not frozen": (
        component("aggregator", "kinds.Memoryless", COMBINE, mark="@dataclass"),
        "write @dataclass(frozen=True) below @aggregator",
    ),
    "a field that no spec can hold": (
        component("aggregator", "kinds.Memoryless", f"share: np.ndarray = None\n{COMBINE}"),
        "Mine.share: no spec can hold ndarray: annotate it as bool, int, float, str",
    ),
    "a name that is taken": (
        component("aggregator", "kinds.Memoryless", COMBINE).replace("Mine", "Median"),
        "two aggregators are called Median: foltr.components.aggregators.median and ",
    ),
}


@pytest.mark.parametrize("which", REGISTERED)
def test_what_a_class_lacks_is_told_when_it_is_registered(file, which):
    text, told = REGISTERED[which]
    file.write_text(text)
    with pytest.raises(Mistake, match=re.escape(told)) as error:
        use(file)
    assert "foltr_user" not in str(error.value)


MADE = {
    "a field without annotation": (
        component("aggregator", "kinds.Memoryless", f"share = 0.5\n{COMBINE}"),
        "Mine(share=1.0)",
        "Mine has no field 'share': annotate it in the class: share: float = 0.5",
    ),
    "no fields": (
        component("aggregator", "kinds.Memoryless", COMBINE),
        "Mine(share=1.0)",
        "Mine has no field 'share': it has no fields",
    ),
    "a field that is needed": (
        component("aggregator", "kinds.Memoryless", f"share: float\n{COMBINE}"),
        "Mine()",
        "write Mine(share=...)",
    ),
    "ValueError": (
        component(
            "aggregator",
            "kinds.Memoryless",
            f"def __post_init__(self): raise ValueError('share must be > 0')\n{COMBINE}",
        ),
        "Mine()",
        "Mine: share must be > 0",
    ),
    "no decorator": (
        component("aggregator", "kinds.Memoryless", COMBINE).replace("@aggregator", ""),
        "Mine()",
        "mine.py defines it without @aggregator above it",
    ),
}


@pytest.mark.parametrize("which", MADE)
def test_what_is_wrong_with_a_spec_is_told(file, which):
    text, spec, told = MADE[which]
    file.write_text(text)
    use(file)
    with pytest.raises(Mistake, match=re.escape(told)):
        aggregators.build(spec)


RULE = "@aggregator\n@dataclass(frozen=True)\nclass Mine(kinds.Memoryless):\n    "
RUNS = {
    "nan of a rule": (
        HEAD + RULE + "def combine(self, cohort): return cohort.updates.mean(0) * np.nan\n",
        "aggregator",
        2,
        "round 0: Mine gave a direction of numbers that are not finite: 46 NaN of 46, from",
    ),
    "nothing": (
        HEAD + RULE + "def combine(self, cohort): cohort.updates.mean(0)\n",
        "aggregator",
        2,
        "Mine gave nothing (is `return` missing?), not float64 of shape (46,)",
    ),
    "an exception": (
        HEAD + RULE + "def combine(self, cohort): return cohort.upates\n",
        "aggregator",
        1,
        "Mine.combine failed (round 0, mine.py, line 10): AttributeError: 'Cohort' object has no"
        " attribute 'upates'. Did you mean 'updates'?",
    ),
    "written": (
        HEAD + RULE + "def combine(self, cohort): cohort.updates[0] = 0\n",
        "aggregator",
        1,
        "read-only. What foltr gives to a component may not be changed: copy it first",
    ),
    "one value": (
        learner(gives="params"),
        "learner",
        2,
        "Mine.learn gave float32 of shape (46,), not (payload, weight, memory)",
    ),
    "short": (
        learner(gives="params[1:], 1.0, memory"),
        "learner",
        2,
        "Mine.learn gave a payload of 45 numbers, and the ranker has 46 parameters",
    ),
    "too many sessions": (
        learner(more=" + 1"),
        "learner",
        2,
        "Mine.learn asked for 3 sessions, and the user makes 2",
    ),
    "twice the same": (
        learner(shown="np.zeros(2, int)"),
        "learner",
        2,
        "gave the list [0, 0]: it must be different documents of 0 .. ",
    ),
    "no such document": (
        learner(shown="np.array([0, 1000])"),
        "learner",
        2,
        "gave the list [0, 1000]: it must be different documents of 0 .. ",
    ),
    "documents": (
        learner(shown="docs[:5]"),
        "learner",
        2,
        "gave float32 of shape (5, 46), not a list of documents: integers (k,)",
    ),
    "one table": (
        HEAD
        + "@click_model\n@dataclass(frozen=True)\nclass Mine(kinds.TableClickModel):\n"
        + "    def tables(self, grades, depth): return np.ones((depth, grades))\n",
        "users",
        2,
        "Mine.tables gave one value, not two tables",
    ),
    "no probability": (
        HEAD
        + "@click_model\n@dataclass(frozen=True)\nclass Mine(kinds.TableClickModel):\n"
        + "    def tables(self, grades, depth):\n"
        + "        return np.ones((depth, grades)), np.full((depth, grades), 1.5)\n",
        "users",
        2,
        "Mine.tables gave 1.5 for P(stop | click) at rank 0, grade 0, which is no probability",
    ),
}


@pytest.mark.parametrize("which", RUNS)
def test_the_right_component_is_named_in_a_run(file, which):
    text, option, code, told = RUNS[which]
    file.write_text(text)
    words = ["--clients", "2", "--rounds", "1", "--quiet", "--data", "Synthetic(queries=20)"]
    words += ["--use", str(file), f"--{option}", "Mine()", "--out", str(file.parent / "runs")]
    done = CliRunner().invoke(app, ["run", *words])
    assert done.exit_code == code and told in done.output, done.output
    lines = [line for line in done.output.splitlines() if 'File "' in line]
    assert all("mine.py" in line for line in lines) and len(lines) == (code == 1)


def test_a_misspelt_component_that_is_imported_from_foltr(file):
    file.write_text("from foltr import PDGDD\n")
    with pytest.raises(Mistake, match=r"Did you mean 'PDGD'\?"):
        use(file)


def test_a_family_is_listed_and_not_shown():
    done = CliRunner().invoke(app, ["show", "aggregators"])
    assert done.exit_code == 2 and "foltr list aggregators" in done.output


def test_an_installed_package_that_fails_is_named_and_the_others_are_there(monkeypatch, capsys):
    from foltr.core import spec

    class Point:
        dist, value = None, "old_package"

        def load(self):
            raise ModuleNotFoundError("No module named 'foltr.policies'")

    monkeypatch.setattr(spec, "_installed", [])
    monkeypatch.setattr(spec, "entry_points", lambda group: [Point()])
    spec._load_installed()
    assert "the installed package old_package could not be loaded" in capsys.readouterr().err


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.folder)
def test_the_table_of_bases_is_that_of_kinds(family):
    """What a base gives, and what it leaves to be written."""
    if family.family in BASES:
        name, given = BASES[family.family]
        base = getattr(kinds, name)
        left = getattr(base, "__abstractmethods__", frozenset())
        has = [verb for verb in verbs(family.protocol) if verb in dir(base) and verb not in left]
        assert set(given) == set(has)
