"""The audit of one experiment with its trained weights: attacks on what its server sees, compared
with the guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from foltr.core import Array, ClickModel
from foltr.core.errors import Mistake, require
from foltr.core.seeds import stream
from foltr.core.spec import brief
from foltr.core.world.dataset import Dataset
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of
from foltr.privacy.guarantee import DELTA, Ledger, ledger_of
from foltr.simulation.audits.games import Distance, Game, largest_distance, play, worst_updates
from foltr.simulation.audits.labels import LabelResult, Report, infer_labels
from foltr.simulation.audits.membership import Membership, membership, real_round
from foltr.simulation.audits.noise import View, events_in, message, summed
from foltr.simulation.audits.rewards import Enumerated, TwoQueries, chance_of_truth, worst_pair
from foltr.simulation.audits.searches import RewardLearner, searches, single

SUMS = (2, 5, 10, 100)  # clients in a sum
ROUNDS = (2, 10, 100)  # clients per round in membership inference
LARGEST = 2000  # largest sum that label inference attacks
# clients whose real rounds are used, the fewest of them, and about how many searches
POOL, LEAST_POOL, SESSIONS = (2000, 200, 10**5)


@dataclass(frozen=True)
class Effort:
    """How much work an audit does."""

    queries: int = 500  # at most
    games: int = 20_000  # most games for each of two inputs
    trials: int = 1000  # most trials of membership, with and without the client
    threads: int = 1


NORMAL = Effort()


@dataclass(frozen=True)
class Audit:
    """The results of an audit."""

    experiment: Experiment
    users: ClickModel
    split: str
    view: View  # what the server of this experiment sees
    ledger: Ledger
    made: int  # searches
    clicked: int  # searches with a click
    labels: tuple[LabelResult, ...]
    distance: Distance | None
    enumerated: Enumerated | None
    games: tuple[Game, ...]
    members: tuple[Membership, ...]

    @property
    def broken(self) -> bool:
        """Whether an attack achieved more than a guarantee allows."""
        too_far = self.distance is not None and self.distance.broken
        return too_far or any(game.broken for game in self.all_games)

    @property
    def all_games(self) -> tuple[Game, ...]:
        return (*self.games, *(each.game for each in self.members))

    @property
    def left_out(self) -> list[str]:
        """Parts of the experiment that are not audited: the audited searches are made by equal,
        honest clients."""
        e = self.experiment
        parts = (None if e.partition.identical_clients else e.partition, e.attack, e.unlearning)
        return [brief(part) for part in parts if part is not None]

    def plain(self) -> dict[str, Any]:
        exact = self.enumerated
        return {
            "experiment": self.experiment.config(),
            "users": repr(self.users),
            "split": self.split,
            "left_out": self.left_out,
            "server_sees": str(self.view),
            "ledger": self.ledger.plain(),
            "searches": self.made,
            "with_clicks": self.clicked,
            "labels": [row.plain() for row in self.labels],
            "promises": {  # for one client and round, by view
                str(row.view): {
                    "epsilon": _finite(row.guarantee.epsilon),
                    "delta": row.guarantee.delta,
                    "how": row.guarantee.how,
                }
                for row in self.labels
            },
            "reach": None if self.distance is None else self.distance.plain(),
            "reward": (
                None
                if exact is None
                else {
                    "epsilon": _finite(exact.epsilon),
                    "bound": _finite(exact.bound),
                    "list": exact.depth,
                }
            ),
            "games": [game.plain() for game in self.games],
            "membership": [each.plain() for each in self.members],
            "broken": self.broken,
        }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def audit(
    e: Experiment,
    params: Array,
    users: ClickModel | None = None,
    effort: Effort = NORMAL,
    delta: float = DELTA,
    report: Report = lambda what, done, of: None,
) -> Audit:
    """Attack the round after the last, with the weights `params` (d,).

    `users` click instead of the experiment's own, on its validation queries (on test queries, if
    it has none)."""
    nothing = "a baseline learns from labels and sends nothing: there is nothing to attack"
    require(e.baseline is None, nothing)
    learner = single(e)
    train, (split, data), users = e.data.load("train"), _held_out(e), users or e.users
    params = _fitting(e, params.astype(np.float32), train)
    report("simulating searches", 0, 1)
    made = searches(e, params, users, data, effort.queries)
    clicked = sum(bool(search.clicks.any()) for search in made)
    idle = f"nobody clicked in {len(made)} searches of {split}: there is nothing to guess"
    require(clicked > 0, idle)
    seen = _seen_here(e, len(params))
    views = [message(e.cohort), *map(summed, SUMS if len(made) > 1 else ())]
    if seen not in views and seen.arriving <= LARGEST and len(made) > 1:
        views.append(seen)
    rows = tuple(infer_labels(e, params, made, tuple(views), delta, report))
    found, exact, furthest = [], None, None
    members: tuple[Membership, ...] = ()
    if learner.reward_levels > 0:
        learner = cast(RewardLearner, learner)
        report("distinguishing two queries", 0, 1)
        queries = np.array([search.query for search in made])
        game = TwoQueries(e, users, data, delta, effort.threads)
        found.append(game.play(params, queries, effort.games))
        p = chance_of_truth(e.privacy, learner.reward_levels)
        exact = worst_pair(learner, users, data.grades, p)
    else:
        pool = max(LEAST_POOL, min(POOL, SESSIONS // e.sessions))
        updates = real_round(e, params, users, train, pool, effort.threads)
        furthest = largest_distance(e.privacy, updates, e.cohort)
        found = _games(e, params, furthest, effort, delta, report)
        members = tuple(membership(e, updates, ROUNDS, effort.trials, delta, report))
    return Audit(
        experiment=e,
        users=users,
        split=split,
        view=seen,
        ledger=ledger_of(e, train.width, delta),
        made=len(made),
        clicked=clicked,
        labels=rows,
        distance=furthest,
        enumerated=exact,
        games=tuple(found),
        members=members,
    )


def _held_out(e: Experiment) -> tuple[str, Dataset]:
    """The validation queries, which no choice or measurement used; test queries if there are
    none."""
    try:
        return "vali", e.data.load("vali")
    except Mistake:
        return "test", e.data.load("test")


def _fitting(e: Experiment, params: Array, train: Dataset) -> Array:
    wanted = e.ranker.init(train.width, stream(0)).shape
    if params.shape != wanted:
        raise Mistake(
            f"got {params.shape[0]} weights for a ranker of {wanted[0]}: they come from other data"
            " or another run"
        )
    return params


def _seen_here(e: Experiment, d: int) -> View:
    return (
        message(e.cohort)
        if e.channel is None
        else summed(e.cohort, setting_of(e, d).least_arriving)
    )


def _games(
    e: Experiment, params: Array, furthest: Distance, effort: Effort, delta: float, report: Report
) -> list[Game]:
    pairs = {"two real updates": furthest.pair, **worst_updates(e.privacy, params, e.cohort)}
    views, found = [message(e.cohort)], list[Game]()
    if e.cohort > 1:
        views.append(summed(e.cohort, setting_of(e, len(params)).least_arriving))
    model = View("model", e.cohort, e.cohort)
    if any(event.seen == "model" for event in events_in(e.privacy, model, len(params))):
        views.append(model)
    for view in views:
        report(f"distinguishing two updates, {view}", 0, 1)
        found += play(pairs, e.privacy, view, effort.games, delta, e.seed)
    return found
