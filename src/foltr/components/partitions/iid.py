"""Everybody alike."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import ClickModel
from foltr.kinds import PartitionDefaults
from foltr.spec import partition
from foltr.world.dataset import Dataset
from foltr.world.population import Population, iid


@partition
@dataclass(frozen=True)
class IID(PartitionDefaults):
    """Every client draws its searches from all queries, and all users click alike."""

    identical_clients = True

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        return iid(data, users, clients, sessions)
