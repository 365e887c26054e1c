"""The data of the status page. The server's thread writes it; the page's thread reads it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from time import time
from typing import Any

from foltr.deployment.metrics import Histogram

LAST = 1_000  # rounds that are kept
KINDS = 40  # kinds of failures that are counted by name, so that nodes cannot add without limit
OTHER = "other"
NOTES = 50  # notes that are kept
NOTHING: dict[str, Any] = {"answered": 0, "failures": {}, "bytes": [0, 0], "seconds": 0.0}


@dataclass
class Board:
    """The state of a running server. It can be used from several threads."""

    title: str
    rounds: int  # in total
    asked: int  # clients that are asked in a round
    ledger: list[str] = field(default_factory=list)
    epsilon: dict[str, str] = field(default_factory=dict)  # adversary -> a client's epsilon so far
    nodes: dict[str, str] = field(default_factory=dict)  # name -> state
    history: list[dict[str, Any]] = field(default_factory=list)  # the last rounds
    failures: Counter[str] = field(default_factory=Counter)  # by kind
    totals: Counter[str] = field(default_factory=Counter)  # over all rounds
    notes: list[str] = field(default_factory=list)  # the last ones
    began: float = field(default_factory=time)  # when the server started
    changed: float = field(default_factory=time)  # when the last round ended
    asking: float | None = None  # when the round was asked that goes on (monotonic)
    fewest: int = 1  # answers that change the model
    lasted: Histogram = field(default_factory=Histogram)  # seconds of rounds
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_round(self, about: dict[str, Any]) -> None:
        about = {"asked": self.asked, **NOTHING, **about}
        sent, got = about["bytes"]
        with self._lock:
            self.history = [*self.history, about][-LAST:]
            for kind, count in about["failures"].items():
                known = kind in self.failures or len(self.failures) < KINDS
                self.failures[kind if known else OTHER] += count
            self.totals["sent"] += sent
            self.totals["got"] += got
            self.totals["not_adopted"] += bool(about.get("refused"))
            self.totals["rounds"] += 1
            self.totals["few"] += about["answered"] < self.fewest
            self.totals["asked"] += about["asked"]
            self.totals["answered"] += about["answered"]
            self.changed, self.asking = float(about.get("ended", self.changed)), None
        self.lasted.observe(float(about["seconds"]))

    def note(self, text: str) -> None:
        """Add a note, with the current time."""
        with self._lock:
            self.notes = [*self.notes, f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}"][-NOTES:]

    def telling(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """A function that adds a note and also prints it with `tell`."""

        def both(text: str) -> None:
            self.note(text)
            tell(text)

        return both

    def seen(self) -> dict[str, Any]:
        """A copy of all data, for the page."""
        with self._lock:
            last, now = self.history[-1] if self.history else {}, time()
            return {
                "title": self.title,
                "round": last.get("round", -1) + 1,
                "rounds": self.rounds,
                "asked": self.asked,
                "answered": last.get("answered", 0),
                "nodes": dict(self.nodes),
                "failures": dict(self.failures),
                "totals": dict(self.totals),
                "history": list(self.history),
                "ledger": list(self.ledger),
                "epsilon": dict(self.epsilon),
                "notes": list(self.notes),
                "seconds": now - self.began,
                "waiting": now - self.changed,
            }
