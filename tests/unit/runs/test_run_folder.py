"""The folder of a run: it says all; what is damaged, or cannot be written, is refused with the way
out."""

import json
import os

import numpy as np
import pytest

from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.runs.folder import Folder
from foltr.runs.metrics import Metrics

SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)  # type: ignore[arg-type]


def test_the_folder_says_all(tmp_path):
    result = SMALL.run(tmp_path)
    names = {file.name for file in result.folder.iterdir()}
    assert names == {"config.toml", "environment.json", "metrics.csv", "params.npy", "result.json"}
    about = json.loads((result.folder / "environment.json").read_text())
    assert about["identity"] in result.folder.name and about["packages"]["numba"]
    np.testing.assert_array_equal(np.load(result.folder / "params.npy"), result.params)


DAMAGE = {
    "params.npy": [b"", b"\x93NUMPY"],
    "metrics.csv": [b"", b"garbage", b"round,other\n1,2\n"],
    "result.json": [b"", b"[]", b"{}", b'{"rounds": 3}'],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, c) for name, all_ in DAMAGE.items() for c in all_]
)
def test_a_damaged_result_is_refused(name, content, tmp_path):
    folder = SMALL.run(tmp_path).folder
    (folder / name).write_bytes(content)
    with pytest.raises(Mistake, match="if it is damaged, delete it"):
        SMALL.run(tmp_path)


def test_a_result_that_lost_rounds_is_refused(tmp_path):
    folder = SMALL.run(tmp_path).folder
    lines = (folder / "metrics.csv").read_text().splitlines()
    (folder / "metrics.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(Mistake, match=r"metrics\.csv is not as it was written"):
        SMALL.run(tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path):
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


def test_a_damaged_run_is_refused(tmp_path):
    folder = SMALL.run(tmp_path).folder
    (folder / "params.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(Mistake, match="damaged"):
        SMALL.run(tmp_path)
    (folder / "result.json").unlink()
    (folder / "checkpoint.npz").write_bytes(b"PK nonsense")
    with pytest.raises(Mistake, match="delete it to start this run again"):
        SMALL.run(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
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
