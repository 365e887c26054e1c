"""The rounds of unlearning, as far as they are known before anything runs: the privacy ledger
counts them."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.errors import require
from foltr.federation import cohort_size
from foltr.seeds import key
from foltr.simulation.departures import Departures
from foltr.world.protocols import PlannedPhase, Unlearner


@dataclass(frozen=True)
class Stretch:
    """The rounds of one phase, in which one group of clients is unlearned."""

    group: int  # its number, from 0
    # its first round, counted from the first one of this group's unlearning; None after a phase
    # whose number of rounds is not certain
    first: int | None
    phase: PlannedPhase
    clients: int  # those who may take part
    fewest: int  # clients that are asked in a round
    most: int


def stretches(
    unlearner: Unlearner,
    departures: Departures,
    participation: float,
    rounds: int,
    sessions: int,
    history: int | None,
) -> tuple[Stretch, ...] | None:
    """All phases of all groups that leave, in order; None if the unlearner does not say them."""
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
            # of the clients of a stored round, some may have left since
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
    """The most rounds that devices have stored when the next group leaves (`unlearn.interval`)."""
    if history is None:
        return 0
    if not restarts:
        return stored + -(-made // history)
    # every round where history x made / rounds is below 3/2; elsewhere they are stored at
    # intervals of at least 2/3 of that
    return min(made, -(-3 * rounds // (2 * history)))


def _checked(
    unlearner: Unlearner, phases: tuple[PlannedPhase, ...] | None
) -> tuple[PlannedPhase, ...] | None:
    name = type(unlearner).__name__
    if phases is None:
        return None
    made = isinstance(phases, tuple) and all(isinstance(each, PlannedPhase) for each in phases)
    require(made, f"{name}.planned gave {phases!r}, not a tuple of PlannedPhase, or None")
    for each in phases:
        known = each.who in ("remaining", "leaving", "stored")
        sound = known and each.rounds >= 0 and each.sessions >= 1
        require(sound, f"{name}.planned gave a phase that cannot be: {each}")
    return phases


def unlearning_seed(seed: int, groups: int, repetition: int) -> int:
    """The seed of the rounds in which the last of so many groups is unlearned. They share no
    random draws with training, nor with the unlearning of another group."""
    return key(seed, "unlearning", groups, repetition) & (2**63 - 1)
