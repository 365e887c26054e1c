"""Type 2 of non-IID data: label distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from foltr.core import Array, ClickModel
from foltr.core.errors import require
from foltr.core.kinds import PartitionDefaults
from foltr.core.seeds import stream
from foltr.core.spec import partition
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, holding, iid


@partition
@dataclass(frozen=True)
class ByLabel(PartitionDefaults):
    """Give each client documents of some grades only (non-IID type 2, label distribution).

    Of g grades there are (g choose labels) combinations. The number of clients must be a multiple
    of that; each combination belongs to equally many clients, drawn at random. The documents of a
    grade are shuffled over the whole collection and dealt one by one to the clients that own the
    grade, so their numbers differ by at most one. A client searches the queries of which it holds
    a document, among the documents that it holds.

    Fields
        labels: grades per client (1 .. g; #R in the reference)
        deal: 'disjoint' as above; 'copies' gives all documents of a grade to each of its owners,
            as the published code does for two labels
        iid: the IID counterpart: every client holds everything

    Reference: Wang & Zuccon, SIGIR 2022, after Li et al., ICDE 2022."""

    labels: int = 1
    deal: Literal["disjoint", "copies"] = "disjoint"
    iid: bool = False

    def __post_init__(self) -> None:
        require(self.labels >= 1, f"a client needs at least one label, got {self.labels}")

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        many = f"ByLabel: {self.labels} labels for each client, and the data has {data.grades}"
        require(self.labels <= data.grades, many)
        owned = list(combinations(range(data.grades), self.labels))
        several = (
            f"ByLabel: {self.labels} of {data.grades} labels can be chosen in {len(owned)} ways"
        )
        require(
            clients % len(owned) == 0,
            f"{several}: clients must be a multiple of that, got {clients}",
        )
        if self.iid:
            return iid(data, users, clients, sessions)
        order = np.argsort(stream(seed, "labels").words(clients), kind="stable") % len(owned)
        held = self._dealt(data, [owned[i] for i in order.tolist()], seed)
        for client, (documents, which) in enumerate(zip(held, order.tolist(), strict=True)):
            none = (
                f"ByLabel: no document is left for client {client}, which owns the labels"
                f" {owned[which]}"
            )
            require(
                len(documents) > 0, f"{none}: take fewer clients, or data with more such documents"
            )
        return holding(data, users, held, sessions)

    def _dealt(self, data: Dataset, owned: list[tuple[int, ...]], seed: int) -> list[Array]:
        """The documents of each client, which owns the grades owned[client]."""
        hands: list[list[Array]] = [[] for _ in owned]
        for grade in range(data.grades):
            documents = np.flatnonzero(data.labels[0] == grade)
            shuffled = documents[
                np.argsort(stream(seed, "deal", grade).words(len(documents)), kind="stable")
            ]
            owners = [client for client, grades in enumerate(owned) if grade in grades]
            for i, client in enumerate(owners):
                hands[client].append(
                    documents if self.deal == "copies" else shuffled[i :: len(owners)]
                )
        return [np.concatenate(hand) for hand in hands]
