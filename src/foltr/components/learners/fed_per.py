"""FedPer: a personal output layer on each client."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Residual
from foltr.core import Learner, Ranker
from foltr.core.errors import require
from foltr.core.spec import learner


@learner
@dataclass(frozen=True)
class FedPer(Residual):
    """Share the lower layers of a network; keep the output layer of each client on its device.

    Client c ranks with the server's lower layers and the head v + r_c, and learns both:

        sends (update of the lower layers, 0),   keeps r_c <- r_c + u

    where u is the update of the head. The server's head v stays at its initial value, unless a
    privatizer adds noise to the zeros.

    Fields
        learner: the learner that computes updates (one that sends updates, as PDGD does)

    Reference: Arivazhagan, Aggarwal, Singh & Choudhary, arXiv:1912.00818; in federated ranking:
    Wang & Zuccon, SIGIR 2022."""

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
