"""What one test leaves behind, the next does not find."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import foltr
import surroundings
from foltr.core.spec import FAMILIES, aggregators
from foltr.core.system.files import cache_folder
from foltr.report.chapters.registry import chapters

TESTS = Path(surroundings.__file__).parent
ERRORS_OF_NUMPY = np.geterr()
RULE = """
from dataclasses import dataclass
from foltr.core.kinds import Memoryless
from foltr.report.chapters.registry import chapter
from foltr.core.spec import aggregator

@aggregator
@dataclass(frozen=True)
class LeftBehind(Memoryless):
    def combine(self, cohort):
        return cohort.updates.mean(0)

@chapter
def left_behind(runs):
    pass
"""


def registered():
    components = {(family.folder, name) for family in FAMILIES for name in family.members()}
    files = {name for name in sys.modules if name.startswith("foltr_user_")}
    return components, [chapter.name for chapter in chapters()], files


def test_a_users_file_is_gone_after_the_test(tmp_path):
    before = registered()
    file = tmp_path / "rule.py"
    file.write_text(RULE)
    for _ in range(2):  # it can be loaded again
        with surroundings.restored(__name__):
            foltr.use(file)
            assert ("aggregators", "LeftBehind") in registered()[0]
            assert "left_behind" in registered()[1]
        assert registered() == before


def test_a_changed_file_is_again_what_it_was(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text(RULE)
    foltr.use(file)
    first = aggregators.members()["LeftBehind"]
    with surroundings.restored(__name__):
        file.write_text(RULE + "# changed\n")
        foltr.use(file)
        assert sys.modules[first.__module__].LeftBehind is not first
    assert sys.modules[first.__module__].LeftBehind is first
    assert [chapter.name for chapter in chapters()].count("left_behind") == 1


def test_the_state_of_the_process_is_put_back(tmp_path):
    root = logging.getLogger()

    def state():
        return (
            dict(os.environ),
            os.getcwd(),
            list(sys.path),
            list(sys.argv),
            time.localtime(0).tm_hour,
            signal.getsignal(signal.SIGTERM),
            list(root.handlers),
            root.level,
        )

    before = state()
    with surroundings.restored(__name__):
        os.environ["TZ"] = "Pacific/Kiritimati"
        os.environ["FOLTR_CACHE"] = "elsewhere"
        del os.environ["HOME"]
        time.tzset()
        os.chdir(tmp_path)
        sys.path.insert(0, "elsewhere")
        sys.argv.append("word")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        root.addHandler(logging.NullHandler())
        root.setLevel(logging.DEBUG)
        changed = state()
    assert all(one != other for one, other in zip(before, changed, strict=True))
    assert state() == before


def test_draws_of_libraries_begin_at_the_same_place_in_every_test():
    drawn = []
    for _ in range(2):
        with surroundings.restored(__name__):
            drawn.append((random.random(), np.random.random()))  # noqa: NPY002
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda: os.umask(0o077), lambda: os.umask(surroundings.UMASK)),
        (lambda: np.seterr(all="raise"), lambda: np.seterr(**ERRORS_OF_NUMPY)),
        (lambda: logging.disable(), lambda: logging.disable(logging.NOTSET)),
    ],
    ids=["umask", "errors of NumPy", "disabled logging"],
)
def test_a_test_that_leaves_settings_of_the_process_behind_fails(change, back):
    with pytest.raises(AssertionError, match="did not restore"):
        with surroundings.restored(__name__):
            change()
    back()


def test_a_test_that_leaves_a_thread_behind_fails(monkeypatch):
    monkeypatch.setattr(surroundings, "THREAD_SECONDS", 0.0)
    end = threading.Event()
    with pytest.raises(AssertionError, match="left the thread idle behind"):
        with surroundings.restored(__name__):
            threading.Thread(target=end.wait, name="idle").start()
    end.set()


def test_home_caches_and_temporary_files_are_of_this_session_only():
    session = Path(os.environ[surroundings.FOLDER_VARIABLE])
    for folder in (Path.home(), cache_folder("data"), Path(tempfile.gettempdir())):
        assert folder.is_relative_to(session)


@pytest.mark.skipif(os.name == "nt", reason="not on this system: pseudo-terminals")
def test_the_width_of_the_users_terminal_is_not_seen(tmp_path):
    import pty

    file = tmp_path / "in_terminal.py"
    file.write_text(
        "import fcntl, struct, subprocess, sys, termios\n"
        "fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 20, 40, 0, 0))\n"
        "import readline\n"
        f"sys.path.insert(0, {str(TESTS)!r})\n"
        "import surroundings\n"
        "surroundings.isolate()\n"
        "subprocess.run(['sh', '-c', 'echo width:$COLUMNS.'])\n"
    )
    environment = {**os.environ}
    del environment[surroundings.FOLDER_VARIABLE]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, file], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    assert process.wait(60) == 0
    assert b"width:." in os.read(master, 10_000)
    os.close(master)


def test_of_the_users_variables_only_a_list_is_seen(tmp_path):
    users = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    users |= {"EDITOR": "ed", "FLWR_HOME": "theirs", "TZ": "EST"}
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r}); import surroundings, os, json;"
        " surroundings.isolate(); print(json.dumps(dict(os.environ)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=users | {"FOLTR_CLAIMS": "claims", "FOLTR_DATA": "data"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert (seen["PATH"], seen["TZ"]) == (users["PATH"], "UTC")
    assert "EDITOR" not in seen and "theirs" not in seen.values()
    folders = seen["FOLTR_CLAIMS"], seen[surroundings.DATA_VARIABLE]
    assert folders == (str(tmp_path / "claims"), str(tmp_path / "data"))
    assert "FOLTR_DATA" not in seen
    assert not Path(seen["HOME"]).exists()  # its session is over


@pytest.mark.skipif(sys.platform != "linux", reason="not on this system: /dev/shm")
def test_the_folder_of_a_killed_session_is_deleted_and_that_of_a_running_one_is_not(tmp_path):
    killed, running, new = (tmp_path / f"{surroundings.FOLDER_PREFIX}{name}" for name in "abc")
    for folder in (killed, running, new):
        folder.mkdir()
        (folder / "file").touch()
        os.utime(folder, (0, 0))
    os.utime(new)
    surroundings._lock(running)
    surroundings._delete_folders_of_killed_sessions(str(tmp_path))
    assert [folder.exists() for folder in (killed, running, new)] == [False, True, True]
