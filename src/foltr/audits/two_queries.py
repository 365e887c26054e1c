"""Which of two queries was searched? The adversary of Kharitonov (WSDM 2019, section 4) against
FOLtR-ES."""

from __future__ import annotations

from functools import partial

import numpy as np

from foltr.audits.games import Game, game_result
from foltr.audits.rewards import chance_of_truth, chances, click_tables, reported, reward_guarantee
from foltr.audits.searches import RewardLearner, alone
from foltr.components.learners.es import read_messages
from foltr.core import Array, Ask, ClickModel, Privatizer
from foltr.engines.local import Local
from foltr.errors import require
from foltr.experiment import Experiment
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset

FEW = 1000  # most games with entropy='shared', whose perturbations are slow to draw


def two_queries(
    e: Experiment,
    learner: RewardLearner,
    params: Array,
    users: ClickModel,
    data: Dataset,
    queries: Array,
    times: int,
    delta: float,
    threads: int,
    played: Privatizer | None = None,
) -> Game:
    """Play `times` games for each of the two most different of the `queries`, deciding by the
    likelihood of the reported reward.

    `played` is what devices really do, if it is not what the experiment describes."""
    times = min(times, FEW) if learner.entropy == "shared" else times
    lists = Lists(learner, users, data, e.privacy)
    pair = lists.most_different(e, params, queries)
    population = alone(data, users, np.repeat(pair, times))
    clients, memory = np.arange(2 * times), np.empty((2 * times, 0), np.float32)
    engine = Local(
        learner, e.ranker, population, e.seed, memory, Threads(threads), played or e.privacy
    )
    with engine.threads.running():
        cohort = engine.collect(Ask(params, e.rounds, 2 * times), clients).arrived
    seeds, means = read_messages(cohort.updates)
    values, _ = learner.reward_values()
    which = np.abs(values[:, None] - means[:, 0].astype(np.float64)).argmin(axis=0)  # (2 times,)
    steps = np.float32(learner.sigma) * learner.perturbations(seeds, len(params))
    likelihoods = [
        lists.of_messages(e, params + steps, int(query))[clients, which] for query in pair
    ]
    zero, one = (np.log(np.maximum(each, 1e-300)) for each in likelihoods)
    scores = one - zero
    guarantee = partial(reward_guarantee, e, learner)
    return game_result(
        "two queries",
        "each message",
        "one interaction",
        scores[times:],
        scores[:times],
        guarantee,
        delta,
    )


class Lists:
    """The distribution of the reported reward for the lists of a query, from the labels of the
    documents shown."""

    def __init__(
        self, learner: RewardLearner, users: ClickModel, data: Dataset, privacy: Privatizer | None
    ) -> None:
        self.learner, self.data = learner, data
        self.click, self.stop = click_tables(users, data.grades, learner.k)
        self.p = chance_of_truth(privacy, learner.reward_levels)

    def reported(self, labels: Array) -> Array:
        """The distribution of the reported value for lists of labels: (n, k) -> (n, V)."""
        different, which = np.unique(labels, axis=0, return_inverse=True)
        return reported(chances(self.learner, self.click, self.stop, different), self.p)[
            which.ravel()
        ]

    def of_messages(self, e: Experiment, weights: Array, query: int) -> Array:
        """P(value | query) for the list that the weights (n, d) of each message make: (n, V).
        Equal documents, whose random order the adversary cannot know, are taken in the order of
        the file."""
        held = slice(self.data.offsets[query], self.data.offsets[query + 1])
        scores = np.stack([e.ranker.scores(each, self.data.features[held]) for each in weights])
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.learner.k]
        return self.reported(self.data.labels[0, held][order])

    def most_different(self, e: Experiment, params: Array, queries: Array) -> Array:
        """The two queries whose unperturbed lists are distinguished best by some value."""
        require(len(queries) >= 2, "the game needs two queries with full lists")
        chance = np.concatenate(
            [self.of_messages(e, params[None], int(query)) for query in queries]
        )
        log = np.log(np.maximum(chance, 1e-300))
        value = int((log.max(axis=0) - log.min(axis=0)).argmax())
        return queries[[int(log[:, value].argmin()), int(log[:, value].argmax())]]
