"""Clients who leave a federation: which, in which order, and the rounds of unlearning that they
cause, as far as these are known before the run. The privacy ledger counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.federation import cohort_size
from foltr.core.seeds import key
from foltr.core.world.protocols import PlannedPhase, Unlearner
from foltr.experiment.malicious import Malicious

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


@dataclass(frozen=True)
class Stretch:
    """The rounds of one phase of the unlearning of one group of clients."""

    group: int  # number of the group, from 0
    # first round of the phase, counted from the start of this group's unlearning; None after a
    # phase whose number of rounds is not known in advance
    first: int | None
    phase: PlannedPhase
    clients: int  # number of clients that may take part
    fewest: int  # smallest number of clients asked in a round
    most: int  # largest number of clients asked in a round


def stretches(
    unlearner: Unlearner,
    departures: Departures,
    participation: float,
    rounds: int,
    sessions: int,
    history: int | None,
) -> tuple[Stretch, ...] | None:
    """All phases of all groups that leave, in order; None if the unlearner does not plan them."""
    stored = 0 if history is None else -(-rounds // history)
    asked, left, found = cohort_size(departures.clients, participation), 0, list[Stretch]()
    for number, group in enumerate(departures.groups):
        phases = _checked(unlearner, unlearner.planned(rounds, sessions, stored))
        if phases is None:
            return None
        left, made = left + len(group), 0
        first: int | None = 0
        remaining = departures.clients - left
        drawn = cohort_size(remaining, participation)
        sizes = {
            "leaving": (len(group), len(group), len(group)),
            "remaining": (remaining, drawn, drawn),
            # some clients of a stored round may have left since then
            "stored": (remaining, max(1, drawn - left), min(asked, remaining)),
        }
        if participation == 1.0:
            sizes["stored"] = sizes["remaining"]
        for phase in phases:
            if phase.rounds:
                found.append(Stretch(number, first, phase, *sizes[phase.who]))
                made += phase.rounds
            certain = first is not None and phase.who != "stored"
            first = made if certain else None
        stored = _stored_next(unlearner.restarts, stored, made, rounds, history)
    return tuple(found)


def _stored_next(restarts: bool, stored: int, made: int, rounds: int, history: int | None) -> int:
    """The largest number of rounds that devices have stored when the next group leaves
    (`unlearn.interval`)."""
    if history is None:
        return 0
    if not restarts:
        return stored + -(-made // history)
    # If history x made / rounds is below 3/2, every round is stored. Otherwise rounds are stored
    # at intervals of at least 2/3 of that number.
    return min(made, -(-3 * rounds // (2 * history)))


def _checked(
    unlearner: Unlearner, phases: tuple[PlannedPhase, ...] | None
) -> tuple[PlannedPhase, ...] | None:
    name = type(unlearner).__name__
    if phases is None:
        return None
    made = isinstance(phases, tuple) and all(isinstance(each, PlannedPhase) for each in phases)
    require(made, f"{name}.planned must return a tuple of PlannedPhase or None, got {phases!r}")
    for each in phases:
        known = each.who in ("remaining", "leaving", "stored")
        sound = known and each.rounds >= 0 and each.sessions >= 1
        valid = "who must be remaining, leaving or stored, rounds >= 0 and sessions >= 1"
        require(sound, f"{name}.planned returned an invalid phase, {each}: {valid}")
    return phases


def unlearning_seed(seed: int, groups: int, repetition: int) -> int:
    """The seed of the rounds that unlearn the last of the first `groups` groups. They share no
    random draws with training or with the unlearning of another group."""
    return key(seed, "unlearning", groups, repetition) & (2**63 - 1)
