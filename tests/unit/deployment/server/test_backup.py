"""Backups of a server's state: whole or not at all, and of one moment while the server writes."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from small_server import one_round, small_server

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.deployment.server.backup import Manifest, backup, read_backup, write_backup
from foltr.deployment.server.state import ServerState
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code


@pytest.fixture
def server(tmp_path):
    return small_server(tmp_path / "here")


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_backup_has_all_of_the_state(server, tmp_path):
    file, state = server
    state.add_asked(4, np.array([0, 3]), 3)  # for `separation`: they would refuse
    state.save_ranker(read_server(file, Code())[0], np.ones(3))
    path = backup(file, Code(), tmp_path / "b.tar")
    about, files = read_backup(path)
    assert about.round == 5 and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files.keys() == {"state.db", "roster.toml", "ranker.json"}
    assert files["roster.toml"] == (file.parent / "roster.toml").read_bytes()
    copy = ServerState.from_copy(files["state.db"])
    assert rows(copy) == {**rows(state), "backup": []}
    assert copy.load().t == 5 and copy.models() == [1, 2, 3, 4, 5] and len(copy.rounds()) == 5
    assert copy.seed(None) == state.seed(None) and copy.asked_between(4, 5).tolist() == [0, 3]
    assert state.backups() == [(str(path), 5)]


def rows(state):
    """All rows of all tables."""
    tables = state._db.execute("select name from sqlite_master where type = 'table'").fetchall()
    return {name: state._db.execute(f"select * from {name}").fetchall() for (name,) in tables}


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
    """Models, checkpoint and lines fit together in every copy, though rounds end all the time."""
    _, state = small_server(tmp_path / "here", done=1)
    reader, over, failed = ServerState(state.path), threading.Event(), []

    def write():
        try:
            for t in range(1, 10**6):
                if over.is_set():
                    return
                one_round(state, t)
        except BaseException as error:
            failed.append(error)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = []
        for _ in range(12):
            copies.append(reader.copy())
            time.sleep(0.05)
    finally:
        over.set()
        writer.join()
    assert not failed
    newest = set()
    for content in copies:
        found = ServerState.from_copy(content)
        now, lines = found.load(), [line["round"] for line in found.rounds()]
        newest.add(now.t)
        assert lines == list(range(now.t)) and found.models()[-1] == now.t
        assert np.array_equal(found.model(now.t), now.params)
        assert max(found.participants()) == now.t - 1
    assert len(newest) > 1  # it did write meanwhile


# ---- mistakes


def test_mistakes(server, tmp_path):
    file, state = server
    (tmp_path / "there.tar").write_text("x")
    for out, told in (
        (tmp_path / "there.tar", "exists, and backups are never overwritten"),
        (tmp_path / "no" / "b.tar", "there is no folder"),
        (tmp_path / "no", "there is no folder"),
        (state.folder, "is in the state folder itself"),
        (state.folder / "superlink" / "b.tar", "is in the state folder itself"),
    ):
        with pytest.raises(Mistake, match=told):
            backup(file, Code(), out)
    assert (tmp_path / "there.tar").read_text() == "x"
    (file.parent / "roster.toml").unlink()
    with pytest.raises(Mistake, match="there is no roster"):
        backup(file, Code(), tmp_path / "b.tar")
    state.close()
    shutil.rmtree(state.folder)
    with pytest.raises(Mistake, match="has no state of a server: check state in"):
        backup(file, Code(), tmp_path / "b.tar")
    assert names(tmp_path) == ["here", "there.tar"]


def test_a_state_of_another_federation(server, tmp_path):
    file, _ = server
    file.write_text(file.read_text().replace("rounds = 20", "rounds = 21"))
    with pytest.raises(Mistake, match="another federation: rounds is 21"):
        backup(file, Code(), tmp_path / "b.tar")


def test_a_damaged_state_is_not_backed_up(server, tmp_path):
    file, state = server
    state.close()
    state.path.write_bytes(b"SQLite nonsense" * 500)
    with pytest.raises(Mistake, match=r"state\.db is damaged"):
        backup(file, Code(), tmp_path / "b.tar")
    assert names(tmp_path) == ["here"]


def test_a_state_without_rounds(tmp_path):
    file, _ = small_server(tmp_path / "here", done=0)
    with pytest.raises(Mistake, match="has no rounds yet: start the server once"):
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
    before = names(state.folder)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(file), str(tmp_path / "b.tar")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("foltr: cannot write") and "File too large" in done.stderr
    assert names(tmp_path) == ["here"] and names(state.folder) == before


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
    for name in ("../evil", "/etc/passwd", "models/../../x.npy", "running.lock", "state.db"):
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
    about = Manifest("00", 1, "2026-01-01T00:00:00+00:00", format=3)
    write_backup(tmp_path / "b.tar", about, {})
    with pytest.raises(Mistake, match="its format is 3, and this foltr reads 1 to 2: update"):
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


def test_backups_that_are_gone_are_left_out(server, tmp_path):
    file, state = server
    path = backup(file, Code(), tmp_path / "b.tar")
    other = backup(file, Code(), tmp_path / "c.tar")
    assert state.backups() == [(str(path), 5), (str(other), 5)]
    path.unlink()
    assert state.backups() == [(str(other), 5)]
