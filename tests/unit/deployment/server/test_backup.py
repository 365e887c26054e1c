"""Backups of a server's state: whole or not at all, and of one moment while the server writes."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from small_server import one_round, small_server

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.deployment.server import backup as backups
from foltr.deployment.server.backup import backup, known_backups, snapshot
from foltr.deployment.server.restore import Manifest, read_backup, write_backup
from foltr.deployment.server.state import ServerState
from foltr.experiment.user_files import Code


@pytest.fixture
def server(tmp_path):
    return small_server(tmp_path / "here")


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_backup_has_every_file_of_the_state(server, tmp_path):
    file, state = server
    path = backup(file, Code(), tmp_path / "b.tar")
    about, files = read_backup(path)
    assert about.round == 5 and stat.S_IMODE(path.stat().st_mode) == 0o600
    for name in ("agreement.json", "checkpoint.npz", "rounds.jsonl", "took_part.jsonl"):
        assert files[name] == (state.path / name).read_bytes()
    assert files["seed.txt"] == (state.path / "seed.txt").read_bytes()
    assert files["roster.toml"] == (file.parent / "roster.toml").read_bytes()
    assert {name for name in files if name.startswith("models/")} == {
        f"models/{t:08d}.npy" for t in range(1, 6)
    }
    assert known_backups(state.path) == [{"path": str(path), "round": 5, "made": about.made}]


def test_a_restored_server_knows_whom_it_has_asked_lately(server, tmp_path):
    """For `separation`: they would refuse."""
    file, state = server
    state.add_asked(4, np.array([0, 3]), 3)
    _, files = read_backup(backup(file, Code(), tmp_path / "asked.tar"))
    assert files["asked.jsonl"] == (state.path / "asked.jsonl").read_bytes()


def test_in_a_folder_it_gets_a_name(server, tmp_path):
    file, _ = server
    path = backup(file, Code(), tmp_path)
    assert path.parent == tmp_path and "-round-000005-2" in path.name


def test_no_private_key_is_in_it(server, tmp_path):
    file, _ = server
    content = backup(file, Code(), tmp_path / "b.tar").read_bytes()
    secrets = [line for key in file.parent.rglob("*.key") for line in key.read_bytes().split()]
    long = [line for line in secrets if len(line) > 30]
    assert len(long) > 4 and not any(line in content for line in long)


def test_while_the_server_writes_the_copy_is_of_one_moment(tmp_path):
    """Models, checkpoint and lines fit together in every copy, though a round ends all the
    time."""
    file, state = small_server(tmp_path / "here", done=1)
    began = time.monotonic()
    snapshot(state.path, file.parent / "roster.toml")
    rest_seconds = 5.0 * (time.monotonic() - began)  # between rounds: a copy takes less
    over, failed, ended = threading.Event(), [], threading.Semaphore(0)

    def write():
        try:
            for t in range(1, 10**6):
                if over.is_set():
                    return
                one_round(state, t)
                ended.release()
                over.wait(rest_seconds)
        except BaseException as error:
            failed.append(error)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = []
        for _ in range(12):
            assert ended.acquire(timeout=60)  # one more round has ended
            copies.append(snapshot(state.path, file.parent / "roster.toml"))
    finally:
        over.set()
        writer.join()
    assert not failed
    newest = set()
    for number, files in enumerate(copies):
        folder = tmp_path / f"copy-{number}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        found = ServerState(folder)
        now, lines = found.load(), [line["round"] for line in found.rounds()]
        newest.add(lines[-1])
        assert lines == list(range(len(lines))) and now.t - len(lines) in (0, 1)
        assert found.models()[-1] - now.t in (0, 1) and now.t in found.models()
        assert np.array_equal(found.model(now.t), now.params)
        assert max(found.participants()) - now.t in (-1, 0)
    assert len(newest) > 1  # it did write meanwhile


def test_a_state_that_never_rests_is_given_up(server, monkeypatch):
    file, state = server
    count = [0]
    real = backups._stamps

    def restless(*given):
        count[0] += 1
        yield from ((path, (*stamp[:2], count[0])) for path, stamp in real(*given))

    monkeypatch.setattr(backups, "_stamps", restless)
    with pytest.raises(Mistake, match=r"changed all the time for 0\.2 s: try again, or stop"):
        snapshot(state.path, file.parent / "roster.toml", patience=0.2)


# ---- mistakes


def test_mistakes(server, tmp_path):
    file, state = server
    (tmp_path / "there.tar").write_text("x")
    for out, told in (
        (tmp_path / "there.tar", "exists, and backups are never overwritten"),
        (tmp_path / "no" / "b.tar", "there is no folder"),
        (tmp_path / "no", "there is no folder"),
        (state.path, "is in the state folder itself"),
        (state.path / "models" / "b.tar", "is in the state folder itself"),
    ):
        with pytest.raises(Mistake, match=told):
            backup(file, Code(), out)
    assert (tmp_path / "there.tar").read_text() == "x"
    (file.parent / "roster.toml").unlink()
    with pytest.raises(Mistake, match="there is no roster"):
        backup(file, Code(), tmp_path / "b.tar")
    shutil.rmtree(state.path)
    with pytest.raises(Mistake, match="has no state of a server: check state in"):
        backup(file, Code(), tmp_path / "b.tar")
    assert names(tmp_path) == ["here", "there.tar"]


def test_a_state_of_another_federation(server, tmp_path):
    file, _ = server
    file.write_text(file.read_text().replace("rounds = 20", "rounds = 21"))
    with pytest.raises(Mistake, match="another federation: rounds is 21"):
        backup(file, Code(), tmp_path / "b.tar")


def test_a_damaged_checkpoint_is_not_backed_up(server, tmp_path):
    file, state = server
    (state.path / "checkpoint.npz").write_bytes(b"PK nonsense")
    with pytest.raises(Mistake, match=r"checkpoint\.npz cannot be read"):
        backup(file, Code(), tmp_path / "b.tar")


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
from foltr.cli.app import app
sys.argv = ["foltr", "backup", *sys.argv[1:]]
app()
"""


