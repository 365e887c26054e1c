"""The partition by the users of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.core import ClickModel
from foltr.core.errors import Mistake, require
from foltr.core.kinds import PartitionDefaults
from foltr.core.seeds import stream
from foltr.core.spec import partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, iid


@partition
@dataclass(frozen=True)
class ByUser(PartitionDefaults):
    """Let each client be one of the users in the data, with that user's queries.

    The data must name the user of each query (`Dataset.users`). If there are fewer clients than
    users, the users are drawn at random.

    Fields
        iid: the IID counterpart: every client draws from the queries of all users that take part
    """

    iid: bool = False

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        if data.users is None:
            no_users = "ByUser: the data does not say whose query it was"
            raise Mistake(
                f"{no_users}: take a source that does (Letor(users=...)), or another partition"
            )
        names, user = np.unique(data.users, return_inverse=True)
        few = f"ByUser: the data has {len(names):,} users, and there are {clients:,} clients"
        require(clients <= len(names), f"{few}: say clients={len(names)} or fewer")
        drawn = stream(seed, "users").sample(len(names), clients)
        queries = np.flatnonzero(np.isin(user, drawn))
        queries = queries if self.iid else queries[np.argsort(user[queries], kind="stable")]
        p, whose = iid(data, users, clients, sessions), user[queries]
        return replace(
            p,
            starts=p.starts[queries],
            stops=p.stops[queries],
            labelling=p.labelling[queries],
            ideals=p.ideals[queries],
            first=p.first if self.iid else np.searchsorted(whose, drawn),
            last=np.full(clients, len(queries))
            if self.iid
            else np.searchsorted(whose, drawn, side="right"),
        )
