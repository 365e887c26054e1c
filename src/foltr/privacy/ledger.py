"""The ledger: which guarantee a run gives, for what, against whom, and who must be trusted for it.

There are two adversaries. The server sees what arrives: each message or, under a secure sum, the
sum. The other sees only models: a reader of a published ranker, or a client of other rounds.
Clients of the same round know their own shares of noise and count as colluding. The guarantee is
(epsilon, delta)-differential privacy by replacement: one interaction, one client's round, or
everything that one client does in the run is replaced by anything else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from foltr.core import Privatizer
from foltr.core.errors import require
from foltr.core.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.core.guards import described
from foltr.core.spec import brief
from foltr.privacy.accounting import NONE, Bound, Parts, bound, sampled, unexceeded
from foltr.privacy.text import Case, block, counted, epsilon_text, remarks

Who = Literal["server", "models"]
Unit = Literal["interaction", "round", "client"]
TITLES: dict[Who, str] = {"server": "the server", "models": "observers of models"}
# version of the guarantees: version 1 ignored device memory and malicious clients, and its
# epsilons were too small
VERSION = 2
NOBODY, CLIENTS, FOR_THE_SUM, THE_SERVER = (
    "nobody",
    "enough other clients",
    "the server, for the sum",
    "the server",
)


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
class Ledger:
    """The guarantees of a run against every adversary, with remarks."""

    mechanism: str  # "none" if there is none
    nominal: str
    delta: float
    views: tuple[AdversaryGuarantees, ...]
    remarks: tuple[str, ...]  # why the guarantee differs from the published one

    def guarantee(self, who: Who, unit: Unit) -> Bound:
        """The guarantee against `who` for a unit. For an interaction without a guarantee of its
        own it is that of the client's round."""
        found = {
            each.unit: each.bound
            for view in self.views
            if view.who == who
            for each in view.guarantees
        }
        return found[unit] if unit in found else found["round"]

    def lines(self) -> list[str]:
        """The ledger as text for a terminal of 100 columns."""
        rows = [
            (TITLES[view.who], view.trusted, tuple(e.bound for e in view.guarantees))
            for view in self.views
        ]
        units = tuple(each.title for each in self.views[0].guarantees)
        return block(self.mechanism, self.nominal, self.delta, units, rows, self.remarks)

    def plain(self) -> dict[str, Any]:
        """The ledger for result.json, which has no infinity: an infinite epsilon is null."""
        return {
            "version": VERSION,
            "mechanism": self.mechanism,
            "nominal": self.nominal,
            "delta": self.delta,
            "views": [_plain(view) for view in self.views],
            "remarks": list(self.remarks),
            "lines": self.lines(),
        }


def _plain(view: AdversaryGuarantees) -> dict[str, Any]:
    guarantees = []
    for each in view.guarantees:
        epsilon, finite = each.bound.epsilon, math.isfinite(each.bound.epsilon)
        about = {
            "unit": each.unit,
            "title": each.title,
            "finite": finite,
            "epsilon": epsilon if finite else None,
        }
        guarantees.append(
            {
                **about,
                "told": epsilon_text(epsilon),
                "delta": each.bound.delta,
                "how": each.bound.how,
            }
        )
    return {
        "against": view.who,
        "title": TITLES[view.who],
        "trusted": view.trusted,
        "guarantees": guarantees,
    }


def ledger(privacy: Privatizer | None, given: Conditions, delta: float) -> Ledger:
    """The ledger of a privatizer under these conditions.

    The random choice of a round's cohort improves a guarantee only for noise that a trusted server
    adds, because the server knows who takes part, and only if no malicious client reveals its
    participation. The observer of models may be one client that was not drawn. It is not counted
    for runs that were unlearned: who takes part in unlearning, and who left, is known."""
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    stretches = tuple(_counted(privacy, each) for each in given.stretches)
    void = next(
        (name for name in stretches[0].voids if any(s.voids[name] for s in stretches)), None
    )
    made = tuple(event for each in stretches for event in each.made)
    rewards = privacy is not None and privacy.acts_on == "rewards" and bool(made)
    answers = rewards and all(isinstance(event, RandomizedResponse) for event in made)
    events = () if void else made
    views, secretly = [], None
    if given.setting.cohort < given.clients - 1 and not given.missing and not given.later:
        secretly = _by_the_server(events)
    for who in TITLES:
        seen = tuple(() if void else each.seen(who) for each in stretches)
        found = _guarantees(seen, answers, given, delta)
        if secretly:
            found = [
                replace(each, title="one client, whole run") if each.unit == "client" else each
                for each in found
            ]
        if who == "models" and secretly:
            found = _amplified(found, secretly, given, delta)
        holds = any(math.isfinite(each.bound.epsilon) for each in found)
        secure = any(each.secure(who) for each in stretches)
        views.append(
            AdversaryGuarantees(
                who, _trusted(events, who, secure) if holds else None, tuple(found)
            )
        )
    of_round, total = (each.bound for each in views[-1].guarantees[-2:])
    first, *others = stretches
    later = tuple(each.made for each in others)
    case = Case(
        privacy is not None, rewards, first.made, given, first.counted_on,
        void, of_round, total, delta, later,
    )  # fmt: skip
    if privacy is None:
        return Ledger("none", "nothing", delta, tuple(views), tuple(remarks(case)))
    mechanism = brief(privacy) + (", behind a secure sum" if given.secure else "")
    return Ledger(mechanism, privacy.nominal(), delta, tuple(views), tuple(remarks(case)))


@dataclass(frozen=True)
class Stretch:
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


def _counted(privacy: Privatizer | None, given: Conditions) -> Stretch:
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
    return Stretch(given, made, counted_on, voids)


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


Seen = tuple[tuple[Event, ...], ...]  # the events of a round of each stretch, as observed


def _guarantees(seen: Seen, answers: bool, given: Conditions, delta: float) -> list[Guarantee]:
    """The guarantees for each unit, from the events that the adversary observes.

    A client has spent what it spends in all rounds of training and of unlearning. A single round
    is the worst of them. If each event is an answer for a reward and searches are separate, an
    interaction has a guarantee of its own. If a device remembers, or uses stored messages that
    lack noise, a change in one round may change all later rounds."""
    rounds = tuple(dict.fromkeys(seen))
    whole = [
        tuple((event, count) for events, count in zip(rounds, counts, strict=True) if count
              for event in events)
        for counts in _busiest(seen, rounds, given.counts)
    ]  # fmt: skip
    once = whole if given.lasting else [tuple((event, 1) for event in each) for each in rounds]
    units: list[tuple[Unit, str, list[Parts]]] = [
        ("round", "one client-round", once),
        ("client", f"one client, {counted(given.most, 'round')}", whole),
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
    counts = np.array(takes)  # (clients, stretches)
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
        return THE_SERVER
    if "sum" not in places:
        return NOBODY
    if secure:
        return CLIENTS
    return NOBODY if who == "server" else FOR_THE_SUM
