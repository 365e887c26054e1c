"""Compiled twins of the slow loops, with the same results and random draws as their plain
definitions.

Kernels read tables, not classes. They are module-level functions, because numba never finds a
closure in its disk cache again, and they run without the interpreter lock. Compiled code is cached
in a folder named by a hash of all kernel sources, because numba itself notices changes only in the
file of the function that is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from pickle import UnpicklingError
from shutil import rmtree
from tempfile import TemporaryFile
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.core.runtime import rtsys

from foltr.core.errors import require
from foltr.core.system.files import cache_folder
from foltr.kernels.compiler import versions

# lets sums be vectorised; unlike full fast-math it respects inf and nan
SUMS = {"reassoc", "contract", "nsz"}
# files whose constants numba freezes into kernels
CONSTANTS = ("core/seeds.py", "core/ranking.py", "core/noise.py", "core/cohorts.py")
COMPILING = "compiling the kernels, once on this machine (about 20 s) ..."
KEPT = 4  # caches kept, one per version of the sources


def kernel(
    fastmath: set[str] | bool = False, by_address: bool = False, inner: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function without the interpreter lock, and cache the result on disk. A kernel that
    others call `by_address` begins with `calls.never_inlined()`; any other is inlined into the
    kernels that call it. An `inner` one cannot be called from Python, and takes less time to
    compile."""

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        if not compiles():
            return function
        folder = compile_cache()
        # Inlined, because a callee is compiled once per caller, each vectorised in its own way,
        # and the linker uses whichever was loaded first: a process that compiles would get other
        # bits than one that loads.
        options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "fastmath": fastmath,
            "forceinline": not by_address,
            "no_cfunc_wrapper": True,  # nobody calls it from C
            "no_cpython_wrapper": inner,
        }
        with _numba_cache(folder):
            dispatcher: Any = numba.njit(cache=folder is not None, **options)(function)
        if folder is None:
            return dispatcher
        if not Path(dispatcher._cache.cache_path).is_relative_to(folder):
            # numba cannot write its folder there, and would write beside the sources instead
            _complain_once(f"{folder} holds a folder that cannot be written")
            return numba.njit(**options)(function)
        _forgive(dispatcher._cache)
        return dispatcher

    return compiled


def compiles() -> bool:
    """False where NUMBA_DISABLE_JIT is set. Kernels are then plain functions, slow, and those that
    others call by address cannot run."""
    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def check_compiles(what: str) -> None:
    """Refuses what needs compiled kernels where nothing is compiled."""
    way_out = "unset NUMBA_DISABLE_JIT, or choose the debug engine, which is plain Python"
    require(compiles(), f"{what} needs compiled code, and NUMBA_DISABLE_JIT is set: {way_out}")


class _Compiling(event.Listener):
    """Knows whether a kernel is being compiled. An exception that a signal raised within the
    compiler's calls back to Python would be lost, or end the process."""

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: Callable[[], None] | None = None

    def on_start(self, event: Any) -> None:
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.waiting is not None:
            act, self.waiting = self.waiting, None
            act()


_compiling = _Compiling()
event.register("numba:compile", _compiling)


def after_compiling(act: Callable[[], None]) -> bool:
    """If a kernel is being compiled, call `act`, which may raise, when that or a kernel that it
    calls is compiled, and return True; otherwise return False."""
    if not _compiling.depth:
        return False
    _compiling.waiting = act
    return True


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view. Memory maps are read-only, and numba would compile a second version for
    writable arrays."""
    view = np.asarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def sources_hash() -> str:
    """A hash of all kernel sources, of the constants that they share with plain code, and of the
    versions of the compiler and Python. numba's index in that folder has an entry per kind of
    CPU."""
    made_by = f"{' '.join(versions().values())} {sys.version}"
    digest, here = blake2b(made_by.encode(), digest_size=8), Path(__file__).parent
    for file in [*sorted(here.glob("*.py")), *(here.parent / name for name in CONSTANTS)]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _forgive(disk: Any) -> None:
    """Recompile where the cache is damaged, and go on where it cannot be written; numba would
    raise for both. And load without what only compiling needs: numba would first import all its
    implementations of Python and NumPy, and SciPy, for a third of a second."""
    save = disk.save_overload

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            rtsys.initialize(context)  # what compiled code calls; kernels call nothing else
            return disk._load_overload(signature, context)
        except (
            OSError,
            EOFError,
            ValueError,
            UnpicklingError,
            KeyError,
            IndexError,
            AttributeError,
            TypeError,
        ):
            with suppress(OSError):
                disk.flush()
            return None

    def save_overload(*args: Any) -> None:
        try:
            save(*args)
        except OSError as error:
            _complain(error)

    disk.load_overload, disk.save_overload = load_overload, save_overload


@cache
def _complain_once(message: str) -> None:
    print(f"foltr: compiles anew in every process: {message}; set FOLTR_CACHE", file=sys.stderr)


def _complain(error: OSError) -> None:
    _complain_once(f"{cache_folder('kernels')}: {error.strerror}")


@cache
def compile_cache() -> Path | None:
    """The folder for compiled code; None, with one warning, where it cannot be written."""
    folder = cache_folder("kernels") / sources_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            os.utime(folder)  # mark as in use: oldest folders are removed first
        others = sorted(folder.parent.iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)
    except OSError as error:
        _complain(error)
        return None
    for old in others[KEPT:]:  # never this one, which is now the newest
        rmtree(old, ignore_errors=True)
    return folder


def nothing_compiled() -> bool:
    """Whether the first use must compile."""
    if not compiles():
        return False
    folder = compile_cache()
    return folder is None or next(folder.rglob("*.nbc"), None) is None


@contextmanager
def _numba_cache(folder: Path | None) -> Iterator[None]:
    """Set numba's global cache folder while a function is decorated, and restore it afterwards."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
