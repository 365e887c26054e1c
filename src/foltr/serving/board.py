"""What a running server shows of itself: to the status page and on the terminal."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from time import time
from typing import Any

LAST = 1_000  # rounds that the page shows


@dataclass
class Board:
    """Facts that one thread writes and another reads."""

    title: str
    rounds: int  # in all
    asked: int
    ledger: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)  # name -> state
    history: list[dict[str, Any]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # the last ones
    began: float = field(default_factory=time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_round(self, about: dict[str, Any]) -> None:
        with self._lock:
            self.history = [*self.history, about][-LAST:]
            self.failures.update(about.get("failures", {}))

    def note(self, text: str) -> None:
        with self._lock:
            self.notes = [*self.notes, text][-50:]

    def seen(self) -> dict[str, Any]:
        """Everything, for the page."""
        with self._lock:
            last = self.history[-1] if self.history else {}
            return {
                "title": self.title,
                "round": last.get("round", -1) + 1,
                "rounds": self.rounds,
                "asked": self.asked,
                "answered": last.get("answered", 0),
                "nodes": dict(self.nodes),
                "failures": dict(self.failures),
                "history": list(self.history),
                "ledger": list(self.ledger),
                "notes": list(self.notes),
                "seconds": time() - self.began,
            }
