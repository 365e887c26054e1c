"""The IID partition."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import ClickModel
from foltr.core.kinds import PartitionDefaults
from foltr.core.spec import partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, iid


@partition
@dataclass(frozen=True)
class IID(PartitionDefaults):
    """Let every client draw its searches from all queries, with one click model for all."""

    identical_clients = True

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        return iid(data, users, clients, sessions)
