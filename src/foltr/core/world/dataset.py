"""A data set as flat arrays that all clients share."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array
from foltr.core.scoring import Normalisation

# numbers; rows padded to whole vector registers make compiled dot products a third faster
ALIGN = 8


@dataclass(frozen=True, eq=False)
class Dataset:
    """Documents with features and labels; those of query q are the rows offsets[q] .. offsets[q +
    1].

    `labels` has one row per labelling: usually one, several where the same documents were judged
    for several intents. Arrays may be memory maps; treat them as read-only."""

    # (N, w) float32, row-major; w = width rounded up to a multiple of ALIGN, padded with zeros
    storage: Array
    width: int  # f
    labels: Array  # (labellings, N) int8
    offsets: Array  # (q + 1,) int64
    grades: int  # labels are 0 .. grades - 1
    query_ids: Array  # (q,) bytes
    content: str  # a hash of everything that the arrays depend on
    document_ids: Array | None = None  # (N,) bytes
    users: Array | None = None  # (q,) the user of each query
    timestamps: Array | None = None  # (q,) the time of each query
    names: tuple[str, ...] | None = None  # (f) of the features; results do not depend on them
    # how the source normalised raw features; None if it gives them as they are in its files
    normalisation: Normalisation | None = None

    @property
    def features(self) -> Array:
        view = self.storage[:, : self.width]  # (N, f)
        view.flags.writeable = False  # shared by all clients
        return view

    @property
    def queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def documents(self) -> int:
        return len(self.storage)


def padded(width: int) -> int:
    """The number of columns that `width` features take in storage."""
    return -(-width // ALIGN) * ALIGN
