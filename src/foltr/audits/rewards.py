"""What a reward tells of a search: FOLtR-ES against the adversary of Kharitonov (WSDM 2019),
section 4, who knows both queries, their documents and labels, the click model and, by the seed in
the message, both lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from foltr.components.learners.es import ES
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.core import Array, ClickModel, Privatizer, require
from foltr.events import Setting
from foltr.experiment import Experiment
from foltr.privacy.accounting import NONE, Bound, bound, described
from foltr.world.population import checked_tables

MOST_LISTS = 300_000  # that are written out


def promised(e: Experiment, learner: ES, delta: float) -> Bound:
    """Of one interaction, against whoever gets its message."""
    if learner.entropy == "shared":
        return NONE
    events = described(
        e.privacy, Setting(1, e.cohort, e.cohort, sessions=1, values=learner.rewards)
    )
    return bound(tuple((event, 1) for event in events), delta) if events else NONE


def chance_of_truth(privacy: Privatizer | None) -> float:
    return privacy.p if isinstance(privacy, RandomizedReward) else 1.0


def click_tables(users: ClickModel, grades: int, depth: int) -> tuple[Array, Array]:
    tables = checked_tables(users, grades, depth)
    if tables is None:
        require(
            False,
            f"{type(users).__name__} has no table of click probabilities, which this attack"
            " calculates with",
        )
    assert tables is not None
    return tables


def chances(learner: ES, click: Array, stop: Array, lists: Array) -> Array:
    """P(which value a reward has) for users who see lists of the grades (n, k): (n, V), exactly.

    A user who goes on has seen some clicks, of which the objective needs one code (`ES.code`).
    Rank by rank, every code passes its probability on: without a click to itself; with one to the
    next code, and there stops or goes on."""
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
    found = np.zeros((n, learner.rewards))
    np.add.at(found.T, coded, (going + stopped).T)
    return found


def _after_click(objective: str, codes: Array, j: int) -> Array:
    """The code after one more click, at rank j + 1."""
    if objective == "ctr":
        return np.minimum(codes + 1, len(codes) - 1)
    if objective == "dcg":
        return codes | 1 << j
    return (
        np.full_like(codes, j + 1) if objective == "last" else np.where(codes == 0, j + 1, codes)
    )


def told(chance: Array, p: float) -> Array:
    """P(which value is told): the true one with probability p, else any other."""
    return chance * p + (1.0 - chance) * (1.0 - p) / (chance.shape[-1] - 1)


@dataclass(frozen=True)
class Enumerated:
    """The most that a told reward can say about two lists: max over lists and values of ln(P1 /
    P2), beside eq. 10."""

    epsilon: float
    bound: float
    depth: int  # of the lists


def worst_pair(learner: ES, users: ClickModel, grades: int, p: float) -> Enumerated:
    """Over all pairs of lists, exactly (Kharitonov, WSDM 2019, Table 2: lists of five).

    The first click's rank depends on each grade only through its click probability, and linearly:
    only the likeliest and the least likely grades need to be looked at. Other objectives take
    shorter lists where all would be too many."""
    v = learner.rewards
    require(1.0 / v < p <= 1.0, f"p must be in (1 / {v}, 1], got {p}")
    depth, looks_at_first = learner.k, learner.objective in ("maxrr", "first")
    choices = 2 if looks_at_first else grades
    while choices**depth > MOST_LISTS:
        depth -= 1
    shorter = replace(learner, k=depth)
    click, stop = click_tables(users, grades, depth)
    if looks_at_first:
        ranks = [sorted({int(click[j].argmin()), int(click[j].argmax())}) for j in range(depth)]
    else:
        ranks = [list(range(grades))] * depth
    lists = np.array(list(product(*ranks)))
    chance = told(chances(shorter, click, stop, lists), p)
    with np.errstate(divide="ignore"):
        epsilon = float((np.log(chance.max(axis=0)) - np.log(chance.min(axis=0))).max())
    bound = math.inf if p == 1.0 else math.log(p * (shorter.rewards - 1) / (1.0 - p))
    return Enumerated(epsilon, bound, depth)
