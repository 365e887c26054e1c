"""Behind a page that lives: a thread that looks at a folder, and makes the page anew when runs
have finished."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any

from foltr.errors import Mistake
from foltr.report.page.content import model
from foltr.report.page.document import divided, filled
from foltr.report.page.html_sections import waiting
from foltr.report.study import COLUMNS, PAIRS, study
from foltr.results import Runs

LOOK = 1.0  # seconds between two looks at the progress
SHARE = 10  # making the page anew may take a part 1 / SHARE of the time
LEAST = 1.0  # seconds between two
NOTHING: dict[str, Any] = {"planned": 0, "done": 0, "failed": [], "running": [], "left": None}
TITLE = "foltr is watching"


class Following:
    """Progress is looked at every second. Runs are loaded when the number of those that are done
    has changed (where nothing is planned: now and then), but so seldom that it takes at most a
    tenth of the time."""

    def __init__(
        self,
        load: Callable[[], Runs],
        progress: Callable[[], dict[str, Any]],
        baseline: int | str | None = None,
        pairs: Sequence[str] = PAIRS,
        columns: Sequence[str] = COLUMNS,
    ) -> None:
        self.load, self.progress = load, progress
        self.compared = (baseline, pairs, columns)
        self.ending: Callable[[], bool] = lambda: False
        self._stop, self._lock = Event(), Lock()
        self._thread = Thread(target=self._follow, name="foltr-watch", daemon=True)
        self._told: dict[str, Any] = dict(NOTHING)
        self._trouble = self._unread = ""  # all that is told; why the page could not be made anew
        self._boot, self._count = token_hex(4), 0  # two servers never have versions in common
        self._show(waiting(TITLE, "Reading the runs."), None, TITLE)
        self._done: int | None = None  # runs that were done when the page was made
        self._names: list[str] | None = None  # the runs that are shown
        self._rest_until = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _follow(self) -> None:
        self.look()
        while not self._stop.wait(LOOK):
            self.look()

    def look(self) -> None:
        """Once: progress, and the page if it has changed. What cannot be read now is told, and
        tried again."""
        blind, told = "", self._told
        try:
            told = {**NOTHING, **self.progress()}
        except (Mistake, OSError) as error:
            blind = str(error)
        if (
            told["done"] != self._done or not told["planned"]
        ) and time.monotonic() >= self._rest_until:
            began = time.monotonic()
            self._unread = self._renew(told["done"])
            self._rest_until = time.monotonic() + max(LEAST, SHARE * (time.monotonic() - began))
        with self._lock:
            self._told, self._trouble = told, self._unread or blind

    def _renew(self, done: int) -> str:
        """Make the sections and the data anew; what stands in the way, if anything does."""
        data: dict[str, Any] | None
        try:
            runs = self.load()
            names = [run.name for run in runs]
            if names == self._names:
                self._done = done
                return ""
            if names:
                found = model(study(runs, *self.compared))
                parts, data = divided(found)
                title = str(found["title"])
            else:
                parts, data, title = waiting(TITLE, "No run has finished yet."), None, TITLE
        except (Mistake, OSError) as error:
            return str(error)
        with self._lock:
            self._done, self._names = done, names
            self._show(parts, data, title)
        return ""

    def _show(self, parts: dict[str, str], data: dict[str, Any] | None, title: str) -> None:
        self._count += 1
        self._sections, self._data, self._title = parts, data, title
        told = {"version": self.version, "title": title, "sections": parts, "data": data}
        self._answer = json.dumps(told, allow_nan=False, separators=(",", ":"))

    @property
    def version(self) -> str:
        return f"{self._boot}-{self._count}"

    def answer(self) -> str:
        with self._lock:
            return self._answer

    def page(self) -> str:
        with self._lock:
            return filled(self._sections, self._data, self._title, live=True)

    def news(self) -> dict[str, Any]:
        """Progress as events tell it."""
        with self._lock:
            told = self._told
            ended = told["done"] + len(told["failed"])
            over = (
                bool(told["planned"])
                and ended >= told["planned"]
                and not told["running"]
                and told["done"] == self._done
            )
            trouble = (
                "foltr watch has met an error of its own, told in its terminal."
                if self._died()
                else self._trouble
            )
            return {**told, "version": self.version, "over": over, "trouble": trouble}

    def _died(self) -> bool:
        return (
            self._thread.ident is not None
            and not self._thread.is_alive()
            and not self._stop.is_set()
        )
