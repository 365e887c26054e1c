"""The privacy guarantee of a federation, from its agreement and the rounds made so far."""

from __future__ import annotations

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.sgd import SGD
from foltr.core import Aggregator, Optimizer
from foltr.deployment.protocol.agreement import Agreement
from foltr.experiment import Experiment
from foltr.privacy.adversaries import TITLES
from foltr.privacy.guarantee import DELTA, Deployed, Ledger, ledger_of
from foltr.privacy.text import epsilon_text

PLAIN = Mean(), SGD()


def experiment_of(
    agreed: Agreement, clients: int, rules: tuple[Aggregator, Optimizer] = PLAIN
) -> Experiment:
    """The federation as an experiment, without the clients' data. It checks that the parts fit
    together, and is the basis of the privacy ledger."""
    return Experiment(
        ranker=agreed.ranker,
        learner=agreed.learner,
        aggregator=rules[0],
        optimizer=rules[1],
        privacy=agreed.privacy,
        channel=agreed.channel,
        clients=clients,
        participation=agreed.asked / clients,
        rounds=agreed.rounds,
        history=agreed.history,
    )


def spent(e: Experiment, agreed: Agreement, t: int) -> Ledger:
    """The ledger after t rounds, for a client that answered in all of them, or as often as
    `separation` allows."""
    often = -(-t // (agreed.separation or 1))
    facts = max(1, often), agreed.fewest, agreed.sessions, agreed.noise == "address"
    return ledger_of(e, len(agreed.features), DELTA, deployed=Deployed(*facts))


def epsilon_of(ledger: Ledger) -> dict[str, str]:
    """Adversary -> the epsilon of all rounds of a client so far."""
    if ledger.mechanism == "none":
        return {}
    views = (view.who for view in ledger.views)
    return {TITLES[who]: epsilon_text(ledger.guarantee(who, "client").epsilon) for who in views}


def whole_budget(agreed: Agreement) -> list[str]:
    """The ledger of a client that answers in all agreed rounds: the most that it can spend."""
    rounds = agreed.rounds * (agreed.separation or 1)
    return spent(experiment_of(agreed, agreed.asked), agreed, rounds).lines()