def test_a_disk_that_is_full_leaves_nothing(server, tmp_path):
    file, state = server
    before = names(state.path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(file), str(tmp_path / "b.tar")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("foltr: cannot write") and "File too large" in done.stderr
    assert names(tmp_path) == ["here"] and names(state.path) == before


STOPPED = """
import os, sys, time
from pathlib import Path
real, mark = os.fsync, Path(sys.argv[-1])
def fsync(file):
    real(file)
    mark.touch()
    time.sleep(60)
os.fsync = fsync
from foltr.cli.app import app
sys.argv = ["foltr", "backup", *sys.argv[1:-1]]
app()
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle(server, tmp_path, signum):
    file, _ = server
    mark = tmp_path / "here" / "now"
    words = [sys.executable, "-c", STOPPED, str(file), str(tmp_path / "b.tar"), str(mark)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while not mark.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signum)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 128 + signum and "stopped: no backup was made" in told
    assert "Traceback" not in told and names(tmp_path) == ["here"]


def test_the_command(server, tmp_path):
    file, _ = server
    done = CliRunner().invoke(app, ["backup", str(file), str(tmp_path / "b.tar")])
    assert (done.exit_code, done.stdout) == (0, f"made {tmp_path / 'b.tar'}\n")
    done = CliRunner().invoke(app, ["backup", str(file), str(tmp_path / "b.tar")])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    done = CliRunner().invoke(app, ["backup", str(tmp_path / "no.toml"), str(tmp_path / "c.tar")])
    assert done.exit_code == 2 and "no.toml" in done.stderr


# ---- the file


@pytest.fixture
def whole(server, tmp_path):
    return backup(server[0], Code(), tmp_path / "b.tar")


def test_a_changed_byte_in_any_member_is_noticed(whole, tmp_path):
    """A change anywhere in the content or its manifest is noticed. What tar adds (names of users,
    padding) is not used."""
    content, draws = whole.read_bytes(), np.random.default_rng(1)
    with tarfile.open(whole) as archive:
        used = [(m.offset_data, m.size) for m in archive.getmembers()]
    other = tmp_path / "other.tar"
    for start, size in used:
        place = start + int(draws.integers(size))
        other.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(Mistake, match="is no backup, or is damaged"):
            read_backup(other)
    for end in (0, 100, 1_000, len(content) // 2):
        other.write_bytes(content[:end])
        with pytest.raises(Mistake, match="is no backup, or is damaged"):
            read_backup(other)


def test_unexpected_members_are_refused(whole, tmp_path):
    for name in ("../evil", "/etc/passwd", "models/../../x.npy", "running.lock", "seed.txt"):
        bad = tmp_path / "bad.tar"
        shutil.copy(whole, bad)
        with tarfile.open(bad, "a") as archive:
            info = tarfile.TarInfo(name)
            archive.addfile(info)
        with pytest.raises(Mistake, match="it has an unexpected member"):
            read_backup(bad)
    with tarfile.open(bad, "w") as archive:
        link = tarfile.TarInfo("seed.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(Mistake, match=r"unexpected member 'seed\.txt'"):
        read_backup(bad)
    with tarfile.open(bad, "w", format=tarfile.PAX_FORMAT) as archive:  # a file of holes
        info = tarfile.TarInfo("seed.txt")
        info.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
        archive.addfile(info)
    with pytest.raises(Mistake, match=r"unexpected member 'seed\.txt'"):
        read_backup(bad)


def test_a_backup_of_a_later_format_is_refused(tmp_path):
    about = Manifest("00", 1, "2026-01-01T00:00:00+00:00", format=2)
    write_backup(tmp_path / "b.tar", about, {})
    with pytest.raises(Mistake, match="its format is 2, and this foltr reads 1: update foltr"):
        read_backup(tmp_path / "b.tar")


def test_files_that_are_missing(tmp_path):
    about = Manifest("00", 1, "2026-01-01T00:00:00+00:00")
    write_backup(tmp_path / "b.tar", about, {"seed.txt": b"1\n"})
    with pytest.raises(Mistake, match="files are missing"):
        read_backup(tmp_path / "b.tar")


@pytest.mark.parametrize("kind", ["none", "folder", "text", "pipe"])
def test_other_files_are_no_backups(tmp_path, kind):
    path = tmp_path / "b"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("hello")
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(Mistake, match=r"no file|is no backup"):
        read_backup(path)


def test_notes_that_a_crash_has_cut_are_left_out(server, tmp_path):
    file, state = server
    path = backup(file, Code(), tmp_path / "b.tar")
    with open(state.path / backups.NOTES, "a") as notes:
        notes.write('{"path": 1}\n[]\n{"pa')
    assert [about["path"] for about in known_backups(state.path)] == [str(path)]
    Path(path).unlink()
    assert known_backups(state.path) == [] and known_backups(tmp_path / "gone") == []
    assert json.loads((state.path / backups.NOTES).read_text().splitlines()[0])["round"] == 5
