"""The privacy ledger of an experiment, from its components, its sizes and its number of rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foltr.compatibility import setting_of, settings_in, stretches_of
from foltr.core import Privatizer
from foltr.errors import require
from foltr.events import Conditions, Setting
from foltr.experiment import Experiment
from foltr.privacy.accounting import bound, described
from foltr.privacy.ledger import Ledger, ledger
from foltr.runs.exposure import Exposure, exposure_of
from foltr.seeds import stream
from foltr.simulation.planned import Stretch

DELTA = 1e-5


@dataclass(frozen=True)
class Deployed:
    """The facts of a federation of real devices that change its guarantee."""

    rounds: int  # made so far; every client counts as having answered in all of them
    fewest: int  # messages that make a round
    sessions: int  # most searches of a client in a round
    repeatable: bool = False  # noise by address, which the server knows


def ledger_of(
    e: Experiment,
    features: int,
    delta: float = DELTA,
    colluding: int = 0,
    exposure: Exposure | None = None,
    deployed: Deployed | None = None,
) -> Ledger:
    """The guarantee of training and of all unlearning. `colluding`: clients of a round that reveal
    their shares of the noise to the adversary, besides the malicious ones. `exposure` stands for
    experiments that differ in their draws. `deployed`: for the rounds that real devices have made
    so far. Who takes part is no secret then."""
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
    """The conditions with real devices. Those who may be unlearned by FedEraser store norms; of
    messages to which only the server adds noise, these are bare."""
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
    """The setting with the largest epsilon, where the number of clients may differ from round to
    round."""
    events = {described(privacy, setting): setting for setting in settings}
    kinds = {tuple(map(type, each)) for each in events}
    differs = f"the noise of {type(privacy).__name__} is of another kind in smaller rounds"
    require(len(kinds) == 1, f"{differs}: the ledger cannot compare them")
    if len(events) == 1:
        return settings[0]
    worst = max(events, key=lambda each: bound(tuple((one, 1) for one in each), delta).epsilon)
    return events[worst]


def _withstands(e: Experiment, setting: Setting, colluding: int) -> int | None:
    """How many clients the channel withstands in a round; refuses more that collude."""
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
    """Whether devices use what they stored of messages without their whole noise. One round of a
    client then changes a message of unlearning, too."""
    if e.privacy is None or e.unlearning is None or e.unlearning.stores == "nothing":
        return False
    return any(event.seen != "message" for event in described(e.privacy, setting_of(e, d)))
