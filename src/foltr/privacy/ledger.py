"""The ledger: what a run guarantees, for what, against whom, and who must be trusted for it.

Two are looked at. The server sees what arrives: each message or, under a secure sum, their sum.
Who sees only models (readers of a published ranker, clients of other rounds) sees what is made of
that. Clients of the same round know their own shares of noise: they count as colluding. What may
be learned is limited by (epsilon, delta)-differential privacy with replacement: one interaction,
one client's round, or all that one client does in the run becomes anything else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from foltr.core import Privatizer
from foltr.errors import require
from foltr.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.kinds import Untouched
from foltr.privacy.accounting import NONE, Bound, Parts, bound, described, sampled
from foltr.privacy.text import Case, block, counted, epsilon_told, remarks
from foltr.spec import brief

Who = Literal["server", "models"]
Unit = Literal["interaction", "round", "client"]
TITLES: dict[Who, str] = {"server": "the server", "models": "who sees only models"}
# of what is promised: 1 counted neither memory nor malicious clients, and promised what could be
# beaten
VERSION = 2
NOBODY, CLIENTS, FOR_THE_SUM, THE_SERVER = (
    "nobody",
    "enough other clients",
    "the server, for the sum",
    "the server",
)


@dataclass(frozen=True)
class Guarantee:
    unit: Unit  # what is hidden
    title: str  # the same in words
    bound: Bound


@dataclass(frozen=True)
class View:
    """What holds against one adversary."""

    who: Who
    trusted: str | None  # who must be, for that; None where nothing holds
    guarantees: tuple[Guarantee, ...]


@dataclass(frozen=True)
class Ledger:
    mechanism: str  # "none" if there is none
    nominal: str
    delta: float
    views: tuple[View, ...]
    remarks: tuple[str, ...]  # why what holds is not what was published

    def promised(self, who: Who, unit: Unit) -> Bound:
        """What holds against `who` for a unit; an interaction is hidden at least as well as its
        client's round."""
        found = {
            each.unit: each.bound
            for view in self.views
            if view.who == who
            for each in view.guarantees
        }
        return found[unit] if unit in found else found["round"]

    def lines(self) -> list[str]:
        """For a terminal of 100 columns."""
        rows = [
            (TITLES[view.who], view.trusted, tuple(e.bound for e in view.guarantees))
            for view in self.views
        ]
        units = tuple(each.title for each in self.views[0].guarantees)
        return block(self.mechanism, self.nominal, self.delta, units, rows, self.remarks)

    def plain(self) -> dict[str, Any]:
        """For result.json, which has no infinity: an epsilon that is not finite is null."""
        return {
            "version": VERSION,
            "mechanism": self.mechanism,
            "nominal": self.nominal,
            "delta": self.delta,
            "views": [_plain(view) for view in self.views],
            "remarks": list(self.remarks),
            "lines": self.lines(),
        }


def _plain(view: View) -> dict[str, Any]:
    told = []
    for each in view.guarantees:
        epsilon, finite = each.bound.epsilon, math.isfinite(each.bound.epsilon)
        about = {
            "unit": each.unit,
            "title": each.title,
            "finite": finite,
            "epsilon": epsilon if finite else None,
        }
        told.append(
            {
                **about,
                "told": epsilon_told(epsilon),
                "delta": each.bound.delta,
                "how": each.bound.how,
            }
        )
    return {
        "against": view.who,
        "title": TITLES[view.who],
        "trusted": view.trusted,
        "guarantees": told,
    }


