"""A lock, so that only one process at a time uses a state folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from foltr.errors import Mistake
from foltr.runs.lock import Busy, Claim


@contextmanager
def only_one(folder: Path, what: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a state folder. If another process has it, wait for up to `wait`
    seconds, then raise a Mistake."""
    until = time.monotonic() + wait

    def over() -> bool:
        return time.monotonic() > until

    with ExitStack() as stack:
        try:
            stack.enter_context(Claim(folder).held(wait > 0.0, over))
        except Busy:
            raise Mistake(
                f"another process uses {folder}: stop it, or give this {what} another state folder"
            ) from None
        yield
