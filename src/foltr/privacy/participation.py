"""Count how often clients take part in training and unlearning, which determines the privacy
budget that they spend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from foltr.core import Array
from foltr.core.federation import participants
from foltr.experiment import Experiment
from foltr.experiment.compatibility import stretches_of
from foltr.experiment.departures import Groups, Stretch, unlearning_seed
from foltr.experiment.malicious import Malicious

# Up to this many rounds (of 500 clients), the draws of clients are counted. In longer experiments
# every client is assumed to take part in every round.
COUNTED = 50_000
MOST_CLIENTS = 50  # whose exposures are compared one by one


@dataclass(frozen=True)
class Exposure:
    """How often clients take part, in the worst case. In each tuple of numbers, the first number
    is for training, the others are for the phases of unlearning
    (`compatibility.stretches_of`)."""

    # The numbers of rounds in which a client takes part, for the clients with the largest ones: no
    # other client takes part at least as often in all phases.
    takes: tuple[tuple[int, ...], ...]
    among: tuple[int, ...]  # the largest number of malicious clients in one round

    @property
    def times(self) -> int:
        """Rounds of training of the client that takes part most often."""
        return max(take[0] for take in self.takes)

    @property
    def malicious(self) -> int:
        """The largest number of malicious clients in one round of training."""
        return self.among[0]

    def or_worse(self, other: Exposure) -> Exposure:
        """The worst case of this exposure and another one."""
        most = tuple(map(max, self.among, other.among))
        return Exposure(_rows(unexceeded(np.array(self.takes + other.takes))), most)


def exposure_of(e: Experiment) -> Exposure:
    """The exposure of an experiment, by its random draws."""
    stretches = stretches_of(e)
    groups = e.departures.groups if stretches else ()
    members = Malicious(e.clients, e.malicious, e.roaming, e.seed)
    rounds = e.rounds + sum(each.phase.rounds for each in stretches)
    if e.participation == 1.0 or rounds * (1.0 + e.clients / 500) > COUNTED:
        takes = _everybody(e.rounds, groups, stretches)
        among = (min(e.malicious, e.cohort), *(_among(members, groups, s) for s in stretches))
        return Exposure(_rows(unexceeded(takes)), among)
    stored = e.history if any(each.phase.who == "stored" for each in stretches) else None
    restarts = e.unlearning is not None and e.unlearning.restarts
    luck = 0 if e.unlearning is None else e.unlearning.repetition
    return _drawn(members, e.participation, e.rounds, stored, restarts, luck, groups, stretches)


def unexceeded(counts: Array) -> Array:
    """Those rows (clients x phases) that no other row exceeds or equals in all numbers; the
    largest number of each column, as one row, where they are many."""
    rows = np.unique(counts, axis=0)
    rows = rows[np.argsort(-rows.sum(axis=1), kind="stable")]
    found: list[Array] = []
    for row in rows:
        if not any(bool((row <= other).all()) for other in found):
            found.append(row)
        if len(found) > MOST_CLIENTS:
            return rows.max(axis=0, keepdims=True)
    return np.stack(found)


def _rows(takes: Array) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, takes.tolist()))


def _everybody(rounds: int, groups: Groups, stretches: tuple[Stretch, ...]) -> Array:
    """Rounds of a client that is asked whenever it can be: one row per group that leaves, and one
    for the clients that remain."""
    takes = [
        [rounds] + [s.phase.rounds if _asked(s, group) else 0 for s in stretches]
        for group in range(len(groups) + 1)
    ]
    return np.array(takes)


def _asked(stretch: Stretch, group: int) -> bool:
    """Whether the clients of a group take part. The clients that remain are the last group."""
    if stretch.phase.who == "leaving":
        return group == stretch.group
    return group > stretch.group


def _among(members: Malicious, groups: Groups, stretch: Stretch) -> int:
    """The largest number of malicious clients in a round, whichever clients are asked."""
    if not members.count:
        return 0
    if members.roaming:
        return min(members.count, stretch.most)
    leaving = stretch.phase.who == "leaving"
    gone = groups[stretch.group : stretch.group + 1] if leaving else groups[: stretch.group + 1]
    these = [client for group in gone for client in group]
    left = int(np.isin(members.members(0), these).sum())
    return min(left if leaving else members.count - left, stretch.most)


@cache
def _drawn(
    members: Malicious,
    participation: float,
    rounds: int,
    history: int | None,
    restarts: bool,
    luck: int,
    groups: Groups,
    stretches: tuple[Stretch, ...],
) -> Exposure:
    """Repeat the random draws of training (`train`) and of unlearning (`unlearn.choice`), and
    count. `history` is None if no stored round is repeated."""
    clients, seed = members.clients, members.seed
    takes = np.zeros((1 + len(stretches), clients), np.int64)
    among = [0] * (1 + len(stretches))
    stored = np.zeros(clients, np.int64)  # most stored rounds of each client

    def count(place: int, t: int, there: Array) -> None:
        takes[place, there] += 1
        if members.count:
            among[place] = max(among[place], int(np.count_nonzero(members(t, there))))

    for t in range(rounds):
        there = participants(clients, participation, seed, t)
        count(0, t, there)
        if history is not None and t % history == 0:
            stored[there] += 1
    remaining = np.arange(clients)
    for number, group in enumerate(groups):
        remaining = np.setdiff1d(remaining, group)
        draws, before = unlearning_seed(seed, number + 1, luck), takes.sum(axis=0)
        own = [(i, s) for i, s in enumerate(stretches, 1) if s.group == number]
        for place, stretch in own:
            phase = stretch.phase
            if phase.who == "remaining" and stretch.first is not None:
                for t in range(stretch.first, stretch.first + phase.rounds):
                    one = participants(len(remaining), participation, draws, t)
                    count(place, t, remaining[one])
                continue
            there = np.array(group) if phase.who == "leaving" else remaining
            most = stored[there] if phase.who == "stored" else phase.rounds
            takes[place, there] = np.minimum(phase.rounds, most)
            among[place] = _among(members, groups, stretch)
        made = takes.sum(axis=0) - before
        stored = made if restarts else stored + made
    return Exposure(_rows(unexceeded(takes.T)), tuple(among))
