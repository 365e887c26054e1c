"""Which components of an experiment fit together. Other combinations are refused before anything
runs, with the reason and a correction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foltr.core.errors import Mistake, require
from foltr.core.events import Setting
from foltr.core.federation import cohort_size
from foltr.core.guards import check_notes, described
from foltr.experiment.departures import Stretch, stretches

if TYPE_CHECKING:
    from foltr.experiment import Experiment


def setting_of(e: Experiment, d: int) -> Setting:
    """The facts that a privacy mechanism needs about the training of an experiment whose ranker
    has d parameters."""
    return _setting(e, d, e.cohort, e.sessions)


def _setting(e: Experiment, d: int, asked: int, sessions: int) -> Setting:
    if not e.dropout:
        arriving = asked
    else:  # without a threshold, a round goes on with whoever is left
        arriving = 1 if e.channel is None else e.channel.fewest(asked)
    # a channel rounds weight x update
    rounding = 0.0 if e.channel is None else e.channel.step / sessions
    return Setting(d, asked, arriving, sessions, e.learner.reward_levels, rounding)


def stretches_of(e: Experiment) -> tuple[Stretch, ...]:
    """The rounds of unlearning that the ledger counts beside those of training; () without
    unlearning, or without privacy. Raises if they are not known."""
    unlearner = e.unlearning
    if unlearner is None or e.privacy is None:
        return ()
    train = e.rounds, e.learner.sessions, e.history
    found = stretches(unlearner, e.departures, e.participation, *train)
    if found is None:
        unknown = f"{_name(unlearner)} does not say which rounds it makes (`planned`)"
        uncounted = f"the ledger cannot count them: leave out {_name(e.privacy)}, or use Retrain()"
        raise Mistake(f"{unknown}, so that {uncounted}")
    return found


def settings_in(e: Experiment, d: int, stretch: Stretch) -> tuple[Setting, ...]:
    """What `setting_of` gives for training, of the rounds of a phase of unlearning: one for every
    number of clients that may be asked."""
    # as in `unlearn.with_sessions`
    sessions = max(1, round(e.sessions * (stretch.phase.sessions / e.learner.sessions)))
    sizes = range(stretch.fewest, stretch.most + 1)
    return tuple(_setting(e, d, asked, sessions) for asked in sizes)


def check_fit(e: Experiment) -> None:
    _check_baseline(e)
    _check_patience(e)
    remarks(e)
    _check_learner(e)
    _check_privacy(e)
    _check_private_unlearning(e)
    _check_channel(e)


def remarks(e: Experiment) -> tuple[str, ...]:
    """The notes of the aggregator, the attack and the unlearner for this number of clients. They
    raise if they cannot be computed."""
    _check_arrivals(e)
    notes = check_notes(e.aggregator, e.aggregator.fits(e.cohort))
    return notes + _check_attack(e) + _check_unlearning(e)


def _name(component: object) -> str:
    return type(component).__name__


def _check_baseline(e: Experiment) -> None:
    if e.baseline is None:
        return
    parts = {
        "privacy": e.privacy,
        "channel": e.channel,
        "dropout": e.dropout,
        "attack": e.attack,
        "history": e.history,
        "unlearning": e.unlearning,
        "patience": e.patience,
    }
    others = [name for name, part in parts.items() if part is not None]
    sent = f"{_name(e.baseline)} learns from labels and sends nothing"
    require(not others, f"{sent}: leave out {', '.join(others)}")


def _check_patience(e: Experiment) -> None:
    if e.patience is None:
        return
    by_test = f"patience={e.patience} would stop by the test queries"
    require(e.evaluate_on is not None, f"{by_test}: set evaluate_on='validation'")
    planned = f"patience={e.patience}: unlearning counts on all {e.rounds:,} rounds"
    plain = e.history is None and e.unlearning is None
    require(plain, f"{planned}: leave out patience, or history and unlearning")


def _check_arrivals(e: Experiment) -> None:
    """Refuses an aggregator for which too few messages arrive on average in a round."""
    if not e.dropout:
        return
    left = max(1, round((1.0 - e.dropout) * e.cohort))
    try:
        e.aggregator.fits(left)
    except Mistake as mistake:
        lost = f"about {left} of {e.cohort} messages arrive in a round, and that is too few"
        raise Mistake(f"{lost} ({mistake}): ask more clients, or lower dropout") from None


def _check_attack(e: Experiment) -> tuple[str, ...]:
    if e.attack is None:
        alone = f"malicious={e.malicious}, roaming={e.roaming}: that needs an attack"
        none = e.malicious == 0 and not e.roaming
        require(none, f"{alone}, such as attack='DataPoisoning()'")
        return ()
    some = f"{_name(e.attack)} needs 1 .. {e.clients - 1} of {e.clients} clients to be malicious"
    require(0 < e.malicious < e.clients, f"{some}, got malicious={e.malicious}")
    sends = f"{_name(e.attack)} changes updates, and messages of {_name(e.learner)} are rewards"
    fits = e.learner.reward_levels == 0 or not e.attack.rewrites
    require(fits, f"{sends}: use DataPoisoning")
    expected = max(1, round(e.malicious * e.cohort / e.clients))
    return check_notes(e.attack, e.attack.fits(e.cohort, expected))


def _check_unlearning(e: Experiment) -> tuple[str, ...]:
    unlearner = e.unlearning
    if unlearner is None:
        alone = f"leaving={e.leaving!r} needs an unlearner, such as unlearning='FedEraser()'"
        require(e.leaving == (), alone)
        return ()
    name = _name(unlearner)
    e.departures  # noqa: B018  # refuses clients who cannot leave
    stored = f"{name} needs what devices stored, and this run stores no history"
    way_out = "set history=10 (every 10 rounds), or use Retrain()"
    require(unlearner.stores == "nothing" or e.history is not None, f"{stored}: {way_out}")
    kept = f"{name} continues from the final ranker, and what {_name(e.learner)} keeps on devices"
    way_out = "use a method that starts again, Retrain() or FedEraser()"
    fits = unlearner.restarts or not _remembers(e)
    require(fits, f"{kept} is not stored in the run: {way_out}")
    if unlearner.subtracts:
        _check_plain_sum(e, name)
    notes = check_notes(unlearner, unlearner.fits(e.learner.sessions))
    return notes + _check_remaining(e)


def _check_private_unlearning(e: Experiment) -> None:
    """Refuses what would release more than the noise was made for.

    Where each message has its whole noise, whatever is computed from messages reveals nothing
    more. Where only a sum or the model has it, single messages must not be used: neither those of
    this round (`send` of a phase) nor stored ones. One exception: a server that adds the noise may
    get changed messages, if it clips them. What it got is then as limited as in training."""
    unlearner, privacy = e.unlearning, e.privacy
    if unlearner is None or privacy is None:
        return
    counted = stretches_of(e)
    settings = (setting_of(e, 1), *(each for s in counted for each in settings_in(e, 1, s)))
    seen = {event.seen for each in settings for event in described(privacy, each)}
    name, noise = _name(unlearner), _name(privacy)
    changes, stores = any(s.phase.changed for s in counted), unlearner.stores != "nothing"
    way_out = "use Retrain() or FineTune(), or noise on each message"
    shares = f"{name} uses single messages, and only the sum of a round's messages has the noise"
    require("sum" not in seen or not (changes or stores), f"{shares} of {noise}: {way_out}")
    if "model" in seen:
        handed = unlearner.stores == "updates" or unlearner.handed > 0 or unlearner.subtracts
        bare = f"{name} uses single stored messages, to which {noise} adds no noise"
        require(not handed, f"{bare}: {way_out}")
        clipped = privacy.clips_on_arrival and e.channel is None
        longer = f"{name} changes messages after devices have clipped them"
        again = f"the server, which adds the noise of {noise}, does not clip them again"
        require(clipped or not (changes or stores), f"{longer}, and {again}: {way_out}")


def _remembers(e: Experiment) -> bool:
    """Whether devices keep something between rounds; refuses a ranker without a head that the
    learner needs."""
    params = np.zeros(max(e.ranker.head, 1), np.float32)
    return len(e.learner.remembered(e.ranker, params)) > 0


def _check_plain_sum(e: Experiment, name: str) -> None:
    parts = [repr(e.aggregator), repr(e.optimizer)]
    parts += [repr(e.channel)] if e.channel is not None else []
    parts += ["lost messages"] if e.dropout else []
    needs = "which needs Mean(), SGD(), no channel and no dropout"
    means = f"{name} subtracts single contributions, {needs}"
    plain = e.aggregator.is_mean and e.optimizer.step_size is not None
    plain = plain and e.channel is None and not e.dropout
    require(plain, f"{means}; this run has {', '.join(parts)}: use FedEraser() or Retrain()")


def _check_remaining(e: Experiment) -> tuple[str, ...]:
    """The notes of the aggregator, the attack and the channel for the remaining clients."""
    remaining = e.departures.remaining
    n = cohort_size(len(remaining), e.participation)
    notes = e.aggregator.fits(n)
    if e.attack is not None and e.attackers is not None:
        drawn = e.attackers.members(0)
        still = e.malicious if e.roaming else len(np.setdiff1d(drawn, e.departures.left))
        notes += e.attack.fits(n, max(1, round(still * n / len(remaining)))) if still else ()
    if e.channel is not None:
        asked = f"{n} remaining clients are asked in a round"
        few = f"{asked}, and {_name(e.channel)} releases no sum of so few messages"
        require((1.0 - (e.dropout or 0.0)) * n >= e.channel.fewest(n) - 1e-9, few)
    return notes


def _check_learner(e: Experiment) -> None:
    _remembers(e)
    rule, learner, trusts = _name(e.aggregator), _name(e.learner), e.aggregator.trusted_queries > 0
    sends_updates = e.learner.reward_levels == 0
    rewards = f"{rule} needs a trusted update, and {learner} sends rewards"
    require(not trusts or sends_updates, rewards)
    noisy = f"{rule} compares with the server's own update, which {_name(e.privacy)} would disturb"
    require(not trusts or e.privacy is None, f"{noisy}: leave privacy out")
    kept = f"history keeps updates, and messages of {learner} are rewards: leave history out"
    require(e.history is None or sends_updates, kept)


def _check_privacy(e: Experiment) -> None:
    if e.privacy is None:
        return
    privacy, learner = _name(e.privacy), _name(e.learner)
    sends_updates = e.learner.reward_levels == 0
    if e.privacy.acts_on == "rewards":
        none = f"{privacy} privatizes rewards, and {learner} sends none"
        require(not sends_updates, f"{none}: use it with ES, or another privatizer")
    else:
        none = f"{privacy} privatizes updates, and {learner} sends rewards"
        require(sends_updates, f"{none}: use RandomizedReward")
    mean = f"{privacy} adds noise to the mean of messages, and those of {learner} hold rewards"
    on_mean = not e.privacy.adds_noise_on_server
    require(sends_updates or on_mean, f"{mean}, whose mean is no update")
    e.device_learner  # noqa: B018  # refuses a ball that it cannot keep
    rows = f"{_name(e.aggregator)} looks at single updates, and the noise of {privacy}"
    way_out = "use Mean(), or noise on each message"
    for event in described(e.privacy, setting_of(e, 1)):
        fits = event.seen == "message" or e.aggregator.looks_at == "mean"
        require(fits, f"{rows} is made for their mean: {way_out}")


def _check_channel(e: Experiment) -> None:
    if e.channel is None:
        return
    channel = _name(e.channel)
    seeds = f"{channel} sums messages, and those of {_name(e.learner)} hold rewards"
    way_out = "leave the channel out (RandomizedReward needs none)"
    require(e.learner.reward_levels == 0, f"{seeds}, whose sum is no update: {way_out}")
    rows = f"{_name(e.aggregator)} looks at single updates, which {channel} hides: use Mean()"
    require(e.aggregator.looks_at == "mean", rows)
    _check_rounding(e)
    fewest, left = e.channel.fewest(e.cohort), (1.0 - (e.dropout or 0.0)) * e.cohort
    few = f"about {left:.4g} of {e.cohort} messages arrive"
    threshold = f"{channel} releases no sum of fewer than {fewest}"
    way_out = "ask more clients, or lower dropout or the threshold"
    require(left >= fewest - 1e-9, f"{few}, and {threshold}: {way_out}")


def _check_rounding(e: Experiment) -> None:
    """Noise shares must be multiples of the channel's step; otherwise rounding would remove some
    of the noise."""
    if e.privacy is None or e.channel is None:
        return
    step = e.channel.step
    shares = f"{_name(e.channel)} rounds to multiples of {step:.3g}, and messages of"
    way_out = "use finer steps (fraction_bits), or more noise"
    settings = [setting_of(e, 1)]
    settings += [each for stretch in stretches_of(e) for each in settings_in(e, 1, stretch)]
    for setting in settings:
        times = f"{_name(e.privacy)} times {setting.sessions} searches"
        coarse = f"{times} are not multiples of that, so that some noise would be lost"
        for event in described(e.privacy, setting):
            if event.seen == "sum" and event.grid is not None and step != 0.0:
                whole = (event.grid * setting.sessions / step).is_integer()
                require(whole, f"{shares} {coarse}: {way_out}")
