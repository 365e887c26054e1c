"""Who leaves a federation, in which order, and the experiment that they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foltr.core import Array, require

if TYPE_CHECKING:
    from foltr.experiment import Experiment

Groups = tuple[tuple[int, ...], ...]


def groups_of(e: Experiment) -> Groups:
    """The groups that leave one after another, each group together; the malicious clients are one
    group."""
    if isinstance(e.leaving, str):
        from foltr.simulation.malicious import Malicious

        never = f"leaving={e.leaving!r} needs an attack by clients that are always the same ones"
        require(
            e.attack is not None and not e.roaming,
            f"{never}: set attack and malicious, and not roaming",
        )
        groups: Groups = (
            tuple(Malicious(e.clients, e.malicious, e.roaming, e.seed).members(0).tolist()),
        )
    else:
        groups = e.leaving
    _checked(groups, e.clients)
    return groups


def _checked(groups: Groups, clients: int) -> None:
    nobody = (
        "say which clients leave, a group after another, as in leaving=((3, 7),), or"
        " leaving='malicious'"
    )
    require(len(groups) > 0 and all(groups), f"{nobody}; got {groups!r}")
    seen: set[int] = set()
    for group in groups:
        ascending = tuple(sorted(group))
        require(
            group == ascending,
            f"clients of a group are told in ascending order: {ascending}, not {group!r}",
        )
        for client in group:
            require(
                0 <= client < clients, f"there is no client {client}: they are 0 .. {clients - 1}"
            )
            require(client not in seen, f"client {client} leaves twice")
            seen.add(client)
    require(len(seen) < clients, f"all {clients} clients leave: nobody remains to learn from")


def left_of(e: Experiment) -> Array:
    """All who have left in the end, in ascending order."""
    return np.array(sorted(client for group in groups_of(e) for client in group), np.int64)


def remaining_of(e: Experiment) -> Array:
    return np.setdiff1d(np.arange(e.clients), left_of(e))


def base_of(e: Experiment) -> Experiment:
    """The experiment that the last group leaves: with the groups before it unlearned, or
    nobody."""
    before: Groups = () if isinstance(e.leaving, str) else e.leaving[:-1]
    return replace(e, leaving=before, unlearning=e.unlearning if before else None)
