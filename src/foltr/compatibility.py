"""Which parts of an experiment go together: what does not is refused before anything runs, with
the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.sgd import SGD
from foltr.core import require
from foltr.errors import Mistake
from foltr.events import Setting
from foltr.federation import cohort_size
from foltr.privacy.accounting import described
from foltr.simulation.departures import groups_of, left_of, remaining_of

if TYPE_CHECKING:
    from foltr.experiment import Experiment


def setting_of(e: Experiment, d: int) -> Setting:
    """What a mechanism must know of an experiment whose ranker has d parameters."""
    if not e.dropout:
        arriving = e.cohort
    else:  # without a threshold, a round goes on with whoever is left
        arriving = 1 if e.channel is None else e.channel.fewest(e.cohort)
    rounding = (
        0.0 if e.channel is None else e.channel.step / e.sessions
    )  # it is weight x update that is rounded
    return Setting(d, e.cohort, arriving, e.sessions, e.learner.rewards, rounding)


def check_fit(e: Experiment) -> None:
    _baseline_fits(e)
    remarks(e)
    _learner_fits(e)
    _privacy_fits(e)
    _channel_fits(e)


def _baseline_fits(e: Experiment) -> None:
    parts = ("privacy", "channel", "dropout", "attack", "history", "unlearning")
    others = [name for name in parts if getattr(e, name) is not None]
    sent = (
        f"{type(e.baseline).__name__} learns from labels and sends nothing: leave out"
        f" {', '.join(others)}"
    )
    require(e.baseline is None or not others, sent)


def remarks(e: Experiment) -> tuple[str, ...]:
    """What the rule and the attack have to say of so many clients; they refuse what cannot be
    computed."""
    _enough_arrive(e)
    return _said(e.aggregator, e.aggregator.fits(e.cohort)) + _attack_fits(e) + _unlearning_fits(e)


def _said(component: object, notes: tuple[str, ...]) -> tuple[str, ...]:
    """What a component has to say, surely sentences."""
    sentences = isinstance(notes, tuple) and all(isinstance(note, str) for note in notes)
    require(sentences, f"{type(component).__name__}.fits gave {notes!r}, not a tuple of sentences")
    return notes


def _enough_arrive(e: Experiment) -> None:
    """Refuses a rule for which too few messages are left, on average, in a round."""
    if not e.dropout:
        return
    left = max(1, round((1.0 - e.dropout) * e.cohort))
    try:
        e.aggregator.fits(left)
    except Mistake as mistake:
        lost = (
            f"about {left} of {e.cohort} messages arrive in a round, and that is too few"
            f" ({mistake})"
        )
        raise Mistake(f"{lost}: ask more clients, or lower dropout") from None


def _attack_fits(e: Experiment) -> tuple[str, ...]:
    if e.attack is None:
        alone = (
            f"malicious={e.malicious}, roaming={e.roaming}: that needs an attack, such as"
            " attack='DataPoisoning()'"
        )
        require(e.malicious == 0 and not e.roaming, alone)
        return ()
    name = type(e.attack).__name__
    some = (
        f"{name} needs 1 .. {e.clients - 1} of {e.clients} clients to be malicious, got"
        f" malicious={e.malicious}"
    )
    require(0 < e.malicious < e.clients, some)
    sends = (
        f"{name} changes updates, and messages of {type(e.learner).__name__} are rewards: use"
        " DataPoisoning"
    )
    require(e.learner.rewards == 0 or not e.attack.rewrites, sends)
    return _said(
        e.attack, e.attack.fits(e.cohort, max(1, round(e.malicious * e.cohort / e.clients)))
    )


def _unlearning_fits(e: Experiment) -> tuple[str, ...]:
    if e.unlearning is None:
        require(
            e.leaving == (),
            f"leaving={e.leaving!r} needs an unlearner, such as unlearning='FedEraser()'",
        )
        return ()
    name = type(e.unlearning).__name__
    groups_of(e)  # refuses who cannot leave
    stored = (
        f"{name} needs what devices stored, and this run stores no history: set history=10 (every"
        " 10 rounds)"
    )
    require(
        e.unlearning.stores == "nothing" or e.history is not None, f"{stored}, or use Retrain()"
    )
    private = (
        f"{name} adds rounds that the ledger does not count: leave out {type(e.privacy).__name__}"
    )
    require(e.privacy is None, private)
    remembers = (
        len(e.learner.remembered(e.ranker, np.zeros(max(e.ranker.head, 1), np.float32))) > 0
    )
    kept = (
        f"{name} goes on where training ended, and what devices keep for"
        f" {type(e.learner).__name__} is not stored"
    )
    require(
        e.unlearning.restarts or not remembers,
        f"{kept}: use one that starts again, Retrain() or FedEraser()",
    )
    if e.unlearning.subtracts:
        other = f"{e.aggregator!r}, {e.optimizer!r}" + (
            f", {e.channel!r}" if e.channel is not None else ""
        )
        other += ", lost messages" if e.dropout else ""
        means = (
            f"{name} takes single contributions out of a sum of means: with {other} there is none"
        )
        plain = (
            type(e.aggregator) is Mean
            and type(e.optimizer) is SGD
            and e.channel is None
            and not e.dropout
        )
        require(plain, f"{means}: use FedEraser() or Retrain()")
    return _said(e.unlearning, e.unlearning.fits(e.learner.sessions)) + _remaining_fit(e)


def _remaining_fit(e: Experiment) -> tuple[str, ...]:
    """What the rule, the attack and the channel say of those who remain."""
    remaining = remaining_of(e)
    n = cohort_size(len(remaining), e.participation)
    notes = e.aggregator.fits(n)
    if e.attack is not None:
        from foltr.simulation.malicious import Malicious

        drawn = Malicious(e.clients, e.malicious, e.roaming, e.seed).members(0)
        still = e.malicious if e.roaming else len(np.setdiff1d(drawn, left_of(e)))
        notes += e.attack.fits(n, max(1, round(still * n / len(remaining)))) if still else ()
    if e.channel is not None:
        few = (
            f"{n} of those who remain are asked in a round, and {type(e.channel).__name__}"
            " releases no sum of so few"
        )
        require((1.0 - (e.dropout or 0.0)) * n >= e.channel.fewest(n) - 1e-9, few)
    return notes


def _learner_fits(e: Experiment) -> None:
    e.learner.remembered(
        e.ranker, np.zeros(max(e.ranker.head, 1), np.float32)
    )  # refuses a ranker without a head
    rewards = (
        f"{type(e.aggregator).__name__} needs a trusted update, and {type(e.learner).__name__}"
        " sends rewards"
    )
    require(e.aggregator.trusted == 0 or e.learner.rewards == 0, rewards)
    noisy = (
        f"{type(e.aggregator).__name__} compares with the server's own update, which"
        f" {type(e.privacy).__name__}"
    )
    require(
        e.aggregator.trusted == 0 or e.privacy is None, f"{noisy} would disturb: leave privacy out"
    )
    kept = "history keeps updates, and messages of {} are rewards: leave history out"
    require(e.history is None or e.learner.rewards == 0, kept.format(type(e.learner).__name__))


def _privacy_fits(e: Experiment) -> None:
    if e.privacy is None:
        return
    privacy, learner = type(e.privacy).__name__, type(e.learner).__name__
    if e.privacy.acts_on == "rewards":
        no_rewards = (
            f"{privacy} privatizes rewards, and {learner} sends none: use it with ES, or another"
            " privatizer"
        )
        require(e.learner.rewards > 0, no_rewards)
    else:
        no_updates = (
            f"{privacy} privatizes updates, and {learner} sends rewards: use RandomizedReward"
        )
        require(e.learner.rewards == 0, no_updates)
    mean = (
        f"{privacy} adds noise to the mean of messages, and those of {learner} are rewards, whose"
        " mean means nothing"
    )
    require(e.learner.rewards == 0 or not e.privacy.by_server, mean)
    e.device_learner  # noqa: B018  # refuses a ball that it cannot keep
    for event in described(e.privacy, setting_of(e, 1)):
        looks = f"{type(e.aggregator).__name__} looks at single updates"
        broken = (
            f"{looks}, and the noise of {privacy} is made for their mean: use Mean(), or noise on"
            " each message"
        )
        require(event.seen == "message" or e.aggregator.looks_at == "mean", broken)


def _channel_fits(e: Experiment) -> None:
    if e.channel is None:
        return
    channel, learner = type(e.channel).__name__, type(e.learner).__name__
    seeds = (
        f"{channel} adds messages up, and those of {learner} are rewards, whose sum means nothing"
    )
    require(
        e.learner.rewards == 0, f"{seeds}: leave the channel out (RandomizedReward needs none)"
    )
    rows = (
        f"{type(e.aggregator).__name__} looks at single updates, which {channel} hides: use Mean()"
    )
    require(e.aggregator.looks_at == "mean", rows)
    _rounding_fits(e)
    fewest, left = e.channel.fewest(e.cohort), (1.0 - (e.dropout or 0.0)) * e.cohort
    few = (
        f"about {left:.4g} of {e.cohort} messages arrive, and {channel} releases no sum of fewer"
        f" than {fewest}"
    )
    require(left >= fewest - 1e-9, f"{few}: ask more clients, or lower dropout or the threshold")


def _rounding_fits(e: Experiment) -> None:
    """A sum in which messages are rounded is not the sum that the noise was made for."""
    if e.privacy is None or e.channel is None:
        return
    for event in described(e.privacy, setting_of(e, 1)):
        if event.seen == "sum":
            step = e.channel.step
            whole = (
                event.grid is None or step == 0.0 or (event.grid * e.sessions / step).is_integer()
            )
            steps = (
                f"messages of {type(e.privacy).__name__} times {e.sessions} searches are no whole"
                " steps of"
            )
            coarse = (
                f"{type(e.channel).__name__}, {step:.3g}, which would round away some of their"
                " noise"
            )
            require(
                whole, f"{steps} {coarse}: give it finer ones (fraction_bits), or take more noise"
            )
