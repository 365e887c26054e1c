"""An error in a user's file names the file, the line, the function and the kind of error: while it
is loaded, in a run, and in a run of a sweep."""

import json

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.experiment.user_files import use, use_only

HEAD = """from dataclasses import dataclass
import numpy as np; from foltr.core.world import measures
from foltr.core import kinds, types as core
from foltr.core.ranking import plackett_luce
from foltr.core.spec import aggregator, measure, ranker
"""
RULE = "@aggregator\n@dataclass(frozen=True)\nclass Mine(kinds.Memoryless):\n"
RANKER = """@ranker
@dataclass(frozen=True)
class Mine:
    head = 0
    def init(self, features, rng): return np.zeros(features, np.float32)
    def pullback(self, params, docs, dscores): return dscores @ docs
"""
MEASURE = "@measure\n@dataclass(frozen=True)\nclass Mine(measures.OfflineMeasure):\n"


@pytest.fixture
def file(tmp_path):
    yield tmp_path / "mine.py"
    use_only([])


LOADED = {
    "at once": ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (mine.py, line 2)"),
    "in a function": (
        "def half(x):\n    return x / 0\n\nhalf(1)\n",
        "ZeroDivisionError: division by zero (mine.py, line 2, in half)",
    ),
    "in a library": (
        "import json\n\njson.loads('{')\n",
        "JSONDecodeError: Expecting property name enclosed in double quotes",
    ),
    "a module beside it": (
        "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n"
        "import beside_mine\n",
        "KeyError: 'a' (beside_mine.py, line 3)",
    ),
    "grammar": ("x = 1\ndef f(:\n", "SyntaxError: invalid syntax (mine.py, line 2)"),
    "no such module": ("\nimport no_such\n", "No module named 'no_such' (mine.py, line 2)"),
    "it ends the process": ("raise SystemExit(3)\n", "SystemExit: 3 (mine.py, line 1)"),
    "a mistake": (
        "from foltr.core.spec import ranker\n\n@ranker\nclass A: pass\n",
        "A must be a frozen dataclass, because its repr is its config: write"
        " @dataclass(frozen=True) below @ranker (mine.py, line 3)",
    ),
}


@pytest.mark.parametrize("which", LOADED)
def test_an_error_while_a_file_is_loaded(file, which, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (file.parent / "beside_mine.py").write_text("x = {}\n\nx['a']\n")
    text, told = LOADED[which]
    file.write_text(text)
    with pytest.raises(Mistake) as caught:
        use(file)
    assert told in str(caught.value)
    if which == "in a library":
        assert str(caught.value).endswith("(mine.py, line 3)")


RUNS = {
    "a rule": (
        HEAD + RULE + "    def combine(self, cohort): return {}['a']\n",
        ["--aggregator", "Mine()"],
        "Mine.combine failed (round 0, mine.py, line 9): KeyError: 'a'",
    ),
    "a rule that says FloatingPointError": (
        HEAD + RULE + "    def combine(self, cohort):\n"
        "        with np.errstate(all='raise'): return np.log(cohort.updates * 0)\n",
        ["--aggregator", "Mine()"],
        "Mine.combine failed (round 0, mine.py, line 10): FloatingPointError: divide by zero",
    ),
    "a file that is not there": (
        HEAD + RULE + "    def combine(self, cohort): open('/no/such')\n",
        ["--aggregator", "Mine()"],
        "Mine.combine failed (round 0, mine.py, line 9): FileNotFoundError",
    ),
    "too much memory": (
        HEAD + RULE + "    def combine(self, cohort): return np.zeros((10**7, 10**7))\n",
        ["--aggregator", "Mine()"],
        "Mine.combine failed (round 0, mine.py, line 9): MemoryError",
    ),
    "a ranker": (
        HEAD + RANKER + "    def scores(self, params, docs):\n"
        "        if len(docs) < 100: raise FloatingPointError('mine')\n"
        "        return docs @ params\n",
        ["--ranker", "Mine()"],
        "Mine.scores failed (round 0, mine.py, line 13): FloatingPointError: client 0, round 0:",
    ),
    "a measure": (
        HEAD + MEASURE + "    def of_list(self, grades, best): return grades[1000]\n",
        ["--measures", "Mine()"],
        "Mine.of_list failed (mine.py, line 9): IndexError",
    ),
}


def run(file, *words):
    small = ["--clients", "2", "--rounds", "1", "--quiet", "--data", "Synthetic(queries=20)"]
    out = ["--out", str(file.parent / "runs")]
    return CliRunner().invoke(app, ["run", *small, "--use", str(file), *words, *out])


@pytest.mark.parametrize("which", RUNS)
def test_an_error_in_a_run(file, which):
    text, words, told = RUNS[which]
    file.write_text(text)
    done = run(file, *words)
    assert done.exit_code == 1 and told in done.output, done.output
    assert "steps are too large" not in done.output and "Traceback" not in done.output


def test_what_foltr_raises_explains_itself(file):
    """Also when a user's code called it: here Plackett-Luce is asked to rank NaN."""
    file.write_text(
        HEAD + RULE + "    def combine(self, cohort): plackett_luce(np.array([np.nan]), 1, None)\n"
    )
    done = run(file, "--aggregator", "Mine()")
    assert done.exit_code == 2 and "the scores are not finite: the steps are" in done.output


def test_a_run_of_a_sweep_that_fails_in_a_users_code(file):
    file.write_text(RUNS["a rule that says FloatingPointError"][0])
    study = file.with_name("study.toml")
    study.write_text(
        'data = "Synthetic(queries=20)"\nclients = 2\nrounds = 1\naggregator = "Mine()"\n'
        'use = ["mine.py"]\n[sweep]\nseed = [1]\n'
    )
    words = ["sweep", str(study), "--jobs", "1", "--out", str(file.parent / "runs")]
    done = CliRunner().invoke(app, words)
    told = RUNS["a rule that says FloatingPointError"][2]
    assert done.exit_code == 2 and told in " ".join(done.output.split()), done.output
    (failed,) = (file.parent / "runs").glob("*/failed.json")
    assert told in json.loads(failed.read_text())["error"]
