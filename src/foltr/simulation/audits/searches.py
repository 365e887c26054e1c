"""One search of one client: what its device does, and what the server knows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast

import numpy as np

from foltr.core import Array, Ask, ClickModel, Learner, Ranker, Show, User
from foltr.core.errors import Mistake
from foltr.core.federation import Client
from foltr.core.seeds import stream
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, SimulatedUser, iid
from foltr.experiment import Experiment


@dataclass(frozen=True, eq=False)
class Search:
    """A search as an attacker sees it. The server knows the query, the list and the weights that
    it sent; only the clicks are secret."""

    query: int
    docs: Array  # (k, f) as shown, best first
    ranking: Array  # (k,) their indices among the candidates
    scores: Array  # (m,) of all candidates
    gradients: Array  # (k, d) float32, of the scores of shown documents
    clicks: Array  # (k,) bool
    payload: Array  # the message without a privatizer


class UpdateLearner(Learner, Protocol):
    """What the attacks on updates know of the learner: PDGD."""

    k: int
    pairs: Literal["examined", "shown"]
    max_norm: float | None

    def rate(self, t: int, s: int, sessions: int) -> float: ...


class RewardLearner(Learner, Protocol):
    """What the attacks on rewards know of the learner: ES."""

    sigma: float
    k: int
    objective: Literal["maxrr", "dcg", "ctr", "first", "last"]
    entropy: Literal["independent", "shared"]

    def code(self, clicks: Array) -> int: ...
    def reward_values(self) -> tuple[Array, Array]: ...
    def perturbations(self, seeds: Array, d: int) -> Array: ...


def single(e: Experiment) -> UpdateLearner | RewardLearner:
    """The experiment's learner for one search on a list without exploration; refuses a learner
    whose messages no attack here knows."""
    return cast(UpdateLearner | RewardLearner, e.device_learner.restricted(single_search=True))


class Overheard:
    """A user whose documents, ranking and clicks are recorded; on a device only the user's own
    device has them."""

    def __init__(self, user: User) -> None:
        self.user, self.sessions = user, user.sessions

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        self.docs, self.ranking, self.clicks = self.user.session(show)
        return self.docs, self.ranking, self.clicks


def alone(data: Dataset, users: ClickModel, queries: Array) -> Population:
    """A population in which client i searches once, for queries[i]."""
    return replace(iid(data, users, len(queries), 1), first=queries, last=queries + 1)


def searches(
    e: Experiment, params: Array, users: ClickModel, data: Dataset, most: int
) -> list[Search]:
    """One search for each of at most `most` random queries with a full list, in the round after
    the last."""
    learner = single(e)
    long = np.flatnonzero(np.diff(data.offsets) >= learner.k)
    if len(long) > most:
        long = long[stream(e.seed, "audit", "queries").sample(len(long), most)]
    if not len(long):
        raise Mistake(
            f"no query of the data has {learner.k} documents, the length of a list: there is"
            " nothing to attack"
        )
    population, t, found = alone(data, users, long), e.rounds, []
    for i, query in enumerate(map(int, long)):
        ranking, noise = stream(e.seed, "ranking", i), stream(e.seed, "privacy", i)
        draws = learner.user_draws(stream(e.seed, "user", i, t), ranking.at(t))
        user, nothing = Overheard(SimulatedUser(population, i, draws)), np.empty(0, np.float32)
        client = Client(i, learner, e.ranker, None, ranking, noise)
        update, _ = client.step(Ask(params, t, 1), nothing, user)
        scores = e.ranker.scores(params, user.docs)
        shown = user.docs[user.ranking]
        sends_rewards = learner.reward_levels > 0
        slopes = np.empty((learner.k, 0)) if sends_rewards else gradients(e.ranker, params, shown)
        found.append(
            Search(query, shown, user.ranking, scores, slopes, user.clicks, update.payload)
        )
    return found


def gradients(ranker: Ranker, params: Array, docs: Array) -> Array:
    """The gradient of each document's score with respect to the weights."""  # (k, f) -> (k, d)
    return np.stack(
        [ranker.pullback(params, docs, one) for one in np.eye(len(docs), dtype=np.float32)]
    )
