"""The cascade click model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.kinds import TableClickModel
from foltr.core.spec import click_model

# kind -> number of grades -> (P(click | grade), P(stop | click, grade))
TABLES: dict[str, dict[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "perfect": {
        2: ((0.0, 1.0), (0.0, 0.0)),
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
    "navigational": {
        2: ((0.05, 0.95), (0.2, 0.9)),
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        2: ((0.3, 0.7), (0.1, 0.5)),
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
    "poison": {
        2: ((1.0, 0.0), (0.0, 0.0)),
        3: ((1.0, 0.5, 0.0), (0.0, 0.0, 0.0)),
        5: ((1.0, 0.8, 0.4, 0.2, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
}


@click_model
@dataclass(frozen=True)
class Cascade(TableClickModel):
    """Click by a cascade model: scan from the top, click by grade, maybe stop after a click.

    At each rank the user clicks with P(click | grade); only after a click the user stops with
    P(stop | click, grade). Without a stop the scan reaches the end of the list. The published
    tables are, by grade:

        P(click)          0    1  |    0    1    2  |    0    1    2    3    4
        perfect           0    1  |    0   .5    1  |    0   .2   .4   .8    1
        navigational    .05  .95  |  .05   .5  .95  |  .05   .3   .5   .7  .95
        informational    .3   .7  |   .4   .7   .9  |   .4   .6   .7   .8   .9
        poison            1    0  |    1   .5    0  |    1   .8   .4   .2    0

        P(stop | click)   0    1  |    0    1    2  |    0    1    2    3    4
        perfect           0    0  |    0    0    0  |    0    0    0    0    0
        navigational     .2   .9  |   .2   .5   .9  |   .2   .3   .5   .7   .9
        informational    .1   .5  |   .1   .3   .5  |   .1   .2   .3   .4   .5
        poison            0    0  |    0    0    0  |    0    0    0    0    0

    Fields
        kind: a published table for 2, 3 or 5 grades ('perfect', 'navigational', 'informational',
            'poison'), or 'custom'
        click: P(click | grade), one probability per grade; only with kind='custom'
        stop: P(stop | click, grade), one probability per grade; only with kind='custom'

    Reference: Guo et al., WSDM 2009; for online learning to rank: Hofmann et al., Information
    Retrieval 16, 2013."""

    kind: Literal["perfect", "navigational", "informational", "poison", "custom"] = "perfect"
    click: tuple[float, ...] | None = None
    stop: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind != "custom":
            require(
                self.click is None and self.stop is None,
                f"{self.kind!r} has published tables: give click and stop with kind='custom' only",
            )
            return
        require(
            bool(self.click) and bool(self.stop),
            "kind='custom' needs click and stop, one number per grade",
        )
        assert self.click is not None and self.stop is not None
        require(
            len(self.click) == len(self.stop),
            f"click has {len(self.click)} grades, stop has {len(self.stop)}",
        )
        for p in (*self.click, *self.stop):
            require(0.0 <= p <= 1.0, f"a click table holds probabilities, got {p}")

    def tables(self, grades: int, depth: int) -> tuple[Array, Array]:
        if self.click is not None and self.stop is not None:
            require(
                len(self.click) == grades,
                f"the click table has {len(self.click)} grades, the data has {grades}",
            )
            click, stop = self.click, self.stop
        else:
            known = TABLES[self.kind]
            need = (
                f"a published {self.kind} table exists for {sorted(known)} grades, the data has"
                f" {grades}: "
            )
            require(grades in known, need + "give Cascade(kind='custom', click=..., stop=...)")
            click, stop = known[grades]
        return np.tile(click, (depth, 1)), np.tile(stop, (depth, 1))  # (depth, grades) each
