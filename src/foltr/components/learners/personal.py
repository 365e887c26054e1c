"""Personal: a shared ranker plus a residual on each client."""

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
    """Rank with the shared weights plus a residual that stays on the client's device.

    Client c ranks with w + r_c. Each round its learner computes an update u from there. The client
    sends u and keeps
        r_c <- (1 - pull) (r_c + u).
    The server's weights w learn what clients have in common, the residuals how they differ.

    Fields
        learner: the learner that computes updates (one that sends updates, as PDGD does)
        pull: share of the residual that is dropped each round (0 .. 1); 1 is `learner` alone, 0
            keeps everything

    Reference: mean-regularised personalisation (Hanzely & Richtarik 2020, arXiv:2002.05516;
    Agarwal, Langford & Wei 2020, arXiv:2003.12880), related to Ditto (Li et al., ICML 2021)."""

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
