"""What looks at files and runs that may be somebody else's loads no code but that of files that
were given."""

import json
import py_compile
import shutil
from importlib.util import cache_from_source
from py_compile import PycInvalidationMode

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.experiment import user_files

RULE = """
from dataclasses import dataclass
from pathlib import Path
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator

with open({log!r}, "a") as log:
    log.write({word!r} + "\\n")

@aggregator
@dataclass(frozen=True)
class Plainly(Memoryless):
    def combine(self, cohort):
        return cohort.updates.mean(axis=0, dtype=float)
"""
EXPERIMENT = """
use = ["my_rule.py"]
data = "Synthetic(queries=40)"
learner = "PDGD(sessions=2)"
aggregator = "Plainly()"
clients = 4
rounds = 6
history = 2
"""
QUICK = {
    "privacy": [],
    "audit": ["--queries", 4, "--games", 200],
    "unlearn": ["--clients", 1, "--retrainings", 0],
}


@pytest.fixture(autouse=True)
def forgotten():
    yield
    user_files.use_only(())


def foltr(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split()), done.output.splitlines()


@pytest.fixture
def theirs(tmp_path):
    """Somebody else's experiment, sweep, run and rule, which says when it is executed."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    write_rule(folder / "my_rule.py", tmp_path, "theirs")
    (folder / "e.toml").write_text(EXPERIMENT)
    (folder / "sweep.toml").write_text(EXPERIMENT + "[sweep]\nseed = [1, 2]\n")
    assert foltr("run", folder / "e.toml", "--out", folder / "runs", "--quiet")[0] == 0
    (run,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    run.rename(folder / run.name)
    shutil.rmtree(folder / "runs")
    user_files.use_only(())
    (tmp_path / "log").unlink()
    return folder, folder / run.name


def write_rule(file, tmp_path, word):
    file.write_text(RULE.format(log=str(tmp_path / "log"), word=word))


def executed(tmp_path):
    log = tmp_path / "log"
    return log.read_text().split() if log.exists() else []


def target(command, theirs):
    folder, run = theirs
    return {
        "privacy": folder / "e.toml",
        "privacy of a sweep": folder / "sweep.toml",
        "audit": run,
        "audit of a file": folder / "e.toml",
        "unlearn": run,
    }[command]


ALL = ["privacy", "privacy of a sweep", "audit", "audit of a file", "unlearn"]


def called(command, theirs, tmp_path, *words):
    name = command.split()[0]
    out = [] if name == "privacy" else ["--out", tmp_path / "out"]
    return foltr(name, target(command, theirs), *QUICK[name], *out, *words)


@pytest.mark.parametrize("command", ALL)
def test_code_that_was_not_given_is_not_loaded(command, theirs, tmp_path):
    code, said, _ = called(command, theirs, tmp_path)
    rule = theirs[0] / "my_rule.py"
    assert code == 2 and str(rule) in said and f"if you trust it, add --use {rule}" in said
    other = tmp_path / "other.py"
    write_rule(other, tmp_path, "other")
    assert called(command, theirs, tmp_path, "--use", other)[0] == 2
    assert executed(tmp_path) == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ALL)
def test_code_that_was_given_is_loaded_and_named(command, theirs, tmp_path):
    rule = theirs[0] / "my_rule.py"
    code, said, lines = called(command, theirs, tmp_path, "--use", rule)
    assert code == 0, said
    assert f"foltr: loading {rule}" in lines and executed(tmp_path) == ["theirs"]


@pytest.mark.parametrize("command", ["privacy", "privacy of a sweep", "audit of a file"])
def test_it_is_the_given_file_that_is_loaded_where_names_agree(command, theirs, tmp_path):
    mine = tmp_path / "mine" / "my_rule.py"
    mine.parent.mkdir()
    write_rule(mine, tmp_path, "mine")
    code, said, _ = called(command, theirs, tmp_path, "--use", mine)
    assert code == 0, said
    assert executed(tmp_path) == ["mine"]


@pytest.mark.parametrize("command", ["audit", "unlearn"])
def test_a_run_is_met_with_the_file_that_it_was_made_with(command, theirs, tmp_path):
    copy = tmp_path / "mine" / "my_rule.py"
    copy.parent.mkdir()
    write_rule(copy, tmp_path, "mine")
    code, said, _ = called(command, theirs, tmp_path, "--use", copy, "--quiet")
    assert code == 2 and f"{copy} is not the my_rule.py that {theirs[1]} was made with" in said
    assert executed(tmp_path) == []
    shutil.move(theirs[0] / "my_rule.py", copy)  # the folder has moved, and the file is the same
    wants = called(command, theirs, tmp_path)
    assert wants[0] == 2 and wants[1].endswith("add --use my_rule.py")
    code, said, lines = called(command, theirs, tmp_path, "--use", copy, "--quiet")
    assert code == 0, said
    assert executed(tmp_path) == ["theirs"] and not any("loading" in line for line in lines)


def test_files_of_one_name_are_given_one_by_one(theirs, tmp_path):
    folder, _ = theirs
    (folder / "more").mkdir()
    (folder / "more" / "my_rule.py").write_text("")
    file = folder / "e.toml"
    file.write_text(EXPERIMENT.replace('"my_rule.py"', '"my_rule.py", "more/my_rule.py"'))
    assert (
        foltr("privacy", file, "--use", folder / "my_rule.py")[0] == 2 and executed(tmp_path) == []
    )
    assert (
        foltr(
            "privacy",
            file,
            "--use",
            folder / "my_rule.py",
            "--use",
            folder / "more" / "my_rule.py",
        )[0]
        == 0
    )


def test_who_runs_a_file_runs_what_it_names(theirs, tmp_path):
    folder, _ = theirs
    assert foltr("run", folder / "e.toml", "--out", tmp_path / "out", "--quiet")[0] == 0
    assert executed(tmp_path) == ["theirs"]
    user_files.use_only(())
    assert foltr("sweep", folder / "sweep.toml", "--dry-run")[0] == 0
    assert executed(tmp_path) == ["theirs"] * 2


def test_what_is_executed_is_the_source_that_one_can_read(theirs, tmp_path):
    """Not what lies compiled beside it, which may be of another source and say that nobody need
    look."""
    rule = theirs[0] / "my_rule.py"
    text = rule.read_text()
    write_rule(rule, tmp_path, "compiled")
    py_compile.compile(
        rule, cache_from_source(rule), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    rule.write_text(text)
    assert foltr("privacy", theirs[0] / "e.toml", "--use", rule)[0] == 0
    assert executed(tmp_path) == ["theirs"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("\\u0000", "must be a list of paths"), ("a\\u001b[2Jb.py", r"\x1b[2Jb.py"), ("", "--use")],
)
def test_no_name_steers_the_terminal_or_ends_in_a_traceback(name, said, tmp_path):
    (tmp_path / "e.toml").write_text(f'use = ["{name}"]\n')
    for command in ("privacy", "audit"):
        code, told, _ = foltr(command, tmp_path / "e.toml")
        assert code == 2 and said in told and "\x1b" not in told


def test_an_environment_that_says_nothing_of_files(theirs, tmp_path):
    """Its sums do not fit any more: it is refused before any code is loaded."""
    environment = theirs[1] / "environment.json"
    environment.write_text(json.dumps({**json.loads(environment.read_text()), "files": {}}))
    assert called("audit", theirs, tmp_path, "--use", theirs[0] / "my_rule.py")[0] == 2
    assert executed(tmp_path) == []
