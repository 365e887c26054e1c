"""The folder of a run: it says all; what is damaged is told and made again; what cannot be written
is refused with the way out."""

import errno
import json
import os
import shutil

import numpy as np
import pytest

import foltr.simulation.runs.folder
from foltr.core.errors import Mistake
from foltr.core.system.files import content_of
from foltr.experiment import Experiment
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.folder import Damaged, Folder

SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)  # type: ignore[arg-type]


def test_the_folder_says_all(tmp_path):
    result = SMALL.run(tmp_path)
    names = {file.name for file in result.folder.iterdir()}
    assert names == {"config.toml", "environment.json", "metrics.csv", "params.npy", "result.json"}
    about = json.loads((result.folder / "environment.json").read_text())
    assert about["identity"] in result.folder.name and about["packages"]["numba"]
    np.testing.assert_array_equal(np.load(result.folder / "params.npy"), result.params)


DAMAGE = {  # None: the file is gone
    "params.npy": [None, b"", b"\x93NUMPY"],
    "metrics.csv": [None, b"", b"garbage", b"round,other\n1,2\n"],
    "result.json": [b"", b"[]", b"{}", b'{"rounds": 3}', b"\x00\xff"],
    "config.toml": [None, b"data = 'Syn"],
    "environment.json": [None, b"[1]"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return SMALL.run(tmp_path_factory.mktemp("made")).folder


@pytest.fixture
def run(made, tmp_path):
    """A finished run that a test may damage."""
    return shutil.copytree(made, tmp_path / made.name)


def content(folder):
    """Of every file that is the same whenever a run is made."""
    names = ("config.toml", "metrics.csv", "params.npy")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize(
    ("name", "damage"), [(name, c) for name, all_ in DAMAGE.items() for c in all_]
)
def test_a_damaged_run_is_told_and_made_again(name, damage, made, run, capsys):
    if damage is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(damage)
    with pytest.raises(Damaged):
        Folder(run).finished()
    result = SMALL.run(run.parent)
    assert result.folder == run and not result.found and content(run) == content(made)
    told = capsys.readouterr().err
    assert told.startswith(f"foltr: {run} was damaged (") and "it is made again" in told
    assert SMALL.run(run.parent).found and capsys.readouterr().err == ""


def test_a_run_that_lost_rounds_is_made_again(made, run, capsys):
    lines = (run / "metrics.csv").read_text().splitlines()
    (run / "metrics.csv").write_text("\n".join(lines[:-1]))
    SMALL.run(run.parent)
    assert "metrics.csv is not as it was written" in capsys.readouterr().err
    assert content(run) == content(made)


def test_a_run_of_an_earlier_foltr_is_not_replaced(run):
    """It kept no sums: nothing shows that it is damaged."""
    final = json.loads((run / "result.json").read_text())
    del final["sums"]
    (run / "result.json").write_text(json.dumps(final))
    before = {file: file.read_bytes() for file in run.iterdir()}
    with pytest.raises(Damaged, match=r"earlier foltr.*if it is damaged, delete it"):
        SMALL.run(run.parent)
    assert {file: file.read_bytes() for file in run.iterdir()} == before


def test_a_file_that_cannot_be_opened_is_not_replaced(run, monkeypatch):
    def denied(path):
        if path.name == "params.npy":
            raise PermissionError(13, "Permission denied", str(path))
        return content_of(path)

    monkeypatch.setattr(foltr.simulation.runs.folder, "content_of", denied)
    with pytest.raises(Damaged, match=r"Permission denied.*if it is damaged, delete it"):
        SMALL.run(run.parent)
    monkeypatch.undo()
    assert SMALL.run(run.parent).found


@pytest.mark.parametrize(
    "name, options",
    [("queries.csv", {"per_query": True}), ("measures.json", {"measures": "nDCG(k=3)"})],
)
def test_a_damaged_extra_is_computed_again_and_the_run_stays(name, options, run, capsys):
    SMALL.run(run.parent, **options)
    whole, result = (run / name).read_bytes(), (run / "result.json").stat().st_mtime_ns
    (run / name).write_bytes(whole[:-9])
    found = SMALL.run(run.parent, **options)
    assert found.found and (run / name).read_bytes() == whole
    assert (run / "result.json").stat().st_mtime_ns == result
    assert f"was damaged ({name}: " in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(tmp_path):
    file = tmp_path / "checkpoint.npz"
    for save in (
        lambda f: f.write(b""),
        lambda f: np.save(f, np.zeros(3)),
        lambda f: np.savez(f, other=np.zeros(3)),
    ):
        with open(file, "wb") as opened:
            save(opened)
        with pytest.raises(Damaged, match="delete it to start this run again"):
            Folder(tmp_path).resume()


def test_a_run_with_a_damaged_checkpoint_starts_again(made, run, capsys):
    (run / "result.json").unlink()
    (run / "checkpoint.npz").write_bytes(b"PK nonsense")
    SMALL.run(run.parent)
    assert content(run) == content(made) and not (run / "checkpoint.npz").exists()
    assert "was damaged (checkpoint.npz: " in capsys.readouterr().err


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    if os.geteuid() == 0:  # root may write anywhere

        def read_only(path, *_, **__):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

        monkeypatch.setattr(os, "mkdir", read_only)
    tmp_path.chmod(0o500)
    with pytest.raises(Mistake, match="cannot write"):
        SMALL.run(tmp_path)


def test_a_full_disk_is_reported_and_leaves_nothing_half(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Mistake, match=r"cannot write .*: No space left on device"):
        SMALL.run(tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_an_output_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(Mistake, match="cannot write"):
        SMALL.run(tmp_path / "runs")


def test_metrics_survive_their_text():
    metrics = Metrics()
    metrics.evaluate(0, {"ndcg@10": 1 / 3})
    for value in (0.1, 2 / 7, float("nan")):
        for name in metrics.online:
            metrics.online[name].append(value)
    metrics.evaluate(3, {"ndcg@10": float("nan")})
    assert Metrics.from_csv(metrics.csv()).csv() == metrics.csv()


def test_no_checkpoint_no_resume(tmp_path):
    assert Folder(tmp_path).resume() is None and Folder(tmp_path).finished() is None
