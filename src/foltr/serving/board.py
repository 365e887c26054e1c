"""What a running server shows of itself: to the status page and on the terminal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from time import time
from typing import Any

LAST = 1_000  # rounds that the page shows
KINDS = 40  # of failures; nodes choose their names, and could choose ever new ones
OTHER = "other"
NOTES = 50
NOTHING: dict[str, Any] = {"answered": 0, "failures": {}, "bytes": [0, 0], "seconds": 0.0}


@dataclass
class Board:
    """Facts that one thread writes and another reads."""

    title: str
    rounds: int  # in all
    asked: int
    ledger: list[str] = field(default_factory=list)
    epsilon: dict[str, str] = field(default_factory=dict)  # against whom -> of a client, so far
    nodes: dict[str, str] = field(default_factory=dict)  # name -> state
    history: list[dict[str, Any]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)  # of all rounds, not of the last ones
    notes: list[str] = field(default_factory=list)  # the last ones
    began: float = field(default_factory=time)
    changed: float = field(default_factory=time)  # when the last round ended
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
            self.changed = time()

    def note(self, text: str) -> None:
        with self._lock:
            self.notes = [*self.notes, f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}"][-NOTES:]

    def telling(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Tells on the terminal too."""

        def both(text: str) -> None:
            self.note(text)
            tell(text)

        return both

    def seen(self) -> dict[str, Any]:
        """Everything, for the page."""
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
