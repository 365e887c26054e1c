"""FLTrust: clients weighted by their agreement with the server's own update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.cohorts import in_order
from foltr.core.errors import require
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class FLTrust(Memoryless):
    """Weight each update by its cosine similarity to an update that the server computes itself.

        sum_i t_i (|g| / |u_i|) u_i / sum_i t_i     with t_i = max(0, cos(u_i, g))

    g is the update of a client that the server runs on queries of its own. Every update is
    rescaled to the length of g. Updates at more than a right angle to g have weight 0. If all
    weights are 0, the direction is 0. n equal updates give a direction with the length of g, not
    the update itself. Client weights are ignored.

    Fields
        queries: queries that the server's own client holds, drawn at random (>= 1)

    Reference: Cao, Fang, Liu & Gong, NDSS 2021 (arXiv:2012.13995)."""

    queries: int = 20

    keeps_agreement = False

    def __post_init__(self) -> None:
        require(self.queries >= 1, f"queries must be >= 1, got {self.queries}")

    @property
    def trusted_queries(self) -> int:
        return self.queries

    def combine(self, cohort: Cohort) -> Array:
        require(
            cohort.trusted is not None,
            "FLTrust needs the update of a client that the server trusts",
        )
        updates, own = in_order(cohort).updates, np.asarray(cohort.trusted, np.float64)
        length = np.sqrt(np.einsum("d,d->", own, own))
        lengths = np.sqrt(np.einsum("nd,nd->n", updates, updates, dtype=np.float64))
        usable = np.isfinite(lengths) & (lengths > 0.0)
        if length == 0.0 or not usable.any():
            return np.zeros(len(own))
        updates, lengths = updates[usable], lengths[usable]
        trust = np.maximum(0.0, np.einsum("nd,d->n", updates, own) / (lengths * length))
        whole = trust.sum()
        return np.einsum("n,nd->d", trust * length / lengths, updates) / (
            whole if whole > 0.0 else 1.0
        )
