"""The position-based click model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.users.cascade import TABLES
from foltr.core import Array
from foltr.core.errors import require
from foltr.core.kinds import TableClickModel
from foltr.core.spec import click_model


@click_model
@dataclass(frozen=True)
class PositionBased(TableClickModel):
    """Click by a position-based model: each rank independently, less often further down.

        P(click at rank i) = (1 / i)^eta P(click | grade)

    P(click | grade) is that of the perfect cascade, by grade:

        0    1  |    0    1    2  |    0    1    2    3    4
        0    1  |    0   .5    1  |    0   .2   .4   .8    1

    Users never stop early. The factor (1 / i)^eta is:

        rank       1     2     3     4     5     6     7     8     9    10
        eta = 0    1     1     1     1     1     1     1     1     1     1
        eta = 0.5  1  .707  .577  .500  .447  .408  .378  .354  .333  .316
        eta = 1    1  .500  .333  .250  .200  .167  .143  .125  .111  .100
        eta = 2    1  .250  .111  .062  .040  .028  .020  .016  .012  .010

    Fields
        eta: position bias (>= 0; 0 has none)

    Reference: Craswell et al., WSDM 2008; Richardson et al., WWW 2007."""

    eta: float = 1.0

    def __post_init__(self) -> None:
        require(self.eta >= 0.0, f"eta must be >= 0, got {self.eta}")

    def tables(self, grades: int, depth: int) -> tuple[Array, Array]:
        known = TABLES["perfect"]
        require(
            grades in known,
            f"the perfect table exists for {sorted(known)} grades, the data has {grades}",
        )
        seen = (1.0 / np.arange(1, depth + 1)) ** self.eta  # (depth,)
        click = seen[:, None] * np.array(known[grades][0])
        return click, np.zeros_like(click)
