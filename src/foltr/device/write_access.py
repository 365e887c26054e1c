"""Who writes to the index file next. SQLite lets one process write at a time, and others try again
after a while: a long run of batches could keep a click waiting for seconds. Here they queue up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# seconds that a writer of many batches leaves to the others between two of them: the lock is given
# to whoever asks first
PAUSE = 0.002


@contextmanager
def write_access(path: Path | None) -> Iterator[None]:
    """Wait for the turn to write to the index at `path`."""
    try:
        import fcntl
    except ImportError:  # Windows: SQLite's own waiting must do
        path = None
    if path is None:
        yield
        return
    with open(path.with_name(f"{path.name}.writing"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
