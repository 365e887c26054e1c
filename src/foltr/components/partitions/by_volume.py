"""Type 4 of the thesis: data quantity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.components.partitions.iid import IID
from foltr.core import ClickModel
from foltr.errors import require
from foltr.kinds import PartitionDefaults
from foltr.spec import partition
from foltr.world.dataset import Dataset
from foltr.world.population import Population
from foltr.world.protocols import Partition


@partition
@dataclass(frozen=True)
class ByVolume(PartitionDefaults):
    """Some clients search more than others: client c searches sessions[c] times a round (c modulo
    their number).

    Who holds what is said by `of`, so that this type can be mixed with the others. With `iid`, the
    twin, everybody searches as often as the mean of `sessions`: equally often in all if clients
    are a multiple of their number. (The thesis mixes it with four intents: the clients search 1,
    3, 5 and 7 times, 16 in all, and those of its twin 5 times, 20 in all. That is
    `ByVolume(of=ByIntent())` and `ByVolume(of=ByIntent(iid=True), iid=True)`; with sessions=(1, 3,
    5, 7) both make 16.) The learner's own number of sessions is not used. Thesis 4.5.2."""

    sessions: tuple[int, ...] = (1, 3, 5, 7, 9)
    of: Partition = IID()
    iid: bool = False

    def __post_init__(self) -> None:
        some = len(self.sessions) > 0 and min(self.sessions) >= 1 and max(self.sessions) <= 10**9
        require(
            some, f"every client must search 1 .. 10^9 times a round, got sessions={self.sessions}"
        )
        total, number = sum(self.sessions), len(self.sessions)
        uneven = (
            f"the mean of sessions={self.sessions} is {total / number:.4g}, which nobody can"
            " search"
        )
        require(
            not self.iid or total % number == 0,
            f"{uneven}: the twin (iid=True) needs a whole number",
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
        return replace(
            p, sessions=np.append(own, p.sessions[clients:])
        )  # the server's own clients search as before

    def most_sessions(self, sessions: int) -> int:
        return sum(self.sessions) // len(self.sessions) if self.iid else max(self.sessions)
