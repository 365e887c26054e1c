"""How far the updates of clients disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core.spec import measure
from foltr.core.world.measures import OnlineMeasure, Round


@measure
@dataclass(frozen=True)
class Divergence(OnlineMeasure):
    """Return the share of the clients' updates that cancels when they are averaged.

        1 - |u|^2 / (sum_i w_i |u_i|^2 / sum_i w_i),   u = sum_i w_i u_i / sum_i w_i

    u_i is the update of client i in the round, w_i its weight. It is 0 if all clients send the
    same update, and 1 if their updates cancel. It equals 1 - 1 / B^2 with the dissimilarity B of
    FedProx, taken over updates. Updates of few searches are noisy, so those of similar clients
    differ as well.

    Figure 4.1 of Wang's thesis is a sketch of what is measured: local updates that lead away from
    each other.

    Reference: Li, Sahu, Zaheer, Sanjabi, Talwalkar & Smith, MLSys 2020 (arXiv:1812.06127); Wang,
    PhD thesis 2024, section 4.1."""

    higher_is_better = False

    @property
    def label(self) -> str:
        return "divergence of updates"

    def of_round(self, round: Round) -> float:
        updates, weights = round.directions.astype(np.float64), round.sent.weights
        largest, total = np.abs(updates).max(initial=0.0), weights.sum()
        if not largest > 0.0 or not total > 0.0:
            return float("nan")
        updates /= largest  # squares of tiny updates would be 0
        mean = weights @ updates / total
        squares = weights @ (updates**2).sum(axis=1) / total
        return float(max(0.0, 1.0 - mean @ mean / squares))
