"""The heartbeat of a running node: a small file in its state folder, written every few seconds.
`foltr check` reads it, because a node opens no port."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from foltr.system.files import text_of
from foltr.system.strict_json import strict_json

FILE = "alive.json"
EVERY = 5.0  # seconds between two writes
OLD = 60.0  # seconds after which the node counts as not running


class Heartbeat:
    """Writes the file. A full disk is no error here: the file is then not updated."""

    def __init__(self, state: Path) -> None:
        self.file = state / FILE
        self._last, self._said = 0.0, False

    def __call__(self, connected: bool, **facts: Any) -> None:
        """Write the file, if it is due or the connection has changed."""
        now = time.monotonic()
        if now - self._last < EVERY and connected == self._said:
            return
        self._last, self._said = now, connected
        about = {"time": time.time(), "pid": os.getpid(), "connected": connected, **facts}
        part = self.file.with_name(f".{FILE}.part")
        with suppress(OSError):
            part.write_text(strict_json(about))
            os.replace(part, self.file)

    def delete(self) -> None:
        """Delete the file: the node stops."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)


def node_status(state: Path, now: float | None = None) -> tuple[bool, str]:
    """Whether a node runs and is connected, and a line of text about it."""
    file, now = state / FILE, time.time() if now is None else now
    try:
        about = json.loads(text_of(file))
        age, connected = now - float(about["time"]), about["connected"] is True
    except FileNotFoundError:
        return False, f"no node runs in {state}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return False, f"{file} cannot be read: {error}"
    server, last = about.get("server", "the server"), about.get("round")  # from 0
    if not -OLD < age < OLD:
        return False, f"the node in {state} has been silent for {age:.0f} s"
    if not connected:
        return False, f"the node in {state} is not connected to {server}: see its log"
    done = "no round answered yet" if last is None else f"last answered round {last + 1}"
    return True, f"connected to {server}, {done}"
