"""What every test finds, the same on every machine and whatever test ran before: a home and caches
that are those of this session, a short list of environment variables, and the registries and other
state of the process as they were at the start."""

from __future__ import annotations

import atexit
import fcntl
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
FOLDER_VARIABLE = "FOLTR_TESTS_FOLDER"  # of this test session: set for its worker processes
DATA_VARIABLE = "FOLTR_TESTS_DATA"  # where the real collections are: tests set FOLTR_DATA
FOLDERS_OF_USER = ("FOLTR_CLAIMS",)  # variables that name a folder which outlives the session
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
FOLDER_PREFIX = "foltr-tests-"  # of the names of these folders
MEMORY_FOLDER = "/dev/shm"
MIN_MEMORY_BYTES = 4 << 30
LOCKED_AFTER_SECONDS = 60.0  # a session has locked its folder by then
THREAD_SECONDS = 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
UMASK = 0o022
session_environment: dict[str, str] = {}  # as every test finds it
_set_aside: dict[str, list[tuple[Any, type]]] = {}  # by test module: registry and class


def isolate() -> None:
    """Give this process an environment of a short list of variables, an empty home and an empty
    cache. Called before foltr and NumPy are imported. Workers of pytest-xdist inherit all that."""
    if FOLDER_VARIABLE not in os.environ:
        memory = _memory()
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=memory))
        if memory is not None:
            _lock(folder)
            _delete_folders_of_killed_sessions(memory)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        data = os.environ.get("FOLTR_DATA", str(CHECKOUT.parent / "shared" / "data"))
        user_variables = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
        }
        user_variables |= {  # tests change the folder
            name: os.path.abspath(os.environ[name])
            for name in FOLDERS_OF_USER
            if name in os.environ
        }
        (folder / "home").mkdir()
        (folder / "cache").mkdir()
        (folder / "tmp").mkdir()
        os.environ.clear()
        os.environ.update(user_variables)
        os.environ |= {
            FOLDER_VARIABLE: str(folder),
            DATA_VARIABLE: os.path.abspath(data),
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
    with suppress(ImportError):
        import readline  # noqa: F401
    for name in ("COLUMNS", "LINES"):
        os.unsetenv(name)  # readline sets them for child processes, and os.environ does not see it
    tempfile.tempdir = None  # it is found again, by the new TMPDIR
    time.tzset()
    os.umask(UMASK)
    import foltr.deployment  # noqa: F401  (it sets Flower's variables: every test finds them)

    session_environment.update(os.environ)
    # A shell starts background processes with Ctrl-C ignored, and their children inherit it: tests
    # that press it would wait for ever.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _memory() -> str | None:
    """A file system in memory, if there is one with room for programs and files: tests write many
    small files safely, and on a disk they would mostly wait for it."""
    try:
        found = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return None
    forbids = not os.access(MEMORY_FOLDER, os.W_OK) or found.f_flag & os.ST_NOEXEC
    return None if forbids or found.f_bavail * found.f_frsize < MIN_MEMORY_BYTES else MEMORY_FOLDER


def _lock(folder: Path) -> None:
    """Lock a session's folder until this process ends."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise


def _delete_folders_of_killed_sessions(memory: str) -> None:
    """A session that is killed cannot delete its folder, and would keep the memory."""
    for folder in Path(memory).glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError):  # it is locked, or belongs to somebody else
            if time.time() - folder.stat().st_mtime > LOCKED_AFTER_SECONDS:
                _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _keep_compiled_code(kernels: Path) -> None:
    """Compiled code is the only thing that outlives a session: it is named by a hash of the
    sources. In a checkout that cannot be written it is made anew each time."""
    stored = CHECKOUT / ".pytest_cache" / "foltr-kernels"
    try:
        stored.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=stored).close()
    except OSError:
        return
    kernels.symlink_to(stored, target_is_directory=True)


def set_aside(module: str) -> None:
    """Take the components that a test module registered when it was imported out of the
    registries: only its own tests find them (`restored`)."""
    from foltr.core.spec import FAMILIES

    for family in FAMILIES:
        for name, cls in list(family._members.items()):
            if cls.__module__ == module:
                _set_aside.setdefault(module, []).append((family, family._members.pop(name)))


@contextmanager
def restored(module: str) -> Iterator[None]:
    """Around a test of this module: put everything back that may change what later tests find."""
    import numpy as np

    from foltr.core.spec import FAMILIES
    from foltr.experiment import user_files
    from foltr.report.chapters import registry as chapters

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
        for thread in set(threading.enumerate()) - threads:
            if thread.daemon:
                continue
            thread.join(THREAD_SECONDS)  # one that ends by itself is given the time
            assert not thread.is_alive(), f"the test left the thread {thread.name} behind"
        after = settings_of_process()
        changed = [name for name in process if after[name] != process[name]]
        assert not changed, f"the test did not restore {', '.join(changed)}"


def settings_of_process() -> dict[str, Any]:
    """What a test may change for a while, and must change back itself."""
    import numpy as np

    umask = os.umask(UMASK)
    os.umask(umask)
    return {
        "umask": umask,
        "errors of NumPy": np.geterr(),
        "limit of recursion": sys.getrecursionlimit(),
        "turns of threads": sys.getswitchinterval(),
        "thresholds of garbage": gc.get_threshold(),
        "disabled logging": logging.root.manager.disable,
        "excepthook": sys.excepthook,
        "excepthook of threads": threading.excepthook,
    }
