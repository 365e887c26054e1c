"""What a reward reveals about a search, for FOLtR-ES against the adversary of Kharitonov (WSDM
2019, section 4): exactly, over all lists, and in a game, which of two queries was searched.

The adversary knows both queries, their documents and labels, the click model and, by the seed in
the message, both lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, cast

import numpy as np

from foltr.components.learners.es import read_messages
from foltr.core import Array, Ask, ClickModel, Privatizer
from foltr.core.errors import Mistake, require
from foltr.core.events import RandomizedResponse, Setting
from foltr.core.guards import described
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import checked_tables
from foltr.experiment import Experiment
from foltr.privacy.accounting import NONE, Bound, bound
from foltr.simulation.audits.games import Game, game_result
from foltr.simulation.audits.searches import RewardLearner, alone, single
from foltr.simulation.engines.local import Local

MOST_LISTS = 300_000  # most lists that are enumerated
FEW = 1000  # most games with entropy='shared', whose perturbations are slow to draw


def reward_guarantee(e: Experiment, learner: RewardLearner, delta: float) -> Bound:
    """The guarantee for one interaction, against everybody that gets its message."""
    if learner.entropy == "shared":
        return NONE
    values = learner.reward_levels
    events = described(e.privacy, Setting(1, e.cohort, e.cohort, sessions=1, values=values))
    return bound(tuple((event, 1) for event in events), delta) if events else NONE


def chance_of_truth(privacy: Privatizer | None, values: int) -> float:
    """The probability that the reward sent is the true one, of so many values."""
    events = described(privacy, Setting(1, 1, 1, sessions=1, values=values))
    return math.prod(event.p for event in events if isinstance(event, RandomizedResponse))


def click_tables(users: ClickModel, grades: int, depth: int) -> tuple[Array, Array]:
    tables = checked_tables(users, grades, depth)
    if tables is None:
        raise Mistake(
            f"{type(users).__name__} has no table of click probabilities, which this attack needs"
        )
    return tables


def chances(learner: RewardLearner, click: Array, stop: Array, lists: Array) -> Array:
    """The exact distribution of the reward's value for lists of the grades (n, k): (n, V).

    A user that goes on has made some clicks, of which the objective needs one code (`ES.code`).
    Rank by rank, every code passes on its probability: without a click to itself; with a click to
    the next code, where the user stops or goes on."""
    n, k = lists.shape
    _, coded = learner.reward_values()
    codes = np.arange(len(coded))
    going, stopped = np.zeros((n, len(codes))), np.zeros((n, len(codes)))
    going[:, 0] = 1.0
    for j in range(k):
        c, s = click[j, lists[:, j]][:, None], stop[j, lists[:, j]][:, None]
        after = _after_click(learner.objective, codes, j)
        moved = np.zeros_like(going)
        np.add.at(moved.T, after, (going * c).T)
        stopped += moved * s
        going = going * (1.0 - c) + moved * (1.0 - s)
    found = np.zeros((n, learner.reward_levels))
    np.add.at(found.T, coded, (going + stopped).T)
    return found


def _after_click(objective: str, codes: Array, j: int) -> Array:
    """The code after one more click, at rank j + 1."""
    if objective == "ctr":
        return np.minimum(codes + 1, len(codes) - 1)
    if objective == "dcg":
        return codes | 1 << j
    if objective == "last":
        return np.full_like(codes, j + 1)
    return np.where(codes == 0, j + 1, codes)


def reported(chance: Array, p: float) -> Array:
    """The distribution of the reported value: the true one with probability p, else any other."""
    return chance * p + (1.0 - chance) * (1.0 - p) / (chance.shape[-1] - 1)


@dataclass(frozen=True)
class Enumerated:
    """The most that a reported reward can reveal about two lists: the largest ln(P1 / P2) over
    lists and values, and the bound of Kharitonov (2019), equation 10."""

    epsilon: float
    bound: float
    depth: int  # length of the lists


def worst_pair(learner: RewardLearner, users: ClickModel, grades: int, p: float) -> Enumerated:
    """The worst case over all pairs of lists, exactly (Kharitonov 2019, Table 2: lists of five).

    The probability of the first click's rank is linear in each grade's click probability, so only
    the grades with the highest and the lowest one matter. Other objectives use shorter lists where
    there would be too many."""
    v = learner.reward_levels
    require(1.0 / v < p <= 1.0, f"p must be in (1 / {v}, 1], got {p}")
    depth, looks_at_first = learner.k, learner.objective in ("maxrr", "first")
    choices = 2 if looks_at_first else grades
    while choices**depth > MOST_LISTS:
        depth -= 1
    shorter = replace(cast(Any, learner), k=depth)
    click, stop = click_tables(users, grades, depth)
    if looks_at_first:
        ranks = [sorted({int(click[j].argmin()), int(click[j].argmax())}) for j in range(depth)]
    else:
        ranks = [list(range(grades))] * depth
    lists = np.array(list(product(*ranks)))
    chance = reported(chances(shorter, click, stop, lists), p)
    with np.errstate(divide="ignore"):
        epsilon = float((np.log(chance.max(axis=0)) - np.log(chance.min(axis=0))).max())
    bound = math.inf if p == 1.0 else math.log(p * (shorter.reward_levels - 1) / (1.0 - p))
    return Enumerated(epsilon, bound, depth)


@dataclass(frozen=True)
class TwoQueries:
    """The game of an adversary who knows two queries: which of them was searched? Decided by the
    likelihood of the reported reward, from the labels of the documents shown."""

    e: Experiment
    users: ClickModel
    data: Dataset
    delta: float
    threads: int = 1
    # what devices really do, if it is not what the experiment describes
    played: Privatizer | None = None

    @cached_property
    def learner(self) -> RewardLearner:
        return cast(RewardLearner, single(self.e))

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        return click_tables(self.users, self.data.grades, self.learner.k)

    def play(self, params: Array, queries: Array, times: int) -> Game:
        """The game for the two most different of the `queries`, `times` searches for each."""
        e, learner = self.e, self.learner
        times = min(times, FEW) if learner.entropy == "shared" else times
        pair = self.most_different(params, queries)
        population = alone(self.data, self.users, np.repeat(pair, times))
        clients, memory = np.arange(2 * times), np.empty((2 * times, 0), np.float32)
        threads, privacy = Threads(self.threads), self.played or e.privacy
        engine = Local(learner, e.ranker, population, e.seed, memory, privacy, threads=threads)
        with engine.threads.running():
            cohort = engine.collect(Ask(params, e.rounds, 2 * times), clients).arrived
        seeds, means = read_messages(cohort.updates)
        values, _ = learner.reward_values()
        off = np.abs(values[:, None] - means[:, 0].astype(np.float64))
        which = off.argmin(axis=0)  # (2 times,)
        weights = params + np.float32(learner.sigma) * learner.perturbations(seeds, len(params))
        chances_of = [self.of_messages(weights, int(query))[clients, which] for query in pair]
        zero, one = (np.log(np.maximum(each, 1e-300)) for each in chances_of)
        scores = one - zero
        return game_result(
            name="two queries",
            view="each message",
            unit="one interaction",
            ones=scores[times:],
            zeros=scores[:times],
            guarantee=partial(reward_guarantee, e, learner),
            delta=self.delta,
        )

    def of_messages(self, weights: Array, query: int) -> Array:
        """P(value | query) for the list that the weights (n, d) of each message make: (n, V).
        Equal documents, whose random order the adversary cannot know, are taken in the order of
        the file."""
        held = slice(self.data.offsets[query], self.data.offsets[query + 1])
        docs = self.data.features[held]
        scores = np.stack([self.e.ranker.scores(each, docs) for each in weights])
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.learner.k]
        lists = self.data.labels[0, held][order]
        different, which = np.unique(lists, axis=0, return_inverse=True)
        p = chance_of_truth(self.e.privacy, self.learner.reward_levels)
        return reported(chances(self.learner, *self.tables, different), p)[which.ravel()]

    def most_different(self, params: Array, queries: Array) -> Array:
        """The two queries whose unperturbed lists are distinguished best by some value."""
        require(len(queries) >= 2, "the game needs two queries with full lists")
        each = [self.of_messages(params[None], int(query)) for query in queries]
        log = np.log(np.maximum(np.concatenate(each), 1e-300))
        value = int((log.max(axis=0) - log.min(axis=0)).argmax())
        return queries[[int(log[:, value].argmin()), int(log[:, value].argmax())]]
