"""Federated learning with personalisation layers (Arivazhagan, Aggarwal, Singh & Choudhary 2019,
arXiv:1912.00818; in federated ranking: thesis 4.3.3 and 4.4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.learners._personal import Residual
from foltr.components.learners.pdgd import PDGD
from foltr.core import Learner, Ranker, require
from foltr.spec import learner


@learner
@dataclass(frozen=True)
class FedPer(Residual):
    """Each client has an output layer of its own; only the layers below it are shared.

    A client ranks with the server's lower layers and its own head v + r_c, learns both, sends what
    the lower ones learned and 0 for the head, and keeps r_c' = r_c + u. The server's head v stays
    what it was at the start, the one that every client begins with (unless a privatizer's noise
    falls on the zeros)."""

    learner: Learner = PDGD()

    def __post_init__(self) -> None:
        self.check()

    @property
    def send(self) -> float:
        return 0.0

    @property
    def keep(self) -> float:
        return 1.0

    def kept(self, ranker: Ranker, d: int) -> int:
        name = type(ranker).__name__
        whole = (
            f"FedPer keeps the output layer on the device, and {name} has no layer beside it that"
            " could be shared"
        )
        require(ranker.head > 0, f"{whole}: use MLP(), or Personal() as the learner")
        return ranker.head
