"""Which guarantee a run gives, for what, against whom, and who must be trusted for it: as numbers.

There are two adversaries. The server sees what arrives: each message or, under a secure sum, the
sum. The other sees only models: a reader of a published ranker, or a client of other rounds.
Clients of the same round know their own shares of noise and count as colluding. The guarantee is
(epsilon, delta)-differential privacy by replacement: one interaction, one client's round, or
everything that one client does in the run is replaced by anything else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from foltr.core import Privatizer
from foltr.core.errors import require
from foltr.core.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.core.guards import described
from foltr.core.system.tables import count
from foltr.privacy.accounting import NONE, Bound, Parts, bound, sampled
from foltr.privacy.participation import unexceeded

Who = Literal["server", "models"]
Unit = Literal["interaction", "round", "client"]
TITLES: dict[Who, str] = {"server": "the server", "models": "observers of models"}


@dataclass(frozen=True)
class Guarantee:
    """The guarantee for one unit of data."""

    unit: Unit  # what is replaced
    title: str  # the same in words
    bound: Bound


@dataclass(frozen=True)
class AdversaryGuarantees:
    """The guarantees against one adversary."""

    who: Who
    trusted: str | None  # who must be trusted for that; None if there is no guarantee
    guarantees: tuple[Guarantee, ...]


@dataclass(frozen=True)
class Phase:
    """Equal rounds, of training or of a phase of unlearning, and what may be counted in each."""

    given: Conditions
    made: tuple[Event, ...]
    counted_on: int  # messages whose noise is certain
    voids: dict[str, bool]  # reasons for no guarantee at all -> whether they hold

    def secure(self, who: Who) -> bool:
        return self.given.secure and not (who == "server" and self.given.opened)

    def seen(self, who: Who) -> tuple[Event, ...]:
        """The events as an adversary observes them; () if some noise is not yet added."""
        if who == "models":
            return self.made
        if any(event.seen == "model" for event in self.made):
            return ()
        return tuple(
            event if event.seen == "message" or self.secure(who) else share(event, self.counted_on)
            for event in self.made
        )


@dataclass(frozen=True)
class Account:
    """The guarantees of a run, and the facts that explain them."""

    privacy: Privatizer | None
    given: Conditions
    delta: float
    phases: tuple[Phase, ...]  # training, and each phase of unlearning
    rewards: bool  # whether rewards are privatized
    void: str | None  # why there is no guarantee at all
    views: tuple[AdversaryGuarantees, ...]
    round: Bound  # for a client's round, against an observer of models
    total: Bound  # for all its rounds


def account_of(privacy: Privatizer | None, given: Conditions, delta: float) -> Account:
    """The guarantees of a privatizer under these conditions.

    The random choice of a round's cohort improves a guarantee only for noise that a trusted server
    adds, because the server knows who takes part, and only if no malicious client reveals its
    participation. The observer of models may be one client that was not drawn. It is not counted
    for runs that were unlearned: who takes part in unlearning, and who left, is known."""
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    phases = tuple(_phase(privacy, each) for each in given.stretches)
    voids = {name: any(phase.voids[name] for phase in phases) for name in phases[0].voids}
    void = next((name for name, holds in voids.items() if holds), None)
    made = tuple(event for phase in phases for event in phase.made)
    rewards = privacy is not None and privacy.acts_on == "rewards" and bool(made)
    answers = rewards and all(isinstance(event, RandomizedResponse) for event in made)
    events = () if void else made
    noise = None
    if given.setting.cohort < given.clients - 1 and not given.missing and not given.later:
        noise = _by_the_server(events)
    everything = "whole run" if noise else count(given.most, "round")
    views = []
    for who in TITLES:
        seen = tuple(() if void else phase.seen(who) for phase in phases)
        guarantees = _guarantees(seen, answers, everything, given, delta)
        if who == "models" and noise:
            guarantees = _amplified(guarantees, noise, given, delta)
        trusted = None
        if any(math.isfinite(each.bound.epsilon) for each in guarantees):
            trusted = _trusted(events, who, any(phase.secure(who) for phase in phases))
        views.append(AdversaryGuarantees(who, trusted, tuple(guarantees)))
    *_, of_round, total = (each.bound for each in views[-1].guarantees)
    return Account(privacy, given, delta, phases, rewards, void, tuple(views), of_round, total)


def _phase(privacy: Privatizer | None, given: Conditions) -> Phase:
    counted_on, alone = given.setting.least_arriving, False
    made = described(privacy, given.setting)
    if given.missing and any(event.seen == "sum" for event in made):
        nobody_left = (
            f"a round may consist of only {counted_on} messages: {given.colluding} colluding"
            " clients leave no other client to hide among"
        )
        require(given.colluding < counted_on, nobody_left)
        alone = given.missing >= counted_on
        if not alone:
            counted_on -= given.missing
            made = described(privacy, replace(given.setting, least_arriving=counted_on))
    voids = {
        "repeatable": given.repeatable and privacy is not None,
        "shared seed": given.seed_is_shared,
        "no grid": any(event.grid is None for event in made),
        "overheard": given.overheard and any(event.seen != "message" for event in made),
        "alone": alone,
        "unbounded": (
            given.unbounded
            and any(_can_be_swamped(event, given.secure, privacy) for event in made)
        ),
    }
    return Phase(given, made, counted_on, voids)


def _can_be_swamped(event: Event, secure: bool, privacy: Privatizer | None) -> bool:
    """Whether very large numbers could hide other messages in the rounding of a sum. The sum of
    a secure channel is exact. A server that adds the noise can clip messages, if it receives
    each."""
    clips = privacy is not None and privacy.clips_on_arrival
    return (event.seen == "model" and (secure or not clips)) or (
        event.seen == "sum" and not secure
    )


def share(event: Event, n: int) -> Event:
    """The part of a sum's noise that one of n messages carries."""
    if isinstance(event, GammaNoise):
        return replace(event, shape=event.shape / n)
    if isinstance(event, GaussianNoise):
        return replace(event, sd=event.sd / math.sqrt(n))
    require(n == 1, f"the ledger cannot account for shares of {type(event).__name__}")
    return event


