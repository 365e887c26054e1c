"""Label inference: how many of the clicks an attack recovers, from each message and from sums of
messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from foltr.components.learners.es import read_messages
from foltr.core import Array, Learner, Privatizer
from foltr.core.seeds import stream
from foltr.experiment import Experiment
from foltr.privacy.accounting import Bound
from foltr.simulation.audits.games import Estimate, area, mean_of
from foltr.simulation.audits.guesses import (
    EXTENDED,
    LONGEST,
    PUBLISHED,
    ROBUST_TOLERANCE,
    Guess,
    Model,
    Seen,
    at_random,
    click_sets,
    least_absolute_deviations,
    minimum_norm_solution,
    positive,
    with_weights,
)
from foltr.simulation.audits.noise import View, guarantee, message, sent, variance
from foltr.simulation.audits.rewards import chance_of_truth, reward_guarantee
from foltr.simulation.audits.searches import RewardLearner, Search, UpdateLearner, single
from foltr.simulation.audits.sums import Member, Sum, member, rounding

# what a sum reveals about anybody's clicks, because a ranker learns from it
ABSENT = "least squares, client not in it"
SETS, OTHERS_NORMAL = "all click sets of PDGD", "all click sets, others as normal"
OTHERS_TOO, SETS_ABSENT = "all click sets of all clients", "all click sets, client not in it"
MEASURES = ("accuracy", "precision", "recall", "AUC")
PRIOR = 0.3  # prior probability of a click; below 1/2, so without information nothing is guessed
TARGETS = 200  # most clients whose clicks are sought in sums
MANY_WEIGHTS, MANY_COLUMNS = 1000, 60
# most numbers in the gradients of a sum's documents: for regression, for click sets
HELD, HELD_SETS = (10**8, 4 * 10**7)
Report = Callable[[str, int, int], None]  # (current step, done, total)


@dataclass(frozen=True)
class LabelResult:
    """The result of one attack on one view."""

    attack: str
    view: View
    measures: dict[str, Estimate]
    guarantee: Bound  # for one client in one round

    def plain(self) -> dict[str, Any]:
        found = {name: each.plain() for name, each in self.measures.items()}
        return {"attack": self.attack, "view": str(self.view), **found}


def measured(guesses: list[Guess], truths: list[Array]) -> dict[str, Estimate]:
    """The means over queries; precision over those with a guess, AUC over those with clicked and
    unclicked documents."""
    rows = np.array([_one(guess, clicks) for guess, clicks in zip(guesses, truths, strict=True)])
    return {name: mean_of(column) for name, column in zip(MEASURES, rows.T, strict=True)}


def _one(guess: Guess, clicks: Array) -> tuple[float, float, float, float]:
    right = float((guess.clicked & clicks).sum())
    precision = right / guess.clicked.sum() if guess.clicked.any() else np.nan
    auc = area(guess.belief[clicks], guess.belief[~clicks])
    return float((guess.clicked == clicks).mean()), float(precision), right / clicks.sum(), auc


def infer_labels(
    e: Experiment,
    params: Array,
    made: list[Search],
    views: tuple[View, ...],
    delta: float,
    report: Report,
) -> Iterator[LabelResult]:
    """All attacks on all views; for learners that send rewards there are only messages to
    attack."""
    learner = single(e)
    if learner.reward_levels > 0:
        yield from _from_rewards(e, cast(RewardLearner, learner), made, delta, report)
        return
    inference = Inference(e, cast(UpdateLearner, learner), params, made, delta, report)
    for view in views:
        yield from inference.of(view)


@dataclass(frozen=True, eq=False)
class Inference:
    """Attacks on the updates of PDGD."""

    e: Experiment
    learner: UpdateLearner
    params: Array
    made: list[Search]
    delta: float
    report: Report
    # cache, by search and clients asked
    members: dict[tuple[int, int], Member] = field(default_factory=dict)

    def of(self, view: View) -> Iterator[LabelResult]:
        """All attacks on one view. A sum of updates with many weights takes long to solve, so the
        clicks of several of its clients are then sought at once."""
        targets, together = [i for i, search in enumerate(self.made) if search.clicks.any()], 1
        if view.kind == "sum":
            if view.arriving * self.learner.k * len(self.params) > HELD:
                return
            targets = targets[:TARGETS]
            if len(self.params) > MANY_WEIGHTS:
                together = max(1, min(view.arriving, len(self.made) // 2))
        found: dict[str, list[Guess]] = {}
        for done in range(0, len(targets), together):
            self.report(f"label inference, {view}", done, len(targets))
            some = targets[done : done + together]
            is_sum = view.kind == "sum"
            guesses = self._from_sum(some, view) if is_sum else self._from_message(some[0], view)
            for name, guess in guesses:
                found.setdefault(name, []).append(guess)
        bound = guarantee(self.e.privacy, view, len(self.params), self.delta)
        truths = [self.made[i].clicks for i in targets]
        for name, of_all in found.items():
            yield LabelResult(name, view, measured(of_all, truths), bound)

    @property
    def model(self) -> Model:
        return Model(self.learner, self.e.privacy, self.params, self.e.rounds)

    def _seen(self, target: int, update: Array) -> Seen:
        search, rng = self.made[target], stream(self.e.seed, "audit", "guess", target)
        columns = search.gradients.T.astype(np.float64)
        return Seen(
            self.e.ranker, self.params, search.docs, columns, update.astype(np.float64), rng
        )

    def _from_message(self, target: int, view: View) -> Iterator[tuple[str, Guess]]:
        search = self.made[target]
        e, payload = self.e, search.payload[None]
        (arrived,) = sent(e.privacy, payload, view.asked, e.seed, e.rounds, target)
        seen = self._seen(target, arrived)
        for name, attack in {**PUBLISHED, **EXTENDED}.items():
            yield name, attack(seen)
        if self.learner.k <= LONGEST:
            yield SETS, self.model.guess(search, seen.update, view)

    def _from_sum(self, sought: list[int], view: View) -> Iterator[tuple[str, Guess]]:
        """The guesses for each client that is sought. The last client of the group takes part only
        in the sums without the client sought."""
        group = [*sought, *self._others(sought, view.arriving + 1 - len(sought))]
        members, k = [self.made[i] for i in group[:-1]], self.learner.k
        e, payloads = self.e, np.stack([self.made[i].payload for i in group])
        first = sought[0] * len(group)
        messages = sent(e.privacy, payloads, view.asked, e.seed, e.rounds, first)
        messages = messages.astype(np.float64)
        arrived = messages[:-1].sum(axis=0)
        # (sought, d): the sum with another client in its place
        without = arrived + messages[-1] - messages[: len(sought)]
        columns = np.concatenate([search.gradients for search in members]).T.astype(np.float64)
        squares = minimum_norm_solution(columns, np.column_stack([arrived, *without]))
        known = with_weights(columns, self.params)
        squares_known = minimum_norm_solution(known, arrived)
        few = columns.shape[1] < min(len(self.params), MANY_COLUMNS)
        deviations = least_absolute_deviations(known, arrived) if few else None
        for j, target in enumerate(sought):
            own = slice(j * k, (j + 1) * k)
            yield "random 3", at_random(3)(self._seen(target, arrived))
            yield "least squares", positive(squares[own, 0])
            yield "least squares, weights known", positive(squares_known[own])
            if deviations is not None:
                robust = positive(deviations[own], ROBUST_TOLERANCE)
                yield "least deviations, weights known", robust
            yield ABSENT, positive(squares[own, 1 + j])
        if k <= LONGEST and columns.size <= HELD_SETS:
            yield from self._click_sets(group[:-1], len(sought), view, arrived, without)

    def _click_sets(
        self, members: list[int], sought: int, view: View, arrived: Array, without: Array
    ) -> Iterator[tuple[str, Guess]]:
        """The guesses by click sets for the first `sought` members of a sum."""
        for i in members:
            if (i, view.asked) not in self.members:
                self.members[i, view.asked] = member(self.model, self.made[i], view.asked)
        clients = [self.members[i, view.asked] for i in members]
        noise = variance(self.e.privacy, view, len(self.params)) + rounding(self.params, clients)
        found, which = Sum(clients, noise), list(range(sought))
        yield from ((OTHERS_NORMAL, guess) for guess in found.first(which, arrived))
        if found.repeats:
            yield from ((OTHERS_TOO, guess) for guess in found.settled(arrived)[:sought])
        yield from ((SETS_ABSENT, guess) for guess in found.first(which, without))

    def _others(self, sought: list[int], count: int) -> list[int]:
        """Other clients of the round, with different queries as long as there are enough."""
        rng = stream(self.e.seed, "audit", "others", sought[0], count)
        rest, drawn = np.setdiff1d(np.arange(len(self.made)), sought), list[int]()
        while len(drawn) < count and len(rest):
            drawn += rest[np.argsort(rng.words(len(rest)), kind="stable")].tolist()
        return drawn[:count]


def _from_rewards(
    e: Experiment, learner: RewardLearner, made: list[Search], delta: float, report: Report
) -> Iterator[LabelResult]:
    """The guesses from the reported reward, by the posterior over sets of clicks; a priori each
    document is clicked with probability PRIOR."""
    if learner.k > LONGEST:
        return
    sets = click_sets(learner.k)
    _, coded = learner.reward_values()
    which = np.array([coded[learner.code(clicks)] for clicks in sets])
    guesses, truths = [], []
    for i, search in enumerate(made):
        report("label inference, each message", i, len(made))
        if search.clicks.any():
            reported = _reported(e, learner, search, i)
            guesses.append(_posterior(reported, which, sets, learner, e.privacy))
            truths.append(search.clicks)
    bound = reward_guarantee(e, learner, delta)
    name, view = "posterior given the reward", message(e.cohort)
    yield LabelResult(name, view, measured(guesses, truths), bound)


def _reported(e: Experiment, learner: RewardLearner, search: Search, client: int) -> int:
    """Which value the message holds, after the privatizer."""
    values, _ = learner.reward_values()
    _, means = read_messages(search.payload[None])
    true = int(np.abs(values - float(means[0, 0])).argmin())
    if e.privacy is None:
        return true
    rng = stream(e.seed, "privacy", client, e.rounds).at(0)
    return e.privacy.on_reward(true, len(values), rng)


def _posterior(
    reported: int, which: Array, sets: Array, learner: Learner, privacy: Privatizer | None
) -> Guess:
    p = chance_of_truth(privacy, learner.reward_levels)
    chance = np.where(which == reported, p, (1.0 - p) / (learner.reward_levels - 1))
    chance = chance * PRIOR ** sets.sum(axis=1) * (1.0 - PRIOR) ** (~sets).sum(axis=1)
    belief = chance @ sets / chance.sum()
    return Guess(belief > 0.5, belief)
