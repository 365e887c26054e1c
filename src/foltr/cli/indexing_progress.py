"""The progress of `foltr device index`: in place in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from foltr.system.terminal import LivePanel, duration, progress_bar

if TYPE_CHECKING:
    from foltr.device.indexing import Work


class IndexingProgress(LivePanel):
    """Called while the index is brought up to date."""

    def __init__(self) -> None:
        super().__init__(quiet=False, panel_seconds=0.1, line_seconds=3.0)
        self.began = 0.0

    def __call__(self, work: Work) -> None:
        if work.total and not self.began:
            self.began = time.monotonic()
        if self.due():
            line = self._line(work)
            bar = progress_bar(work.read, work.total, 30) if work.total else ""
            self.show(lambda: Text(f"{bar} {line}".strip()), lambda: line)

    def _line(self, work: Work) -> str:
        if not work.total:
            return f"looking at files: {work.files:,}"
        passed, done = time.monotonic() - self.began, f"{work.read:,} of {work.total:,} files"
        if passed < 1.0 or not work.read:
            return done
        rate = work.read / passed
        return f"{done}, {rate:.0f} a second, {duration((work.total - work.read) / rate)} left"
