"""Compute the privacy ledger of an experiment, from its components, sizes and number of rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foltr.core import Privatizer
from foltr.core.errors import require
from foltr.core.events import Conditions, Setting
from foltr.core.guards import described
from foltr.core.seeds import stream
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of, settings_in, stretches_of
from foltr.experiment.departures import Stretch
from foltr.privacy.accounting import bound
from foltr.privacy.ledger import Ledger, ledger
from foltr.privacy.participation import Exposure, exposure_of

DELTA = 1e-5


@dataclass(frozen=True)
class Deployed:
    """The facts about a federation between machines on which its guarantee depends."""

    rounds: int  # rounds so far; the ledger assumes that every client answered in all of them
    fewest: int  # smallest number of messages that change the model
    sessions: int  # most searches of a client in a round
    repeatable: bool = False  # whether the server can compute the noise (noise = "address")


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
    params, users = e.ranker.init(features, stream(0)), stream(0, "users")
    d, found = len(params), exposure or exposure_of(e)
    shared = e.learner.user_draws(users, stream(0, "own")) is not users
    setting = setting_of(e, d)
    given = Conditions(
        setting,
        e.rounds,
        found.times,
        # malicious clients know whether they were drawn
        clients=e.clients if e.attack is None else e.cohort,
        withstands=_withstands(e, setting, colluding),
        seed_is_shared=shared,
        remembers=len(e.device_learner.remembered(e.ranker, params)) > 0,
        stores=_stores_bare(e, d),
        separate=e.learner.separate_searches,
        colluding=colluding,
        malicious=found.malicious,
        overheard=e.attack is not None and e.attack.overhears,
        unbounded=e.attack is not None and e.attack.rewrites,
    )
    later = [
        _unlearned(e, given, stretch, d, delta, max(take), malicious)
        for stretch, take, malicious in zip(
            stretches_of(e), list(zip(*found.takes, strict=True))[1:], found.among[1:], strict=True
        )
    ]
    if deployed is not None:
        given = _of_devices(e, given, deployed)
    if later:
        given = replace(given, later=tuple(later), takes=found.takes)
    return ledger(e.privacy, given, delta)


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
    e: Experiment, training: Conditions, stretch: Stretch, d: int, delta: float, times: int,
    malicious: int,
) -> Conditions:  # fmt: skip
    """The conditions of a phase of unlearning."""
    setting = _worst(e.privacy, settings_in(e, d, stretch), delta)
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


def _stores_bare(e: Experiment, d: int) -> bool:
    """Whether devices store messages that do not have their whole noise, and use them in
    unlearning. A client's data of one round then also affects a message of unlearning."""
    if e.privacy is None or e.unlearning is None or e.unlearning.stores == "nothing":
        return False
    return any(event.seen != "message" for event in described(e.privacy, setting_of(e, d)))
