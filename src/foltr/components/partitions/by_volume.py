"""Type 4 of non-IID data: quantity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.components.partitions.iid import IID
from foltr.core import ClickModel
from foltr.core.errors import require
from foltr.core.kinds import PartitionDefaults
from foltr.core.spec import partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population
from foltr.core.world.protocols import Partition


@partition
@dataclass(frozen=True)
class ByVolume(PartitionDefaults):
    """Let some clients search more often than others (non-IID type 4, quantity).

    Client c searches sessions[c] times per round, c modulo the length of `sessions`. The learner's
    own number of sessions is not used. The published mixture with four intents has clients of 1,
    3, 5 and 7 searches (16 in all) and an IID counterpart of 5 each (20 in all):
    `ByVolume(of=ByIntent())` and `ByVolume(of=ByIntent(iid=True), iid=True)`. With sessions=(1, 3,
    5, 7) both have 16.

    Fields
        sessions: searches per round, one number per client (0 .. 10^9 each, not all 0); a client
            without a search sends nothing
        of: the partition that says which client holds what
        iid: the IID counterpart: every client searches as often as the mean of `sessions`

    Reference: Wang & Zuccon, SIGIR 2022."""

    sessions: tuple[int, ...] = (1, 3, 5, 7, 9)
    of: Partition = IID()
    iid: bool = False

    def __post_init__(self) -> None:
        some = len(self.sessions) > 0 and min(self.sessions) >= 0
        some = some and 0 < max(self.sessions) <= 10**9
        fits = "sessions must be 0 .. 10^9 searches a round, and not all 0"
        require(some, f"{fits}: got {self.sessions}")
        total, number = sum(self.sessions), len(self.sessions)
        uneven = (
            f"the mean of sessions={self.sessions} is {total / number:.4g}, not a number of"
            " searches"
        )
        require(
            not self.iid or total % number == 0,
            f"{uneven}: the IID counterpart (iid=True) needs a whole number",
        )

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        p = self.of.population(data, users, clients, sessions, seed)
        own = (
            np.full(clients, self.most_sessions(sessions))
            if self.iid
            else np.resize(np.array(self.sessions), clients)
        )
        # the server's own clients are unchanged
        return replace(p, sessions=np.append(own, p.sessions[clients:]))

    def most_sessions(self, sessions: int) -> int:
        return sum(self.sessions) // len(self.sessions) if self.iid else max(self.sessions)
