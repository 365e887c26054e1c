"""Data with one extra feature per user, to test whether a ranker has forgotten a user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from foltr.components.sources.synthetic import Synthetic
from foltr.core.errors import require
from foltr.core.seeds import stream
from foltr.core.spec import source
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.protocols import Source
from foltr.data import cache


@source
@dataclass(frozen=True)
class Marked:
    """Add one feature per user to another source, as a mark that only this user can teach.

    The queries are dealt at random among the users, in equal numbers up to one. Feature f + u is 1
    in a random share of the relevant documents of user u's training queries, and 0 everywhere
    else. So only user u can teach a ranker a weight for it, queries of other splits have no marks,
    and a linear ranker trained without user u has a weight of exactly 0 there. Use it with
    ByUser() as the partition.

    Fields
        data: the source that is marked
        users: number of users (1 .. 1000, at most the number of queries)
        share: probability that a relevant document of a user is marked (0 < share <= 1)
        seed: seed of the draws
    """

    data: Source = Synthetic()
    users: int = 10
    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        require(1 <= self.users <= 1000, f"users must be in 1 .. 1000, got {self.users}")
        require(0.0 < self.share <= 1.0, f"share must be in (0, 1], got {self.share}")

    @property
    def splits(self) -> tuple[str, ...]:
        return self.data.splits

    def load(self, split: str) -> Dataset:
        data = self.data.load(split)
        few = f"{data.queries} queries of {split} cannot be dealt out among {self.users} users"
        require(data.queries >= self.users, few)
        key = {"marked": [self.users, self.share, self.seed], "of": data.content, "split": split}
        found = cache.kept(key, partial(self._write, data, split))
        storage, users = found.arrays["storage"], found.arrays["users"]
        marks = tuple(f"mark {user}" for user in range(self.users))
        normalised = data.normalisation and data.normalisation.widened(self.users)
        return replace(
            data,
            storage=storage,
            width=data.width + self.users,
            users=users,
            content=found.content,
            names=None if data.names is None else (*data.names, *marks),
            normalisation=normalised,
        )

    def _write(self, data: Dataset, split: str, folder: Path) -> dict[str, Any]:
        draws, f = stream(self.seed, "marks", split), data.width
        order = np.argsort(draws.at(0).words(data.queries), kind="stable")
        users = np.empty(data.queries, np.int32)
        users[order] = np.arange(data.queries) % self.users
        storage = np.zeros((data.documents, padded(f + self.users)), np.float32)
        storage[:, :f] = data.features
        if split == "train":
            liked = (data.labels.max(axis=0) > 0) & (
                draws.at(1).uniforms(data.documents) < self.share
            )
            storage[np.flatnonzero(liked), f + np.repeat(users, np.diff(data.offsets))[liked]] = (
                1.0
            )
        np.save(folder / "storage.npy", storage)
        np.save(folder / "users.npy", users)
        return {"users": self.users}
