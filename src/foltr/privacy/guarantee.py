"""The guarantee of an experiment. Each step makes plain data of what the one before has made: how
often clients take part (`participation`), the conditions of each phase (here), epsilons
(`accounting`), the guarantees against each adversary (`adversaries`), and their words
(`text`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

from foltr.core import Privatizer
from foltr.core.errors import require
from foltr.core.events import Conditions, Setting
from foltr.core.guards import described
from foltr.core.seeds import stream
from foltr.core.spec import brief
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of, settings_in, stretches_of
from foltr.experiment.departures import Stretch
from foltr.privacy.accounting import Bound, bound
from foltr.privacy.adversaries import TITLES, AdversaryGuarantees, Unit, Who, account_of
from foltr.privacy.participation import Exposure, exposure_of
from foltr.privacy.text import block, epsilon_text, remarks

DELTA = 1e-5
# version of the guarantees: version 1 ignored device memory and malicious clients, and its
# epsilons were too small
VERSION = 2
# fields that change no guarantee (`history` only where clients are unlearned); a seed changes
# only who takes part how often; what patience stops is counted as if all rounds were made
NO_EFFECT = (
    "data", "users", "aggregator", "optimizer", "history", "evaluate_every", "empty", "seed",
    "evaluate_on", "patience",
)  # fmt: skip


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
        bounds = {
            each.unit: each.bound
            for view in self.views
            if view.who == who
            for each in view.guarantees
        }
        return bounds[unit] if unit in bounds else bounds["round"]

    def lines(self) -> list[str]:
        """The ledger as text for a terminal of 100 columns."""
        return block(self.mechanism, self.nominal, self.delta, self.views, self.remarks)

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
        epsilon = each.bound.epsilon
        finite = math.isfinite(epsilon)
        guarantees.append(
            {
                "unit": each.unit,
                "title": each.title,
                "finite": finite,
                "epsilon": epsilon if finite else None,
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
    """The ledger of a privatizer under these conditions."""
    account = account_of(privacy, given, delta)
    mechanism, nominal = "none", "nothing"
    if privacy is not None:
        mechanism = brief(privacy) + (", behind a secure sum" if given.secure else "")
        nominal = privacy.nominal()
    return Ledger(mechanism, nominal, delta, account.views, remarks(account))


@dataclass(frozen=True)
class Deployed:
    """The facts about a federation between machines on which its guarantee depends."""

    rounds: int  # rounds so far; the ledger assumes that every client answered in all of them
    fewest: int  # smallest number of messages that change the model
    sessions: int  # most searches of a client in a round
    repeatable: bool = False  # whether the server can compute the noise (noise = "address")


def lines_of(
    experiments: list[Experiment], features: int, delta: float, colluding: int
) -> list[str]:
    """The guarantee that experiments with equal `relevant` values share, for a terminal: that of
    the worst of their random draws, of the busiest client and with the most malicious clients."""
    first = experiments[0]
    if first.baseline is not None:
        return [
            "privacy       none: a baseline collects all labels in one place and protects nobody."
        ]
    worst = reduce(Exposure.or_worse, map(exposure_of, experiments))
    return ledger_of(first, features, delta, colluding, worst).lines()


def relevant(e: Experiment) -> tuple[object, ...]:
    """The values of the fields that set a guarantee."""
    values = [getattr(e, field.name) for field in fields(e) if field.name not in NO_EFFECT]
    # stored rounds may be made again
    return (*values, None if e.unlearning is None else e.history)


def ledger_of(
    e: Experiment,
    features: int,
    delta: float = DELTA,
    colluding: int = 0,
    exposure: Exposure | None = None,
    deployed: Deployed | None = None,
) -> Ledger:
    """The privacy guarantee of training and of all unlearning.

    Parameters
        features: number of features of a document
        delta: the delta of (epsilon, delta)-differential privacy
        colluding: clients of a round that reveal their noise shares to the adversary, in addition
            to the malicious ones
        exposure: how often clients take part, if not as the experiment's own draws say
        deployed: for a federation between machines: the guarantee of its rounds so far. The ledger
            then assumes that the adversary knows who takes part."""
    if deployed is not None:
        exposure = Exposure(((deployed.rounds,),), (0,))
    given = _conditions(e, features, delta, colluding, exposure or exposure_of(e))
    if deployed is not None:
        given = _of_devices(e, given, deployed)
    return ledger(e.privacy, given, delta)


def _conditions(
    e: Experiment, features: int, delta: float, colluding: int, exposure: Exposure
) -> Conditions:
    """The conditions of training and of each phase of unlearning."""
    params = e.ranker.init(features, stream(0))
    users = stream(0, "users")
    setting = setting_of(e, len(params))
    given = Conditions(
        setting,
        e.rounds,
        exposure.times,
        # malicious clients know whether they were drawn
        clients=e.clients if e.attack is None else e.cohort,
        withstands=_withstands(e, setting, colluding),
        seed_is_shared=e.learner.user_draws(users, stream(0, "own")) is not users,
        remembers=len(e.device_learner.remembered(e.ranker, params)) > 0,
        stores=_stores_bare(e, setting),
        separate=e.learner.separate_searches,
        colluding=colluding,
        malicious=exposure.malicious,
        overheard=e.attack is not None and e.attack.overhears,
        unbounded=e.attack is not None and e.attack.rewrites,
    )
    phases = stretches_of(e)
    if not phases:
        return given
    times = [max(take) for take in zip(*exposure.takes, strict=True)]
    later = tuple(
        _unlearned(e, given, phase, delta, most, malicious)
        for phase, most, malicious in zip(phases, times[1:], exposure.among[1:], strict=True)
    )
    return replace(given, later=later, takes=exposure.takes)


def _of_devices(e: Experiment, given: Conditions, deployed: Deployed) -> Conditions:
    """The conditions of a federation between machines. With `history`, devices store the norms of
    their messages. If only the server adds noise, these norms are without noise."""
    rounding = 0.0 if e.channel is None else e.channel.step / deployed.sessions
    setting = replace(
        given.setting,
        least_arriving=deployed.fewest,
        sessions=deployed.sessions,
        rounding=rounding,
    )
    bare = any(event.seen == "model" for event in described(e.privacy, setting))
    return replace(
        given,
        setting=setting,
        rounds=deployed.rounds,
        clients=e.cohort,
        real=True,
        repeatable=deployed.repeatable,
        stores=e.history is not None and bare,
    )


def _unlearned(
    e: Experiment, training: Conditions, stretch: Stretch, delta: float, times: int, malicious: int
) -> Conditions:
    """The conditions of a phase of unlearning."""
    setting = _worst(e.privacy, settings_in(e, training.setting.d, stretch), delta)
    return replace(
        training,
        setting=setting,
        rounds=stretch.phase.rounds,
        times=max(1, times),
        clients=max(stretch.clients, setting.cohort),
        withstands=_withstands(e, setting, training.colluding),
        malicious=malicious,
    )


def _worst(privacy: Privatizer | None, settings: tuple[Setting, ...], delta: float) -> Setting:
    """The setting with the largest epsilon. Settings differ if the number of clients differs from
    round to round."""
    events = {described(privacy, setting): setting for setting in settings}
    kinds = {tuple(map(type, each)) for each in events}
    differs = f"{type(privacy).__name__} adds another kind of noise in smaller rounds"
    require(len(kinds) == 1, f"{differs}: the ledger cannot compare them")
    if len(events) == 1:
        return settings[0]
    worst = max(events, key=lambda each: bound(tuple((one, 1) for one in each), delta).epsilon)
    return events[worst]


def _withstands(e: Experiment, setting: Setting, colluding: int) -> int | None:
    """The number of colluding clients that the channel withstands in a round. Raises a Mistake if
    more collude."""
    withstands = None if e.channel is None else e.channel.withstands(setting.cohort)
    if withstands is not None and any(
        event.seen != "message" for event in described(e.privacy, setting)
    ):
        require(
            colluding <= withstands,
            f"{colluding:,} of {setting.cohort:,} clients could together open every message of"
            f" {type(e.channel).__name__}, which withstands {withstands:,}: there would be no"
            " privacy guarantee",
        )
    return withstands


def _stores_bare(e: Experiment, setting: Setting) -> bool:
    """Whether devices store messages that do not have their whole noise, and use them in
    unlearning. A client's data of one round then also affects a message of unlearning."""
    if e.privacy is None or e.unlearning is None or e.unlearning.stores == "nothing":
        return False
    return any(event.seen != "message" for event in described(e.privacy, setting))
