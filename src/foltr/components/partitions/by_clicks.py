"""Type 3 of the thesis: click preferences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.core import ClickModel
from foltr.errors import did_you_mean, require
from foltr.kinds import PartitionDefaults
from foltr.spec import click_models, partition
from foltr.world.dataset import Dataset
from foltr.world.population import Population, checked_tables, iid

NAMED = {
    "cascades": tuple(
        f"Cascade(kind={kind!r})" for kind in ("perfect", "navigational", "informational")
    ),
    "positions": tuple(f"PositionBased(eta={eta})" for eta in (0.0, 0.5, 1.0, 1.5, 2.0)),
}


@partition
@dataclass(frozen=True)
class ByClicks(PartitionDefaults):
    """All clients hold everything and click differently: client c by model c (modulo their
    number).

    `models` is 'cascades' (perfect, navigational and informational ones), 'positions' (position
    bias eta 0, 0.5, 1, 1.5 and 2), or a tuple of click models. The users of the experiment are for
    the server's own client alone (Sharing, FLTrust): leave them out. With `iid`, the twin, each
    session draws one of the models, all with equal chances; where clients are no multiple of the
    models, some of these have a larger share without `iid`. Thesis 4.5.1: three clients for
    cascades, five for positions."""

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
