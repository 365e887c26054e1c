"""Type 1 of non-IID data: document preferences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from foltr.core import ClickModel
from foltr.core.errors import require
from foltr.core.kinds import PartitionDefaults
from foltr.core.metrics import ideal_dcg
from foltr.core.seeds import stream
from foltr.core.spec import partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, iid


@partition
@dataclass(frozen=True)
class ByIntent(PartitionDefaults):
    """Give each client its own relevance labels for the same documents (non-IID type 1, intents).

    The data has one labelling per intent, and there is one client per labelling. By default the
    intents are shuffled for every query, because some have many more relevant documents than
    others: client c judges query q by labelling p_q(c), where p_q is a random permutation.

    Fields
        dealt: 'per query' shuffles intents for each query; 'for good' gives client c intent c in
            all queries
        iid: the IID counterpart: all clients judge by the highest label that a document has for
            any intent

    Reference: Wang & Zuccon, SIGIR 2022; intents: Zhuang & Zuccon, SIGIR 2021."""

    dealt: Literal["per query", "for good"] = "per query"
    iid: bool = False

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        intents = len(data.labels)
        one = (
            "ByIntent: an intent partition without intents: the data has one labelling; take"
            " Intents(path=...)"
        )
        require(intents > 1, one)
        other = (
            f"ByIntent: the data has {intents} intents, and there are {clients} clients: say"
            f" clients={intents}"
        )
        require(clients == intents, other)
        if self.iid:
            labels = np.append(data.labels, data.labels.max(axis=0, keepdims=True), axis=0)
            p = iid(replace(data, labels=labels), users, clients, sessions)
            merged = np.full(data.queries, intents)
            return replace(p, labelling=merged, ideals=ideal_dcg(labels[intents], data.offsets))
        p = iid(data, users, clients, sessions)
        draws = (
            stream(seed, "intents").words(data.queries * intents).reshape(data.queries, intents)
        )
        dealt = np.argsort(draws, axis=1, kind="stable")  # (q, clients)
        if self.dealt == "for good":
            dealt = np.tile(np.arange(intents), (data.queries, 1))
        # (intents, q)
        ideals = np.stack([ideal_dcg(labels, data.offsets) for labels in data.labels])
        return replace(
            p,
            starts=np.tile(p.starts, clients),
            stops=np.tile(p.stops, clients),
            labelling=dealt.T.ravel(),
            ideals=ideals[dealt, np.arange(data.queries)[:, None]].T.ravel(),
            first=np.arange(clients) * data.queries,
            last=np.arange(1, clients + 1) * data.queries,
        )