def ledger(privacy: Privatizer | None, given: Conditions, delta: float) -> Ledger:
    """What holds under these conditions.

    That a round's cohort is drawn from more clients counts only for noise that a trusted server
    adds, because the server itself knows who takes part, and only where no malicious client tells
    what it knows of that. Who sees only models may be one client that was not drawn."""
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    cohort, counted_on, alone = given.setting.cohort, given.setting.arriving, False
    made = described(privacy, given.setting)
    if given.missing and any(event.seen == "sum" for event in made):
        nobody = (
            f"{given.colluding} colluding clients of {counted_on} that may make a round leave"
            " nobody to hide among"
        )
        require(given.colluding < counted_on, nobody)
        alone = given.missing >= counted_on
        if not alone:
            counted_on -= given.missing
            made = described(privacy, replace(given.setting, arriving=counted_on))
    voids = {
        "shared seed": given.seed_is_shared,
        "no grid": any(event.grid is None for event in made),
        "overheard": given.overheard and any(event.seen != "message" for event in made),
        "alone": alone,
        "unbounded": (
            given.unbounded
            and any(_can_be_swamped(event, given.secure, privacy) for event in made)
        ),
    }
    void = next((name for name, holds in voids.items() if holds), None)
    events = () if void else made
    rewards = made if privacy is not None and privacy.acts_on == "rewards" else ()
    views, secretly = (
        [],
        _by_the_server(events) if cohort < given.clients - 1 and not given.missing else None,
    )
    for who in TITLES:
        secure = given.secure and not (who == "server" and given.opened)
        found = _guarantees(_seen(events, who, secure, counted_on), rewards, given, delta)
        if secretly:
            found = [
                replace(each, title="one client, whole run") if each.unit == "client" else each
                for each in found
            ]
        if who == "models" and secretly:
            found = _amplified(found, secretly, given, delta)
        holds = any(math.isfinite(each.bound.epsilon) for each in found)
        views.append(View(who, _trusted(events, who, secure) if holds else None, tuple(found)))
    of_round, total = (each.bound for each in views[-1].guarantees[-2:])
    case = Case(
        privacy is not None, bool(rewards), made, given, counted_on, void, of_round, total, delta
    )
    if privacy is None:
        return Ledger("none", "nothing", delta, tuple(views), tuple(remarks(case)))
    mechanism = brief(privacy) + (", behind a secure sum" if given.secure else "")
    return Ledger(mechanism, privacy.nominal(), delta, tuple(views), tuple(remarks(case)))


def _can_be_swamped(event: Event, secure: bool, privacy: Privatizer | None) -> bool:
    """Whether numbers that are large enough would drown other messages in the rounding of a sum.
    The sum of a secure channel is exact; a server that adds the noise may clip what it gets, if it
    gets each message."""
    clips = privacy is not None and type(privacy).on_arrival is not Untouched.on_arrival
    return (event.seen == "model" and (secure or not clips)) or (
        event.seen == "sum" and not secure
    )


def _seen(events: tuple[Event, ...], who: Who, secure: bool, n: int) -> tuple[Event, ...]:
    """The events as an adversary meets them; () where some noise is not there yet."""
    if who == "models":
        return events
    if any(event.seen == "model" for event in events):
        return ()
    return tuple(
        event if event.seen == "message" or secure else share(event, n) for event in events
    )


def share(event: Event, n: int) -> Event:
    """The part of a sum's noise that one of n messages carries."""
    if isinstance(event, GammaNoise):
        return replace(event, shape=event.shape / n)
    if isinstance(event, GaussianNoise):
        return replace(event, sd=event.sd / math.sqrt(n))
    require(n == 1, f"the ledger does not know how {type(event).__name__} comes in shares")
    return event


def _guarantees(
    seen: tuple[Event, ...], rewards: tuple[Event, ...], given: Conditions, delta: float
) -> list[Guarantee]:  # fmt: skip
    """`rewards`: the events, if they are about rewards. Where each is an answer, an interaction
    has one of its own, if searches are separate. Where a device remembers, whatever is changed in
    one round may change all later ones."""
    answers = tuple(event for event in rewards if isinstance(event, RandomizedResponse))
    whole = tuple((event, given.times) for event in seen)
    once = whole if given.remembers else tuple((event, 1) for event in seen)
    units: list[tuple[Unit, str, Parts]] = [
        ("round", "one client-round", once),
        ("client", f"one client, {counted(given.times, 'round')}", whole),
    ]
    if answers and answers == rewards:
        single = tuple((replace(event, times=1), 1) for event in answers) if seen else ()
        units.insert(
            0,
            (
                "interaction",
                "one interaction",
                single if given.separate and not given.remembers else once,
            ),
        )
    return [
        Guarantee(unit, title, bound(parts, delta) if parts else NONE)
        for unit, title, parts in units
    ]


def _by_the_server(events: tuple[Event, ...]) -> GaussianNoise | None:
    """All noise as one, if it is the server's and normal: then it matters that the server hides
    who takes part."""
    noises = [
        event for event in events if isinstance(event, GaussianNoise) and event.seen == "model"
    ]
    moved = math.hypot(*(event.l2 / event.sd for event in noises))
    off = sum(event.off for event in noises)
    one = GaussianNoise(sd=1.0, l2=moved, seen="model", grid=1.0, off=off)
    return one if moved and len(noises) == len(events) else None


def _amplified(
    found: list[Guarantee], noise: GaussianNoise, given: Conditions, delta: float
) -> list[Guarantee]:
    """The better of two: as if everybody knew who takes part, or with that kept secret."""
    counts = given.rounds if given.remembers else 1, given.rounds
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
