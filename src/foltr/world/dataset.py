"""One data set: flat arrays shared by all clients, never copied per client."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array

# numbers; rows padded to full vector registers make compiled dot products about a third faster
ALIGN = 8


@dataclass(frozen=True, eq=False)
class Dataset:
    """Documents of query q are the rows offsets[q] .. offsets[q + 1].

    `labels` has one row per labelling: nearly always one, several where the same documents were
    judged for several intents. Arrays may be memory maps; treat them as read-only."""

    # (N, w) float32, row-major; w = width rounded up to a multiple of ALIGN, filled up with zeros
    storage: Array
    width: int  # f
    labels: Array  # (labellings, N) int8
    offsets: Array  # (q + 1,) int64
    grades: int  # labels are 0 .. grades - 1
    query_ids: Array  # (q,) bytes
    content: str  # a hash of all that the arrays depend on
    document_ids: Array | None = None  # (N,) bytes
    users: Array | None = None  # (q,) whose query it was
    timestamps: Array | None = None  # (q,) when

    @property
    def features(self) -> Array:
        view = self.storage[:, : self.width]  # (N, f)
        view.flags.writeable = False  # all clients share it
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
