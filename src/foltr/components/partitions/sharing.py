"""A remedy against uneven data: a little of it goes to everybody."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.components.partitions.by_label import ByLabel
from foltr.core import ClickModel, require
from foltr.seeds import stream
from foltr.spec import partition
from foltr.world.dataset import Dataset
from foltr.world.population import Population, with_host
from foltr.world.protocols import Partition


@partition
@dataclass(frozen=True)
class Sharing:
    """Data sharing: some queries go to every client, with all their documents; the rest is held as
    `of` says.

    A `share` of the queries is drawn at random, at least one. A client holds these in full, in the
    place of what it may have held of them, and the rest of its own; it searches uniformly all
    queries that it holds. The server holds the shared queries too, and learns from them alone for
    `warmup` rounds before the federation begins. Whoever gives these queries gives them away. Zhao
    et al., arXiv:1806.00582; thesis 4.4.3 (a tenth of the queries).

    Where clients hold one label each, it closes half of the gap or more (MQ2008, a sample of
    MSLR-WEB10K). Documents of one label show no preference: what is learned there comes from the
    shared queries."""

    of: Partition = ByLabel()
    share: float = 0.1
    warmup: int = 100

    def __post_init__(self) -> None:
        require(0.0 < self.share <= 1.0, f"share must be in (0, 1], got {self.share}")
        require(
            0 <= self.warmup <= 10**9, f"warmup must be in 0 .. 10^9 rounds, got {self.warmup}"
        )

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population:
        differ = (
            f"Sharing: the data has {len(data.labels)} labellings: where clients judge the same"
            " documents differently,"
        )
        require(
            len(data.labels) == 1,
            f"{differ} there is nothing to share; share data with one labelling",
        )
        p = self.of.population(data, users, clients, sessions, seed)
        require(p.hosted == 0, f"Sharing: {self.of} shares queries already")
        queries = stream(seed, "shared").sample(
            data.queries, max(1, round(self.share * data.queries))
        )
        p = with_host(p, queries, users, sessions, self.warmup)
        own, host = slice(0, p.first[clients]), slice(p.first[clients], p.last[clients])
        theirs = ~np.isin(
            np.searchsorted(data.offsets, p.rows[p.starts[own]], side="right") - 1, queries
        )
        kept = [
            np.flatnonzero(theirs[a:b]) + a
            for a, b in zip(p.first[:clients], p.last[:clients], strict=True)
        ]
        shared = np.arange(host.start, host.stop)
        blocks = [*(np.append(blocks, shared) for blocks in kept), shared]
        ends, order = np.cumsum([len(part) for part in blocks]), np.concatenate(blocks)
        return replace(
            p,
            starts=p.starts[order],
            stops=p.stops[order],
            labelling=p.labelling[order],
            ideals=p.ideals[order],
            first=np.append(0, ends[:-1]),
            last=ends,
        )

    def most(self, sessions: int) -> int:
        return self.of.most(sessions)
