"""Ctrl-C and SIGTERM stop a run between two rounds or stretches of rounds, after a checkpoint; a
later Ctrl-C stops it at once. A later SIGTERM does not: schedulers of clusters send several."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from foltr.core.compiled import uses_kernels
from foltr.core.system.lock import Claim
from foltr.simulation.runs.folder import Folder


class Stopped(KeyboardInterrupt):
    """A run was interrupted and can be resumed; the message names its folder."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `handler`, if this is the main thread; others get no signals."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {
            signum: signal.signal(signum, handler) for signum in (signal.SIGINT, signal.SIGTERM)
        }
    try:
        yield
    finally:
        for signum, earlier in before.items():
            signal.signal(signum, earlier)


def print_in_handler(line: str) -> None:
    """Print to stderr in a signal handler, even if the signal came while stderr was written."""
    try:
        print(line, file=sys.stderr, flush=True)
    except RuntimeError:  # Python's buffers are not reentrant
        with suppress(OSError):
            os.write(2, f"{line}\n".encode())


class Interruptions:
    """Stops a run on signals or, in a sweep, which handles the signals itself, when `stop()` is
    true. The progress is written to the run's `claim`."""

    def __init__(
        self,
        folder: Folder | None,
        stop: Callable[[], bool] | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.folder, self.stop, self.claim = folder, stop, claim
        self.asked = 0  # the signal that asked to stop
        self.under_way = False  # before the end of a round there is nothing new to save
        self._after_compiling: Callable[[Callable[[], None]], bool] = lambda act: False
        self._ours = ExitStack()

    def __enter__(self) -> Interruptions:
        if self.folder is not None and self.stop is None:
            if uses_kernels():
                from foltr.kernels import after_compiling  # loads numba, before a signal can

                self._after_compiling = after_compiling
            self._ours.enter_context(on_signals(self._ask))
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        if self.asked:
            if signum == signal.SIGINT:
                self._stop(KeyboardInterrupt())
            return
        if not self.under_way:
            nothing = "stopped before a round ended, nothing new to save"
            self._stop(Stopped(f"{nothing}: the same command continues", signum))
            return
        self.asked = signum
        print_in_handler("\nfoltr: stopping, and saving what is done (Ctrl-C again: at once)")

    def _stop(self, error: KeyboardInterrupt) -> None:
        """Raise the error now, or after the compilation that is under way."""

        def stop() -> None:
            raise error

        if not self._after_compiling(stop):
            stop()

    def report(self, t: int, rounds: int) -> None:
        """So many rounds are done. About once a second, the claim says so, and `stop` is asked."""
        self.under_way = True
        reported = self.claim is not None and self.claim.report(t, rounds)
        if reported and self.stop is not None and self.stop():
            self.asked = signal.SIGTERM

    def obey(self, t: int, rounds: int) -> None:
        if self.asked and self.folder is not None:
            raise Stopped(
                f"stopped after round {t} of {rounds}, saved in {self.folder.path}: the same"
                " command continues from there",
                self.asked,
            )
