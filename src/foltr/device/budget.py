"""The privacy budget of a device: how much of it the messages of this period have spent.

The ledger is that of the federation's agreement, for a client that has answered so often. It is
computed here, on the device, from the agreement that was pinned when it joined."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from foltr.core.errors import Mistake
from foltr.deployment.guarantee import experiment_of, spent
from foltr.deployment.protocol.agreement import Agreement
from foltr.device.click_log import ClickLog
from foltr.privacy.guarantee import DELTA
from foltr.privacy.text import epsilon_text

DAY = 86_400.0  # seconds
UNKNOWN = 1e9  # an epsilon that no budget allows


@dataclass(frozen=True)
class Spent:
    """What is spent of a budget.

    Fields
        messages: messages in this period
        epsilon: of these messages; infinite without noise
        budget: the epsilon of a period; None for no limit
        within_budget: messages of a period that the budget buys
        ever: messages to this federation, of all periods
        agreed: messages that the agreement allows, in all periods together
        noisy: whether messages have noise
        delta: that of epsilon"""

    messages: int
    epsilon: float
    budget: float | None
    within_budget: int
    ever: int
    agreed: int
    noisy: bool = True
    delta: float = DELTA

    @property
    def over(self) -> bool:
        return self.messages >= self.within_budget or self.ever >= self.agreed


@lru_cache(64)
def epsilon_after(text: str, answers: int) -> float:
    """The epsilon towards the server of a client that has answered so often. `text` is that of the
    agreement."""
    agreed = Agreement.from_text(text)
    if answers == 0:
        return 0.0
    if agreed.privacy is None:
        return math.inf
    rounds = answers * (agreed.separation or 1)
    found = spent(experiment_of(agreed, agreed.asked), agreed, rounds)
    return float(found.guarantee("server", "client").epsilon)


def epsilon_elsewhere(log: ClickLog, since: float, own: bytes) -> float:
    """The epsilon of the messages to other federations since a time: their sum, and deltas add up
    as well. Messages without noise have none."""
    total = 0.0
    for federation, count in log.messages_by_federation(since).items():
        text = log.agreement(federation)
        if federation == own or not text:
            continue
        try:
            epsilon = epsilon_after(text, count)
        except Mistake:  # this version does not know its components: it may have cost anything
            return UNKNOWN
        total += epsilon if math.isfinite(epsilon) else 0.0
    return total


def messages_within(text: str, budget: float | None, elsewhere: float = 0.0) -> int:
    """How many messages a budget buys, and the agreement allows. `elsewhere` of it is spent in
    other federations."""
    most = Agreement.from_text(text).rounds
    if budget is None:
        return most
    answers = range(1, most + 1)  # epsilon grows with their number
    return bisect_right(answers, budget, key=lambda n: epsilon_after(text, n) + elsewhere)


def spent_of(
    text: str, budget: float | None, answers: int, ever: int = 0, elsewhere: float = 0.0
) -> Spent:
    """What `answers` messages of this period have spent. `ever` counts those before it as well;
    `elsewhere` is the epsilon of messages to other federations."""
    return Spent(
        messages=answers,
        epsilon=epsilon_after(text, answers) + elsewhere,
        budget=budget,
        within_budget=messages_within(text, budget, elsewhere),
        ever=max(answers, ever),
        agreed=Agreement.from_text(text).rounds,
        noisy=math.isfinite(epsilon_after(text, 1)),
    )


def spent_text(spent: Spent, period: float) -> str:
    """What is spent, in one sentence. `period` is in days."""
    if spent.ever >= spent.agreed:
        return f"This device has sent all {spent.agreed} messages that the agreement allows."
    if not spent.noisy:
        return "Messages have no noise, so there is no privacy budget."
    used = f"{spent.messages} of {spent.within_budget} messages in {period:g} days"
    if spent.over and not spent.messages:
        return (
            f"Messages to other federations have spent the budget of {period:g} days, or it is too"
            " small for one message: nothing is sent."
        )
    if spent.over:
        return (
            f"The budget is spent ({used}): the next message can be sent when the oldest of these"
            f" is more than {period:g} days old."
        )
    return f"{used}; so far epsilon {epsilon_text(spent.epsilon)}."
