"""What a reward reveals about a search, for FOLtR-ES against the adversary of Kharitonov (WSDM
2019, section 4).

The adversary knows both queries, their documents and labels, the click model and, by the seed in
the message, both lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np

from foltr.audits.searches import RewardLearner
from foltr.core import Array, ClickModel, Privatizer
from foltr.errors import require
from foltr.events import RandomizedResponse, Setting
from foltr.experiment import Experiment
from foltr.privacy.accounting import NONE, Bound, bound, described
from foltr.world.population import checked_tables

MOST_LISTS = 300_000  # most lists that are enumerated


def reward_guarantee(e: Experiment, learner: RewardLearner, delta: float) -> Bound:
    """The guarantee for one interaction, against everybody that gets its message."""
    if learner.entropy == "shared":
        return NONE
    events = described(
        e.privacy, Setting(1, e.cohort, e.cohort, sessions=1, values=learner.reward_levels)
    )
    return bound(tuple((event, 1) for event in events), delta) if events else NONE


def chance_of_truth(privacy: Privatizer | None, values: int) -> float:
    """The probability that the reward sent is the true one, of so many values."""
    events = described(privacy, Setting(1, 1, 1, sessions=1, values=values))
    return math.prod(event.p for event in events if isinstance(event, RandomizedResponse))


def click_tables(users: ClickModel, grades: int, depth: int) -> tuple[Array, Array]:
    tables = checked_tables(users, grades, depth)
    if tables is None:
        require(
            False,
            f"{type(users).__name__} has no table of click probabilities, which this attack needs",
        )
    assert tables is not None
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
    return (
        np.full_like(codes, j + 1) if objective == "last" else np.where(codes == 0, j + 1, codes)
    )


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
