"""A state folder of an earlier foltr, which is converted whole or refused."""

import json
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from old_server import old_server

from foltr.core.errors import Mistake
from foltr.core.system.lock import Claim
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.server import state_folder
from foltr.deployment.server.backup import backup
from foltr.deployment.server.state import Forgotten, Plan, Restored
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code


@pytest.fixture
def old(tmp_path):
    """The settings file, and the state folder."""
    return old_server(tmp_path)


def contents(folder):
    return {
        f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()
    }


def check(file, folder):
    """Everything of the old files is in the state, and a copy of them beside it."""
    told = []
    state = open_state(folder, told.append)
    state.check_agreement(read_server(file, Code())[0])
    state.check_roster(read_roster(file.parent / "roster.toml"))
    now = state.load()
    assert (now.t, now.withheld, now.params.tolist()) == (5, 2, [4.0] * 3)
    assert [each[0] for each in now.aggregator] == list(range(12)) and len(now.optimizer) == 1
    assert state.models() == [0, 1, 2, 3, 4, 5] and state.model(3).tolist() == [2.0] * 3
    assert state.rounds() == [{"round": t, "answered": 4} for t in range(5)]
    assert state.asked_between(4, 5).tolist() == [0, 3] and state.seed(None) == 77
    took_part = {t: ids.tolist() for t, ids in state.participants().items()}
    assert took_part == {0: [0, 1], 2: [0, 1, 2], 4: [0, 1]}
    assert state.contributors().tolist() == [0, 1, 2]
    assert state.forgotten == Forgotten(
        nodes=("b",), pending=("a",), wished=("a",), clients=(3,), untold_clients=(3,), since=3,
        compared=4, plan=Plan(("a",), 5, (0, 2), 1),
    )  # fmt: skip
    copy = folder.with_name("state-before-state.db.tar")
    assert state.backups() == [(str(file), 1), (str(copy), 5)]
    assert os.stat(copy).st_mode & 0o077 == os.stat(folder / "state.db").st_mode & 0o077 == 0
    left = {path.name for path in folder.iterdir()} - {"ranker.json", "running.lock"}
    assert left == {"state.db", "state.db-wal", "state.db-shm"}
    return told, copy


def test_it_is_converted_and_a_copy_is_kept_beside_it(old):
    file, folder = old
    (folder / "ranker.json").write_text("{}")
    before = contents(folder)
    told, copy = check(file, folder)
    assert len(told) == 1 and f"its files are in {copy}" in told[0]
    with tarfile.open(copy) as archive:
        kept = {member.name: archive.extractfile(member).read() for member in archive}
    assert kept | {"ranker.json": b"{}"} == before
    assert (folder / "ranker.json").read_text() == "{}"  # `foltr export` reads it
    told, _ = check(file, folder)  # once
    assert told == []


STOPPED = """
import os, sys
from pathlib import Path
from foltr.deployment.server import state_folder
left = [int(sys.argv[2])]
def stop(*given):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
sys.addaudithook(lambda event, given: event in ("os.rename", "os.remove", "os.rmdir") and stop())
state_folder.open_state(Path(sys.argv[1]), print)
"""


def test_an_interrupted_conversion_is_made_again(old):
    """It is killed before each of its steps on the disk, one after another."""
    file, folder = old
    for steps in range(100):
        words = [sys.executable, "-c", STOPPED, str(folder), str(steps)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode == 0:
            break
        assert done.returncode == 9, done.stderr
    assert steps > 5
    for part in folder.glob(".*"):  # which a kill left
        part.unlink()
    check(file, folder)


def test_a_server_that_runs_is_not_touched(old):
    _, folder = old
    before = contents(folder)
    with Claim(folder).held(wait=False), pytest.raises(Mistake, match="another process uses"):
        open_state(folder, print)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("checkpoint.npz", b"PK nonsense"),
        ("forgotten.json", b"{"),
        ("forgotten.json", b'{"unheard": [1]}'),
        ("seed.txt", b"seven"),
        ("models/00000002.npy", b""),
        ("contributed.ids", b"\xff"),
        ("took_part.jsonl", b'{"round": 1}'),
        ("rounds.jsonl", b"\xff"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_changed(old, name, content):
    _, folder = old
    (folder / name).write_bytes(content)
    before = contents(folder)
    with pytest.raises(Mistake, match=f"{name} cannot be read"):
        open_state(folder, print)
    assert contents(folder) == before and not list(folder.parent.glob("*.tar"))


def test_a_restored_state_is_still_one(old):
    _, folder = old
    mark = {"backup": "b.tar", "round": 5, "made": "then", "restored": "now", "complete": True}
    (folder / "restored.json").write_text(json.dumps(mark))
    assert open_state(folder, print).restored == Restored("b.tar", 5, "then", "now")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"complete": False}, "restored only in part: move its files away, and `foltr restore`"),
        ({"decided": {"rounds": 7, "first": None}}, "start it once with the foltr of before"),
    ],
)
def test_half_a_restored_state_is_refused(old, changed, told):
    _, folder = old
    mark = {"backup": "b.tar", "round": 5, "made": "then", "restored": "now", "complete": True}
    (folder / "restored.json").write_text(json.dumps(mark | changed))
    with pytest.raises(Mistake, match=told):
        open_state(folder, print)
    assert not (folder / "state.db").exists()


def test_a_state_that_did_not_store_contributors(old):
    _, folder = old
    (folder / "contributed.ids").unlink()
    state = open_state(folder, print)
    assert state.contributors() is None
    state.add_contributors(np.array([1]))
    assert state.contributors() is None


def test_an_early_state_had_no_file_of_who_was_forgotten(old):
    _, folder = old
    (folder / "forgotten.json").unlink()
    assert open_state(folder, print).forgotten == Forgotten()


def test_two_states_in_one_folder_are_refused(old):
    _, folder = old
    open_state(folder, print).close()
    (folder / "agreement.json").write_text("{}")
    with pytest.raises(Mistake, match=r"has state\.db, and agreement\.json of an earlier foltr"):
        open_state(folder, print)
    assert (folder / "agreement.json").exists()


def test_it_is_not_backed_up_before_it_is_converted(old, tmp_path):
    file, folder = old
    before = contents(folder)
    with pytest.raises(Mistake, match="start the server once, which converts it"):
        backup(file, Code(), tmp_path / "b.tar")
    assert contents(folder) == before


def test_a_full_disk_changes_nothing(old, monkeypatch):
    _, folder = old
    before = contents(folder)

    def full(*_):
        raise Mistake("cannot write: No space left on device")

    monkeypatch.setattr(state_folder, "write_whole", full)
    with pytest.raises(Mistake, match="No space left"):
        open_state(folder, print)
    assert contents(folder) == before
