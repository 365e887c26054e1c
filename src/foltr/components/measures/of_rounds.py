"""Measures of rounds while the ranker learns: what users were shown, and what clients sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core.spec import measure
from foltr.core.world.measures import OnlineMeasure, Round


@measure
@dataclass(frozen=True)
class OnlineNDCG(OnlineMeasure):
    """Return the mean over clients of the nDCG@10 of the lists that they were shown in a round.

    Queries without a relevant document count 0. Every run records it.

    Reference: Oosterhuis & de Rijke, CIKM 2018."""

    @property
    def name(self) -> str:
        return "online_ndcg@10"

    @property
    def label(self) -> str:
        return "online nDCG@10"

    def of_round(self, round: Round) -> float:
        seen = round.observed
        return float("nan") if seen is None or not len(seen.ndcg) else float(seen.ndcg.mean())


@measure
@dataclass(frozen=True)
class MaxRR(OnlineMeasure):
    """Return the mean over clients of the reciprocal rank of the first click in the lists of a
    round, 0 without a click.

    Every run records it.

    Reference: Kharitonov, WSDM 2019."""

    @property
    def label(self) -> str:
        return "online MaxRR"

    def of_round(self, round: Round) -> float:
        seen = round.observed
        return float("nan") if seen is None or not len(seen.max_rr) else float(seen.max_rr.mean())


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


@measure
@dataclass(frozen=True)
class BytesSent(OnlineMeasure):
    """Return the bytes of all messages that clients send to the server in a round.

        clients x numbers of a message x 4

    Only the numbers of the messages are counted: a transport and a secure sum add to them
    (`foltr plan` counts those)."""

    higher_is_better = False
    curve = "summed"

    @property
    def name(self) -> str:
        return "bytes_sent"

    @property
    def label(self) -> str:
        return "bytes sent to the server"

    def of_round(self, round: Round) -> float:
        return float(round.sent.updates.nbytes)
