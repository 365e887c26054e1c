"""What every test finds: a home folder, caches, an environment and registries of its own, the same
on every machine and whatever test ran before."""

from __future__ import annotations

import atexit
import gc
import locale
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
FOLDER = "FOLTR_TESTS_FOLDER"  # of this test session: set for its worker processes
REAL_DATA = "FOLTR_TESTS_DATA"  # where the real collections are: FOLTR_DATA is the tests' to set
# variables of the user that tests and the processes that they start may see
KEPT_VARIABLES = {
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "VIRTUAL_ENV",
}
KEPT_PREFIXES = ("PYTEST_", "COV_", "FOLTR_TESTS_")
PREFIX = "foltr-tests-"  # of the names of these folders
MEMORY = "/dev/shm"
MIN_MEMORY_BYTES = 4 << 30
LOCKED_AFTER_SECONDS = 60.0  # a session has locked its folder by then
THREAD_SECONDS = 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
UMASK = 0o022
variables: dict[str, str] = {}  # of the environment, as every test finds it
_set_aside: dict[str, list[tuple[Any, type]]] = {}  # by test module: registry and class


def isolate() -> None:
    """Give this process an environment of a short list of variables, an empty home and an empty
    cache. Called before foltr and NumPy are imported. Workers of pytest-xdist inherit all that."""
    if FOLDER not in os.environ:
        memory = _memory()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory))
        if memory is not None:
            _lock(folder)
            _delete_folders_of_killed_sessions(memory)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        data = os.environ.get("FOLTR_DATA", str(CHECKOUT.parent / "shared" / "data"))
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
        }
        (folder / "home").mkdir()
        (folder / "cache").mkdir()
        (folder / "tmp").mkdir()
        os.environ.clear()
        os.environ.update(kept)
        os.environ |= {
            FOLDER: str(folder),
            REAL_DATA: data,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "FOLTR_CACHE": str(folder / "cache"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "OPENBLAS_NUM_THREADS": "1",  # on a busy machine its threads wait for each other
        }
        _keep_compiled_code(folder / "cache" / "kernels")
    tempfile.tempdir = None  # it is found again, by the new TMPDIR
    time.tzset()
    os.umask(UMASK)
    import foltr.federated  # noqa: F401  (it sets Flower's variables: every test finds them)

    variables.update(os.environ)
    # A shell starts background processes with Ctrl-C ignored, and their children inherit it: tests
    # that press it would wait for ever.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _memory() -> str | None:
    """A file system in memory, if there is one with room: tests write many small files safely, and
    most of their time would be a disk's."""
    try:
        if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MIN_MEMORY_BYTES:
            return None
    except OSError:
        return None
    return MEMORY


def _lock(folder: Path) -> None:
    """For as long as this process lives."""
    import fcntl  # not on Windows, which has no such file system

    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _delete_folders_of_killed_sessions(memory: str) -> None:
    """A session that is killed cannot delete its folder, and would keep the memory."""
    for folder in Path(memory).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is locked, or belongs to somebody else
            if time.time() - folder.stat().st_mtime > LOCKED_AFTER_SECONDS:
                _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _keep_compiled_code(kernels: Path) -> None:
    """Compiled code is the only thing that outlives a session: it is named by a hash of the
    sources. In a checkout that cannot be written it is made anew each time."""
    kept = CHECKOUT / ".pytest_cache" / "foltr-kernels"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=kept).close()
    except OSError:
        return
    kernels.symlink_to(kept, target_is_directory=True)


def set_aside(module: str) -> None:
    """Take the components that a test module registered when it was imported out of the
    registries: only its own tests find them (`restored`)."""
    from foltr.spec import FAMILIES

    for family in FAMILIES:
        for name, cls in list(family._members.items()):
            if cls.__module__ == module:
                _set_aside.setdefault(module, []).append((family, family._members.pop(name)))


@contextmanager
def restored(module: str) -> Iterator[None]:
    """Around a test of this module: put everything back that may change what later tests find."""
    import numpy as np

    from foltr.report.chapters import registry as chapters
    from foltr.runs import user_files
    from foltr.spec import FAMILIES

    members = [dict(family._members) for family in FAMILIES]
    for family, cls in _set_aside.get(module, ()):
        family._members[cls.__name__] = cls
    threads = set(threading.enumerate())
    contents = dict(user_files._contents)
    users_modules = {name: sys.modules[name] for name in contents if name in sys.modules}
    users_chapters = list(chapters._of_users)
    environment = dict(os.environ)
    folder = os.getcwd()
    path = list(sys.path)
    arguments = list(sys.argv)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    language = locale.setlocale(locale.LC_ALL)
    logger = logging.getLogger()
    log_handlers = list(logger.handlers)
    log_level = logger.level
    process = settings_of_process()
    random.seed(0)
    np.random.seed(0)  # libraries may draw from it
    try:
        yield
    finally:
        for family, before in zip(FAMILIES, members, strict=True):
            # a module of foltr that the test imported first is not imported again: its class stays
            ours = {n: c for n, c in family._members.items() if c.__module__.startswith("foltr.")}
            family._members = ours | before
        for name in [name for name in sys.modules if name.startswith("foltr_user_")]:
            del sys.modules[name]
        sys.modules |= users_modules
        chapters._of_users[:] = users_chapters
        user_files._contents.clear()
        user_files._contents.update(contents)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder)
        sys.path[:] = path
        sys.argv[:] = arguments
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        if locale.setlocale(locale.LC_ALL) != language:
            locale.setlocale(locale.LC_ALL, language)
        logger.handlers[:] = log_handlers
        logger.setLevel(log_level)
        left = [each for each in threading.enumerate() if not each.daemon and each not in threads]
        for thread in left:
            thread.join(THREAD_SECONDS)  # one that ends by itself is given the time
            assert not thread.is_alive(), f"the test left the thread {thread.name} behind"
        assert settings_of_process() == process, "the test left other settings of the process"


def settings_of_process() -> dict[str, Any]:
    """What a test may change for a while, and must change back itself."""
    import numpy as np

    os.umask(mask := os.umask(UMASK))
    return {
        "umask": mask,
        "errors of NumPy": np.geterr(),
        "limit of recursion": sys.getrecursionlimit(),
        "thresholds of garbage": gc.get_threshold(),
        "disabled logging": logging.root.manager.disable,
        "excepthook": sys.excepthook,
        "excepthook of threads": threading.excepthook,
    }