Seen = tuple[tuple[Event, ...], ...]  # the events of a round of each phase, as observed


def _guarantees(
    seen: Seen, answers: bool, everything: str, given: Conditions, delta: float
) -> list[Guarantee]:
    """The guarantees for each unit, from the events that the adversary observes.

    A client has spent what it spends in all rounds of training and of unlearning. A single round
    is the worst of them. If each event is an answer for a reward and searches are separate, an
    interaction has a guarantee of its own. If a device remembers, or uses stored messages that
    lack noise, a change in one round may change all later rounds."""
    rounds = tuple(dict.fromkeys(seen))
    whole = [
        tuple((event, times) for events, times in zip(rounds, counts, strict=True) if times
              for event in events)
        for counts in _busiest(seen, rounds, given.counts)
    ]  # fmt: skip
    once = whole if given.lasting else [tuple((event, 1) for event in each) for each in rounds]
    units: list[tuple[Unit, str, list[Parts]]] = [
        ("round", "one client-round", once),
        ("client", f"one client, {everything}", whole),
    ]
    if answers:
        single = [tuple((_one_answer(event), 1) for event in each) for each in rounds]
        separate = given.separate and not given.lasting
        units.insert(0, ("interaction", "one interaction", single if separate else once))
    hidden = all(rounds)  # else there are rounds in which nothing hides the data
    return [
        Guarantee(unit, title, _worst(cases, delta) if hidden else NONE)
        for unit, title, cases in units
    ]


def _one_answer(event: Event) -> Event:
    return replace(event, times=1) if isinstance(event, RandomizedResponse) else event


def _worst(cases: list[Parts], delta: float) -> Bound:
    return max((bound(parts, delta) for parts in cases), key=lambda each: each.epsilon)


def _busiest(seen: Seen, rounds: Seen, takes: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """How often a client takes part in each of the different kinds of `rounds`: for every client
    that may have spent most."""
    counts = np.array(takes)  # (clients, phases)
    alike = [[each == kind for each in seen] for kind in rounds]
    summed = np.stack([counts[:, same].sum(axis=1) for same in alike], axis=1)
    return [list(map(int, row)) for row in unexceeded(summed)]


def _by_the_server(events: tuple[Event, ...]) -> GaussianNoise | None:
    """All noise as one event, if the server adds it and it is normal; only then does secret
    participation help."""
    noises = [
        event for event in events if isinstance(event, GaussianNoise) and event.seen == "model"
    ]
    moved = math.hypot(*(event.l2 / event.sd for event in noises))
    log_error = sum(event.log_error for event in noises)
    one = GaussianNoise(sd=1.0, l2=moved, seen="model", grid=1.0, log_error=log_error)
    return one if moved and len(noises) == len(events) else None


def _amplified(
    found: list[Guarantee], noise: GaussianNoise, given: Conditions, delta: float
) -> list[Guarantee]:
    """For each unit the smaller epsilon: with known participation, or with secret
    participation."""
    counts = given.rounds if given.lasting else 1, given.rounds
    secret = [
        sampled(noise, given.setting.cohort, given.clients - 1, count, delta) for count in counts
    ]
    pairs = zip(found, secret, strict=True)
    return [
        replace(each, bound=min(each.bound, other, key=lambda one: one.epsilon))
        for each, other in pairs
    ]


def _trusted(events: tuple[Event, ...], who: Who, secure: bool) -> str:
    places = {event.seen for event in events}
    if "model" in places:
        return "the server"
    if "sum" not in places:
        return "nobody"
    if secure:
        return "enough other clients"
    return "nobody" if who == "server" else "the server, for the sum"
