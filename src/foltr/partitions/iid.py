"""Everybody alike."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import ClickModel
from foltr.data.dataset import Dataset
from foltr.simulation import Population, iid
from foltr.spec import partition


@partition
@dataclass(frozen=True)
class IID:
    """Every client draws its searches from all queries, and all users click alike."""

    def population(self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int) -> Population:
        return iid(data, users, clients, sessions)

    def most(self, sessions: int) -> int:
        return sessions
