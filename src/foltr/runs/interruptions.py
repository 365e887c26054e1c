"""Ctrl-C and SIGTERM are obeyed between two rounds, after a checkpoint; a second Ctrl-C at
once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from foltr.runs.folder import Folder


class Stopped(KeyboardInterrupt):
    """A run was interrupted and can be resumed; the message says where."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `handler`, in the main thread; elsewhere they are not ours."""
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


class Interruptions:
    """`stop` is for a run that others steer (a sweep): signals are theirs, and it says when to
    stop."""

    def __init__(self, folder: Folder | None, stop: Callable[[], bool] | None = None) -> None:
        self.folder, self.stop = folder, stop
        self.asked = 0  # the signal that asked to stop
        self.under_way = False  # before that there is nothing to save, and compiling may take long
        self._ours = ExitStack()

    def __enter__(self) -> Interruptions:
        if self.folder is not None and self.stop is None:
            self._ours.enter_context(on_signals(self._ask))
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        if not self.under_way:
            raise Stopped(
                "stopped before a round was over, nothing new to save: the same command goes on",
                signum,
            )
        self.asked = signum
        print(
            "\nfoltr: stopping after this round (Ctrl-C again: at once)",
            file=sys.stderr,
            flush=True,
        )

    def ask_outside(self) -> None:
        if self.stop is not None and self.stop():
            self.asked = signal.SIGTERM

    def obey(self, t: int, rounds: int) -> None:
        if self.asked and self.folder is not None:
            saved = f"stopped after round {t} of {rounds}, saved in {self.folder.path}"
            raise Stopped(f"{saved}: the same command goes on from there", self.asked)
