"""What a reviewer broke once: faulty components, damaged files, odd surroundings. Each is one
message or just works."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD
from foltr.components.sources.synthetic import Synthetic
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.kinds import Memoryless, OptimizerDefaults
from foltr.runs.folder import Folder
from foltr.spec import FAMILIES, aggregators, click_models, optimizers, rankers, sources
from foltr.world.population import iid

SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def forget_components():
    yield
    for family in FAMILIES:
        family.forget(__name__)


@dataclass(frozen=True)
class Table:
    """A click model of any table."""

    fill: float = 0.5
    depth: int | None = None

    def tables(self, grades, depth):
        table = np.full((self.depth or depth, grades), self.fill)
        return table, table

    def clicks(self, shown, grades, rng):
        return np.ones(len(shown), bool)


WRONG_TABLES = [({"fill": 2.0}, "no probability"), ({"depth": 3}, "Table.tables gave")]


@pytest.mark.parametrize(("fields", "message"), WRONG_TABLES)
def test_click_tables_are_checked_before_a_kernel_reads_them(fields, message):
    click_models.register(Table)
    replace(SMALL, users=Table()).run()
    with pytest.raises(Mistake, match=message):
        replace(SMALL, users=Table(**fields)).run()


@pytest.mark.parametrize(
    ("table", "value", "message"),
    [
        ("stops", 10**6, "documents"),
        ("labelling", 1, "labellings"),
        ("first", 20, "blocks"),
        ("last", 21, "blocks"),
        ("models", 1, "click models"),
        ("sessions", 0, "at least once"),
    ],
)
def test_a_population_must_exist(table, value, message):
    people = iid(SMALL.data.load("train"), SMALL.users, 3, 2)
    wrong = getattr(people, table).copy()
    wrong[1] = value
    with pytest.raises(Mistake, match=message):
        replace(people, **{table: wrong})


@dataclass(frozen=True)
class Split:
    """A source whose splits do not fit together."""

    change: str = "grades"

    splits = ("train", "test")

    def load(self, split):
        data = Synthetic(queries=20).load("train")
        if split == "train":
            return data
        changes = {
            "grades": {"grades": 5},
            "width": {"width": 40},
            "label": {"labels": data.labels + np.int8(1)},
        }
        return replace(data, **changes[self.change])


@pytest.mark.parametrize(
    ("change", "message"), [("grades", "fit"), ("width", "fit"), ("label", "reach")]
)
def test_splits_must_fit_together(change, message):
    sources.register(Split)
    with pytest.raises(Mistake, match=message):
        replace(SMALL, data=Split(change)).run()


@dataclass(frozen=True)
class Short:
    """A ranker whose scores are too few."""

    head = 0

    def init(self, features, rng):
        return np.zeros(features, np.float32)

    def scores(self, params, docs):
        return np.zeros(1, np.float32)

    def pullback(self, params, docs, dscores):
        return dscores @ docs


@dataclass(frozen=True)
class Halving(Short):
    """A ranker that writes into the documents."""

    def scores(self, params, docs):
        docs *= 0.5
        return docs @ params


def test_scores_are_checked_before_a_kernel_reads_them():
    rankers.register(Short)
    for engine in ("local", "debug"):
        with pytest.raises(Mistake, match=r"Short\.scores gave shape"):
            replace(SMALL, ranker=Short()).run(engine=engine)  # type: ignore[arg-type]


def test_nobody_writes_into_what_all_share():
    rankers.register(Halving)
    with pytest.raises(ValueError, match="read-only"):
        replace(SMALL, ranker=Halving()).run()


@dataclass(frozen=True)
class Odd(Memoryless):
    """An aggregator that gives something else."""

    kind: str = "one number"

    def combine(self, cohort):
        mean = cohort.updates.mean(axis=0, dtype=float)
        return {
            "one number": mean.sum(),
            "one row": mean[:1],
            "complex": mean * 1j,
            "short": mean[:-1],
        }[self.kind]


@pytest.mark.parametrize("kind", ["one number", "one row", "complex", "short"])
def test_a_direction_of_another_shape_is_not_stretched(kind):
    aggregators.register(Odd)
    with pytest.raises(Mistake, match=r"Odd gave .*, not \(46,\) real numbers"):
        replace(SMALL, aggregator=Odd(kind)).run()


@dataclass(frozen=True)
class Shrinking(OptimizerDefaults):
    """An optimizer that loses a parameter."""

    def init(self, dim):
        return ()

    def __call__(self, params, direction, memory):
        return params[:-1], memory


def test_an_optimizer_keeps_all_parameters():
    optimizers.register(Shrinking)
    with pytest.raises(Mistake, match="Shrinking gave"):
        replace(SMALL, optimizer=Shrinking()).run()


def test_parameters_must_fit_a_device():
    with pytest.raises(FloatingPointError, match="round 0"):
        replace(SMALL, optimizer="SGD(lr=1e40)").run()


DAMAGE = {
    "params.npy": [b"", b"\x93NUMPY"],
    "metrics.csv": [b"", b"garbage", b"round,other\n1,2\n"],
    "result.json": [b"", b"[]", b"{}", b'{"rounds": 3}'],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, c) for name, all_ in DAMAGE.items() for c in all_]
)
def test_a_damaged_result_is_told(name, content, tmp_path):
    folder = SMALL.run(tmp_path).folder
    (folder / name).write_bytes(content)
    with pytest.raises(Mistake, match="if it is damaged, delete it"):
        SMALL.run(tmp_path)


def test_a_result_that_lost_rounds_is_told(tmp_path):
    folder = SMALL.run(tmp_path).folder
    lines = (folder / "metrics.csv").read_text().splitlines()
    (folder / "metrics.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(Mistake, match=r"metrics\.csv is not as it was written"):
        SMALL.run(tmp_path)


def test_a_damaged_checkpoint_is_told(tmp_path):
    file = tmp_path / "checkpoint.npz"
    for save in (
        lambda f: f.write(b""),
        lambda f: np.save(f, np.zeros(3)),
        lambda f: np.savez(f, other=np.zeros(3)),
    ):
        with open(file, "wb") as opened:
            save(opened)
        with pytest.raises(Mistake, match="delete it to start this run again"):
            Folder(tmp_path).resume()


def foltr(*words, cwd, **env):
    words = [sys.executable, "-m", "foltr", *words]
    return subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, env={**os.environ, **env}, timeout=120
    )


QUICK = ["run", "--data", "Synthetic(queries=20)", "--clients", "2", "--rounds", "2"]


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
    done = foltr(*QUICK, cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0 and "offline nDCG@10" in done.stdout


def test_a_path_in_any_script_comes_back_from_the_config(tmp_path):
    letor(tmp_path / "sp ace ünï😀", 1)
    words = ["--rounds", "2", "--clients", "2", "--json"]
    first = json.loads(
        foltr("run", "--data", "Letor(path='sp ace ünï😀', grades=3)", *words, cwd=tmp_path).stdout
    )
    again = foltr("run", f"{first['run']}/config.toml", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == first


def test_a_damaged_compile_cache_is_compiled_anew(tmp_path):
    cache = str(tmp_path / "cache")
    code = (
        "import numpy as np\nfrom foltr.kernels.lists import finite\nprint(finite(np.zeros(3,"
        " np.float32), 3))"
    )
    for content in (b"", b"garbage"):
        for ending in ("nbi", "nbc"):
            env = {**os.environ, "FOLTR_CACHE": cache}
            run = [sys.executable, "-c", code]
            assert subprocess.run(run, env=env, capture_output=True, text=True).stdout == "True\n"
            damaged = list((tmp_path / "cache").rglob(f"*.{ending}"))
            assert damaged
            for file in damaged:
                file.write_bytes(content)
            assert subprocess.run(run, env=env, capture_output=True, text=True).stdout == "True\n"


def test_many_threads_may_be_first(tmp_path):
    code = """
from concurrent.futures import ThreadPoolExecutor
from foltr.experiment import Experiment

def run(i):
    parts = dict(data="Synthetic(queries=20)", ranker="Linear()", optimizer="Adam()")
    e = Experiment(clients=2, rounds=2, **parts)
    return e.run("runs").params.tobytes()

with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(run, range(8)))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr


def test_minus_zero_is_zero():
    assert repr(PDGD(mu=-0.0)) == repr(PDGD(mu=0.0))


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
