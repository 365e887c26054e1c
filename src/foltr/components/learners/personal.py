"""A ranker of its own for every client, on top of the shared one (mean-regularised
personalisation: Hanzely and Richtarik 2020, arXiv:2002.05516; Agarwal, Langford and Wei 2020,
arXiv:2003.12880; in the spirit of Ditto: Li et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.learners._personal import Residual
from foltr.components.learners.pdgd import PDGD
from foltr.core import Learner, Ranker
from foltr.errors import require
from foltr.spec import learner


@learner
@dataclass(frozen=True)
class Personal(Residual):
    """Client c ranks with w + r_c: the shared weights and a residual that never leaves its device.

    Each round it learns u from there, sends all of u, and goes on with r_c' = (1 - pull) (r_c +
    u). So the server learns what clients have in common, and r_c what they have not; `pull=1`
    forgets it at once and is the `learner` alone, `pull=0` never forgets."""

    learner: Learner = PDGD()
    pull: float = 0.01

    def __post_init__(self) -> None:
        require(0.0 <= self.pull <= 1.0, f"pull must be in 0 .. 1, got {self.pull}")
        self.check()

    @property
    def send(self) -> float:
        return 1.0

    @property
    def keep(self) -> float:
        return 1.0 - self.pull

    def kept(self, ranker: Ranker, d: int) -> int:
        return d
