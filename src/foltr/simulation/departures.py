"""Clients who leave a federation: which, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.simulation.malicious import Malicious

Groups = tuple[tuple[int, ...], ...]
Leaving = Literal["malicious"] | Groups  # as an experiment says it


@dataclass(frozen=True)
class Departures:
    """Groups of clients that leave one after another, each group together."""

    groups: Groups
    clients: int  # in the federation before anybody leaves

    @classmethod
    def of(cls, leaving: Leaving, clients: int, malicious: Malicious | None) -> Departures:
        """`malicious` says who leaves if all malicious clients do: they are one group."""
        if isinstance(leaving, str):
            never = f"leaving={leaving!r} needs an attack by clients that are always the same ones"
            way_out = "set attack and malicious, and not roaming"
            require(malicious is not None and not malicious.roaming, f"{never}: {way_out}")
            assert malicious is not None
            groups: Groups = (tuple(malicious.members(0).tolist()),)
        else:
            groups = leaving
        _check(groups, clients)
        return cls(groups, clients)

    @property
    def last(self) -> Array:
        """The group that leaves last."""
        return np.array(self.groups[-1], np.int64)

    @property
    def left(self) -> Array:
        """All who have left in the end, in ascending order."""
        return np.array(sorted(client for group in self.groups for client in group), np.int64)

    @property
    def remaining(self) -> Array:
        return np.setdiff1d(np.arange(self.clients), self.left)


def _check(groups: Groups, clients: int) -> None:
    nobody = (
        "say which clients leave, a group after another, as in leaving=((3, 7),), or"
        " leaving='malicious'"
    )
    require(len(groups) > 0 and all(groups), f"{nobody}; got {groups!r}")
    seen: set[int] = set()
    for group in groups:
        ascending = tuple(sorted(group))
        wrong_order = f"give the clients of a group in ascending order: {ascending}, not {group!r}"
        require(group == ascending, wrong_order)
        for client in group:
            known = f"there is no client {client}: they are 0 .. {clients - 1}"
            require(0 <= client < clients, known)
            require(client not in seen, f"client {client} leaves twice")
            seen.add(client)
    require(len(seen) < clients, f"all {clients} clients leave: nobody remains to learn from")
