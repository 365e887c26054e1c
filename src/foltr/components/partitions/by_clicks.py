"""Type 3 of non-IID data: click preferences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.core import ClickModel
from foltr.core.errors import did_you_mean, require
from foltr.core.kinds import PartitionDefaults
from foltr.core.spec import click_models, partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, checked_tables, iid

NAMED = {
    "cascades": tuple(
        f"Cascade(kind={kind!r})" for kind in ("perfect", "navigational", "informational")
    ),
    "positions": tuple(f"PositionBased(eta={eta})" for eta in (0.0, 0.5, 1.0, 1.5, 2.0)),
}


@partition
@dataclass(frozen=True)
class ByClicks(PartitionDefaults):
    """Give clients different click models on the same data (non-IID type 3, click preferences).

    Client c clicks by model c modulo the number of models; all clients hold all queries. If the
    number of clients is no multiple of the number of models, some models have more clients than
    others. The `users` of the experiment then serve only the server's own client (Sharing,
    FLTrust): leave them at their default. The published study has three clients for 'cascades' and
    five for 'positions'.

    Fields
        models: 'cascades' (perfect, navigational, informational), 'positions' (position bias eta =
            0, 0.5, 1, 1.5, 2), or a tuple of click models
        iid: the IID counterpart: every session of every client draws one of the models, all
            equally likely

    Reference: Wang & Zuccon, SIGIR 2022."""

    models: str | tuple[ClickModel, ...] = "cascades"
    iid: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.models, str):
            other = f"{did_you_mean(self.models, NAMED)}; or give a tuple, (Cascade(), ...)"
            require(self.models in NAMED, f"no models are called {self.models!r}: {other}")
        require(len(self.models) > 0, "models must be at least one click model")

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        unused = (
            f"ByClicks: clients click by the models of the partition, not by {users}: leave"
            " users out"
        )
        require(users == click_models.build("Cascade()"), unused)
        models = (
            tuple(map(click_models.build, NAMED[self.models]))
            if isinstance(self.models, str)
            else self.models
        )
        for model in models:
            checked_tables(model, data.grades, 1)
        everyone, choices = np.arange(clients), np.arange(len(models))
        drawn = np.tile(choices, (clients, 1)) if self.iid else everyone[:, None] % len(models)
        return replace(iid(data, models[0], clients, sessions), click_models=models, models=drawn)
