"""Which parts of an experiment go together: what does not is refused before anything runs, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foltr.core import require
from foltr.privacy.accounting import described
from foltr.privacy.events import Setting

if TYPE_CHECKING:
    from foltr.experiment import Experiment

FAR_BELOW = 1000.0  # rounding of a thousandth of the noise changes no digit of an epsilon that is shown


def setting_of(e: Experiment, d: int) -> Setting:
    """What a mechanism must know of an experiment whose ranker has d parameters."""
    if not e.dropout:
        arriving = e.cohort
    else:  # without a threshold, a round goes on with whoever is left
        arriving = 1 if e.channel is None else e.channel.fewest(e.cohort)
    return Setting(d, e.cohort, arriving, e.sessions, e.learner.rewards)


def check_fit(e: Experiment) -> None:
    _baseline_fits(e)
    _privacy_fits(e)
    _channel_fits(e)


def _baseline_fits(e: Experiment) -> None:
    others = [name for name in ("privacy", "channel", "dropout") if getattr(e, name) is not None]
    sent = f"{type(e.baseline).__name__} learns from labels and sends nothing: leave out {', '.join(others)}"
    require(e.baseline is None or not others, sent)


def _privacy_fits(e: Experiment) -> None:
    if e.privacy is None:
        return
    privacy, learner = type(e.privacy).__name__, type(e.learner).__name__
    if e.privacy.acts_on == "rewards":
        no_rewards = f"{privacy} privatizes rewards, and {learner} sends none: use it with ES, or another privatizer"
        require(e.learner.rewards > 0, no_rewards)
    else:
        no_updates = f"{privacy} privatizes updates, and {learner} sends rewards: use RandomizedReward"
        require(e.learner.rewards == 0, no_updates)
    e.device_learner  # noqa: B018  # refuses a ball that it cannot keep
    for event in described(e.privacy, setting_of(e, 1)):
        looks = f"{type(e.aggregator).__name__} looks at single updates"
        broken = f"{looks}, and the noise of {privacy} is made for their mean: use Mean(), or noise on each message"
        require(event.seen == "message" or e.aggregator.looks_at == "mean", broken)


def _channel_fits(e: Experiment) -> None:
    if e.channel is None:
        return
    channel, learner = type(e.channel).__name__, type(e.learner).__name__
    seeds = f"{channel} adds messages up, and those of {learner} are rewards, whose sum means nothing"
    require(e.learner.rewards == 0, f"{seeds}: leave the channel out (RandomizedReward needs none)")
    rows = f"{type(e.aggregator).__name__} looks at single updates, which {channel} hides: use Mean()"
    require(e.aggregator.looks_at == "mean", rows)
    _rounding_fits(e)
    fewest, left = e.channel.fewest(e.cohort), (1.0 - (e.dropout or 0.0)) * e.cohort
    few = f"about {left:.4g} of {e.cohort} messages arrive, and {channel} releases no sum of fewer than {fewest}"
    require(left >= fewest - 1e-9, f"{few}: ask more clients, or lower dropout or the threshold")


def _rounding_fits(e: Experiment) -> None:
    """Shares of noise are rounded before they are added: what is rounded must be far below the noise of the sum."""
    if e.privacy is None or e.channel is None:
        return
    for event in described(e.privacy, setting_of(e, 1)):
        if event.seen == "sum":
            off, noise = e.cohort * e.channel.step, event.size * e.sessions
            coarse = f"{type(e.channel).__name__} rounds {e.cohort} messages by up to {off:.3g} in all, and their noise"
            fine = "give the channel a finer step (fraction_bits), or more noise"
            require(off <= noise / FAR_BELOW, f"{coarse} is {noise:.3g}: too near for a promise, {fine}")
