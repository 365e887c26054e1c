"""The command line as a user meets it: each call a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foltr import cli
from foltr.cli.app import COMMANDS, app
from foltr.cli.components import families, family_of
from foltr.core.spec import FAMILIES, brief
from foltr.experiment import Experiment
from quick_foltr import quick_foltr

SMALL = [
    "--data",
    "Synthetic(queries=30)",
    "--clients",
    "4",
    "--rounds",
    "6",
    "--evaluate-every",
    "3",
]


def foltr(*words, cwd, env=None, timeout=120):
    return subprocess.run(
        [*quick_foltr(), *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "120", **(env or {})},
    )


def refused(*words, cwd, env=None):
    """Exit code 2, one message, no traceback."""
    done = foltr(*words, cwd=cwd, env=env)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


HEAVY = (
    "numba",
    "scipy",
    "numpy",
    "sklearn",
    "cryptography",
    "rich.table",
    "foltr.core.types",
    "foltr.experiment",
)


def test_help_is_instant(tmp_path):
    heavy = f"{{m for m in {HEAVY} if m in sys.modules}}"  # an old typer loads rich.table itself
    code = f"import sys, typer\nown = {heavy}\nimport foltr.cli.app\nprint([*{heavy} - own])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "learning to rank" in foltr("--help", cwd=tmp_path).stdout
    for command in (*COMMANDS, "data", "keys"):
        assert "Usage" in CliRunner().invoke(app, [command, "--help"]).stdout


def test_each_module_holds_commands():
    modules = {file.stem for file in Path(cli.__file__).parent.glob("*.py")}
    shared = {"__init__", "app", "tools", "chart", "demo_devices", "demo_federation"}
    homes = {"list": "components", "show": "components", "watch": "report", "clean": "status"}
    homes |= {"restore": "backup", "check": "backup"}
    homes |= dict.fromkeys(("serve", "node", "gateway", "simulate-devices"), "deploy")
    assert modules - shared == {
        homes.get(name, name) for name in (*COMMANDS, "data", "keys", "device")
    }
    for name, command in COMMANDS.items():
        assert command.__module__ == f"foltr.cli.{homes.get(name, name)}"


def test_help_names_the_defaults(tmp_path):
    told = re.sub(r"[\s│]+", " ", foltr("run", "--help", cwd=tmp_path).stdout)
    for field in fields(Experiment):
        plain = {"None": "none", "False": "false", "()": "nobody"}.get(
            str(field.default), str(field.default)
        )
        default = brief(field.default) if is_dataclass(field.default) else plain
        assert f"--{field.name.replace('_', '-')} " in told and f"Default: {default}" in told


def test_run_prints_one_json_object(tmp_path):
    done = foltr("run", *SMALL, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    final = json.loads(done.stdout.splitlines()[-1])
    assert {"ndcg@10", "online", "expected_maxrr", "interactions", "seconds", "run"} <= set(final)
    assert final["interactions"] == 4 * 6 * 4
    assert (tmp_path / final["run"] / "result.json").exists()
    again = json.loads(foltr("run", *SMALL, "--json", cwd=tmp_path).stdout.splitlines()[-1])
    assert again == final


def test_a_file_an_option_and_a_component_of_ones_own(tmp_path):
    (tmp_path / "my_rule.py").write_text(
        '"""A rule of my own."""\nfrom dataclasses import dataclass\nfrom foltr.core.kinds import'
        " Memoryless\nfrom foltr.core.spec import"
        " aggregator\n\n@aggregator\n@dataclass(frozen=True)\nclass FirstOnly(Memoryless):\n   "
        ' """Listen to the first client only."""\n\n    scale: float = 1.0\n\n    def'
        " combine(self, cohort):\n        return self.scale * cohort.updates[0].astype(float)\n"
    )
    (tmp_path / "e.toml").write_text(
        'data = "Synthetic(queries=30)"\nclients = 4\nrounds = 6\naggregator = "FirstOnly()"\nuse'
        ' = ["my_rule.py"]\n'
    )
    one = json.loads(foltr("run", "e.toml", "--json", cwd=tmp_path).stdout)
    two = json.loads(
        foltr("run", "e.toml", "--aggregator", "FirstOnly(scale=2)", "--json", cwd=tmp_path).stdout
    )
    assert one["run"] != two["run"]
    config = tmp_path / two["run"] / "config.toml"
    assert 'aggregator = "FirstOnly(scale=2.0)"' in config.read_text()
    assert json.loads(foltr("run", str(config), "--json", cwd=tmp_path).stdout) == two
    listed = foltr("list", "aggregators", "--use", "my_rule.py", cwd=tmp_path).stdout
    assert "Listen to the first client only." in listed
    shown = foltr("show", "FirstOnly", "--use", "my_rule.py", cwd=tmp_path).stdout
    assert "scale: float = 1.0" in shown and "Listen to the first client only." in shown
    changed = (tmp_path / "my_rule.py").read_text().replace("updates[0]", "updates[1]")
    (tmp_path / "my_rule.py").write_text(changed)
    assert json.loads(foltr("run", "e.toml", "--json", cwd=tmp_path).stdout)["run"] != one["run"]


def test_show_says_each_field_once_with_type_default_and_meaning(tmp_path):
    shown = foltr("show", "FedPer", cwd=tmp_path).stdout.splitlines()
    field = shown.index("    learner: Learner = PDGD()")
    assert shown[field - 1] == "Fields" and shown[field + 1].startswith("        the learner")
    assert sum("learner:" in line for line in shown) == 1
    assert "    path: str (required)" in foltr("show", "Letor", cwd=tmp_path).stdout.splitlines()
    assert foltr("show", "IID", cwd=tmp_path).stdout.startswith("IID (partition, no fields)\n\n")


def test_a_component_of_an_installed_package_is_found(tmp_path):
    package, about = tmp_path / "site", tmp_path / "site" / "others-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[foltr.components]\nothers = others_components\n")
    (package / "others_components.py").write_text(
        "from dataclasses import dataclass\nfrom foltr.core.kinds import Memoryless\n"
        "from foltr.core.spec import aggregator\n\n@aggregator\n@dataclass(frozen=True)\n"
        'class Others(Memoryless):\n    """A rule from elsewhere."""\n\n'
        "    def combine(self, cohort):\n        return"
        " cohort.updates.mean(axis=0, dtype=float)\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    installed = {"PYTHONPATH": os.pathsep.join(filter(None, [str(package), before]))}
    assert (
        "A rule from elsewhere."
        in foltr("list", "aggregators", cwd=tmp_path, env=installed).stdout
    )
    assert (
        foltr("run", *SMALL, "--aggregator", "Others()", cwd=tmp_path, env=installed).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--learner", "PGD()"], "did you mean 'PDGD'"),
        (["run", "--learner", "PDGD(leraning=1)"], "PDGD has no field 'leraning'"),
        (["run", "--ranker", "MLP(hidden='x')"], "MLP.hidden: expected int, got 'x'"),
        (["run", "--data", "MQ2009()"], "did you mean 'MQ200"),
        (["run", "--data", "MQ2008(fold=6)"], "6"),
        (["run", "--data", "MQ2007(fold=1)"], "FOLTR_DATA"),
        (["run", "--clients", "0"], "clients must be in 1 .. 10^8, got 0"),
        (["run", "--learner", "PDGD(lr=-1)"], "lr must be > 0, got -1.0"),
        (["run", "--threads", "0"], "threads must be >= 1, got 0"),
        (["run", "--engine", "warp"], "'warp'"),
        (["run", "--empty", "maybe"], "'maybe' is none of 'skip', 'zero', 'one'"),
        (["run", "--clients", "many"], "Experiment.clients: expected int, got 'many'"),
        (["run", "--learner", "PDGD(lr=b'1')"], "PDGD.lr: expected float, got b'1'"),
        (["run", "--learner", f"PDGD(lr={10**400})"], "PDGD.lr: expected float, got 1000"),
        (["run", "--leaving", "[b'1']"], "Experiment.leaving: expected a tuple, got b'1'"),
        (["run", "--leaving", "[{[]}]"], "Experiment.leaving: expected a tuple, got '[{[]}]'"),
        (["run", "--clients", "9" * 5000], "Experiment.clients: expected int, got inf"),
        (["run", "--threads", "1.5"], "threads: expected int, got 1.5"),
        (["run", "missing.toml"], "cannot read missing.toml"),
        (["run", "--use", "missing.py"], "cannot read missing.py"),
        (
            ["run", "--learner", "PDGD(lr=3e38, sessions=10)", "--data", "Synthetic(queries=20)"],
            "steps are too large",
        ),
        (["show", "Maen"], "did you mean 'Mean'"),
        (["list", "rnkers"], "did you mean 'rankers'"),
        (["list", "optimiser"], "did you mean 'optimizer'"),
        (["data", "info", "MQ208"], "did you mean 'MQ2008'"),
        (["data", "add", "MQ2008", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_is_one_message(words, message, tmp_path):
    nowhere = {"FOLTR_DATA": str(tmp_path / "none"), "XDG_DATA_HOME": str(tmp_path / "no")}
    told = refused(*words, cwd=tmp_path, env=nowhere)
    assert message in re.sub(r"[\s│]+", " ", told)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").rglob("result.json"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cleints = 3\n", "unknown key 'cleints': did you mean 'clients'"),
        ("clients = \n", "is not TOML"),
        ('clients = "3"\n', "Experiment.clients: expected int, got '3'"),
        ("use = 3\n", "use must be a list of paths"),
        ("clients = 1.5\n", "expected int, got 1.5"),
        (f"clients = 0x{'f' * 5000}\n", "e.toml: it holds an integer of more than 1000 bits"),
        (
            "learner" + ".x" * 3000 + " = 1\n",
            "e.toml: its tables or lists are nested more than 50 deep",
        ),
        ("clients = 1979-05-27\n", "expected int, got datetime.date(1979, 5, 27)"),
    ],
)
def test_a_file_with_a_mistake_is_refused(content, message, tmp_path):
    (tmp_path / "e.toml").write_text(content)
    assert message in refused("run", "e.toml", cwd=tmp_path)


def test_a_sweep_with_values_of_any_kind_is_refused(tmp_path):
    (tmp_path / "e.toml").write_text("[sweep]\nclients = [1, 2]\n")
    for given, message in (
        ("learner.lr=b'1'", "PDGD.lr: expected float, got b'1'"),
        ("learner.lr={1: 2}", "learner.lr: names of fields must be text, got {1: 2}"),
        (
            f"clients=0x{'f' * 5000}",
            "--set clients=an int that is too long to show has no effect: the file lists",
        ),
    ):
        assert message in refused("sweep", "e.toml", "--dry-run", "--set", given, cwd=tmp_path)
    twice = ["--set", "learner.lr=1", "--set", "learner.lr.x=2"]
    assert "lr is given both as a whole (1) and field by field" in refused(
        "sweep", "e.toml", "--dry-run", *twice, cwd=tmp_path
    )


def test_a_truth_value_is_written_alike_everywhere(tmp_path):
    file, out = tmp_path / "e.toml", tmp_path / "runs"
    file.write_text("attack = 'LittleIsEnough()'\n[sweep]\nmalicious = [1, 2]\n")

    def call(*words):
        return CliRunner().invoke(app, [*map(str, words)])

    for value in ("true", "True", "false"):
        done = call("sweep", file, "--dry-run", "--set", f"roaming={value}")
        assert done.exit_code == 0 and "2 experiments" in done.stdout, done.output
    wrong = call("sweep", file, "--dry-run", "--set", "roaming=ture")
    assert wrong.exit_code == 2 and "roaming: expected bool, got 'ture'" in wrong.output
    words = [*SMALL, "--attack", "LittleIsEnough()", "--malicious", "1", "--quiet", "--json"]
    made = [
        json.loads(call("run", *words, "--roaming", value, "--out", out).stdout)
        for value in ("true", "True")
    ]
    assert made[0] == made[1]
    assert "roaming = true" in (Path(made[0]["run"]) / "config.toml").read_text()


EARLIER = ["data", "privacy", "unlearning"]  # names of families before their folders were renamed
FIELDS = ["data", "partition", "users", "ranker", "learner", "attack", "aggregator", "optimizer",
          "privacy", "channel", "unlearning", "baseline", "measures"]  # fmt: skip


def test_a_family_is_listed_by_its_name_and_by_its_field():
    known = families()
    assert list(known.values()) == FIELDS and set(EARLIER) <= set(FIELDS)
    for registry, field in known.items():
        assert family_of(registry.folder) is family_of(field) is registry
        listed = [CliRunner().invoke(app, ["list", name]) for name in (field, registry.folder)]
        assert listed[0].exit_code == 0 and listed[0].stdout == listed[1].stdout
        assert all(name in listed[0].stdout for name in registry.members())
        assert f"--{field}" in listed[0].stdout
    everything = CliRunner().invoke(app, ["list"]).stdout
    assert all(registry.folder in everything for registry in FAMILIES)


def test_a_user_file_that_fails_is_named(tmp_path):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert "bad.py could not be loaded: ZeroDivisionError" in refused(
        "run", "--use", "bad.py", cwd=tmp_path
    )


def test_ctrl_c_in_the_middle(tmp_path):
    words = ["run", "--data", "Synthetic(queries=30)", "--clients", "200", "--rounds", "200000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "foltr", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any("interactions/s" in line for line in process.stderr)  # it is under way
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "the same command continues from there" in told and "Traceback" not in told
    assert list(tmp_path.glob("runs/*/checkpoint.npz"))


def test_data_commands(tmp_path):
    assert "MSLR10K" in foltr("data", "list", cwd=tmp_path).stdout
    assert "Microsoft" in foltr("data", "info", "MQ2008", cwd=tmp_path).stdout
    assert foltr("--version", cwd=tmp_path).stdout.startswith("foltr ")


def letor(folder, label):
    folder.mkdir(parents=True)
    for name in ("train.txt", "test.txt"):
        (folder / name).write_text(
            "".join(f"{label} qid:{q} 1:0.{d} 2:0.{q}\n" for q in (1, 2) for d in (3, 4, 5))
        )


def test_json_stays_json_where_nothing_is_relevant(tmp_path):
    letor(tmp_path / "zero", 0)
    words = ["run", "--data", "Letor(path='zero', grades=3)", "--rounds", "2", "--clients", "2"]
    done = foltr(*words, "--json", cwd=tmp_path)
    final = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert final["ndcg@10"] is None and "no held-out query has" in " ".join(final["notes"])
    again = foltr(*words, cwd=tmp_path)
    assert "offline nDCG@10  undefined" in again.stdout and "Warning" not in again.stderr


def test_an_output_that_knows_no_bars(tmp_path):
    done = foltr("run", *SMALL, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0 and "offline nDCG@10" in done.stdout


def test_a_path_in_any_script_comes_back_from_the_config(tmp_path):
    letor(tmp_path / "sp ace ünï😀", 1)
    words = ["--rounds", "2", "--clients", "2", "--json"]
    first = json.loads(
        foltr("run", "--data", "Letor(path='sp ace ünï😀', grades=3)", *words, cwd=tmp_path).stdout
    )
    again = foltr("run", f"{first['run']}/config.toml", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--clients", "100000000000000000000"], "clients must be in 1 .. 10^8"),
        (["run", "--data", "Letor(path='~nobody-of-that-name/x')"], "nobody-of-that-name"),
        (["run", "--out", "x" * 300], "File name too long"),
        (["run", "--ranker", "MLP(hidden=1000000000)"], "hidden must be in 1 .. 10^5"),
    ],
)
def test_impossible_things_are_refused(words, message, tmp_path):
    done = foltr(*words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_file_that_is_barely_toml(tmp_path):
    (tmp_path / "e.toml").write_text(
        "\ufeff" + 'data = "Synthetic(queries=20)"\nclients = 2\nrounds = 2\n', "utf-8"
    )
    assert foltr("run", "e.toml", cwd=tmp_path).returncode == 0
    (tmp_path / "deep.toml").write_text("clients = " + "[" * 100_000)
    assert foltr("run", "deep.toml", cwd=tmp_path).returncode == 2
