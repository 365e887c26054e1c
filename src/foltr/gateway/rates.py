"""Limits on how often someone may make requests (token bucket)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

MOST = 100_000  # names that are remembered


@dataclass
class Rates:
    """Each name may make `burst` requests at once, and `rate` per second in the long run."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: dict[Hashable, tuple[float, float]] = field(default_factory=dict)  # requests, since

    def allow(self, name: Hashable) -> bool:
        """Whether one more request of this name is within its limit. If so, it is counted."""
        now = self.clock()
        left, since = self._left.pop(name, (self.burst, now))
        left = min(self.burst, left + self.rate * (now - since))
        allowed = left >= 1.0
        self._left[name] = (left - allowed, now)  # the last one in the table
        if len(self._left) > MOST:
            del self._left[next(iter(self._left))]  # the one that was silent longest
        return allowed
