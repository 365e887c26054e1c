"""Label inference: how much of the clicks an attack recovers, from each message and from sums of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foltr.audits.guesses import BEYOND, OF_THE_SEED, Attack, Guess, Seen, least_squares
from foltr.audits.intervals import Estimate, area, mean_of
from foltr.audits.noise import View, message, promise, sent
from foltr.audits.pdgd_model import LONGEST, Model, click_sets
from foltr.audits.rewards import chance_of_truth, promised
from foltr.audits.searches import Search, single
from foltr.core import Array, Learner, Privatizer
from foltr.experiment import Experiment
from foltr.learners.es import ES, read_messages
from foltr.learners.pdgd import PDGD
from foltr.privacy.accounting import Bound
from foltr.seeds import stream

ABSENT = "least squares, client not in it"  # what the sum says of anybody's clicks, because it teaches to rank
OF_SUMS = ("random 3", "least squares", "least squares, weights known", "least deviations, weights known")
MEASURES = ("accuracy", "precision", "recall", "AUC")
PRIOR = 0.3  # about what users click: where a message says nothing of a document, nothing is guessed
TARGETS, FEW_TARGETS = 200, 20  # clients whose clicks are sought in sums; fewer where each takes long
MANY_WEIGHTS, MANY_COLUMNS = 1000, 60
Tell = Callable[[str, int, int], None]  # (what is being done, how far, of how many)


@dataclass(frozen=True)
class Row:
    """One attack on one view."""

    attack: str
    view: View
    measures: dict[str, Estimate]
    promised: Bound  # for one client in one round

    def plain(self) -> dict[str, Any]:
        found = {name: each.plain() for name, each in self.measures.items()}
        return {"attack": self.attack, "view": str(self.view), **found}


def measured(guesses: list[Guess], truths: list[Array]) -> dict[str, Estimate]:
    """Means over queries; precision over those with a guess, AUC over those with clicked and unclicked documents."""
    rows = np.array([_one(guess, clicks) for guess, clicks in zip(guesses, truths, strict=True)])
    return {name: mean_of(column) for name, column in zip(MEASURES, rows.T, strict=True)}


def _one(guess: Guess, clicks: Array) -> tuple[float, float, float, float]:
    right = float((guess.clicked & clicks).sum())
    precision = right / guess.clicked.sum() if guess.clicked.any() else np.nan
    auc = area(guess.belief[clicks], guess.belief[~clicks])
    return float((guess.clicked == clicks).mean()), float(precision), right / clicks.sum(), auc


def infer_labels(
    e: Experiment, params: Array, made: list[Search], views: tuple[View, ...], delta: float, tell: Tell
) -> Iterator[Row]:
    """Every attack on every view; of learners that send rewards there are only messages to look at."""
    learner = single(e)
    if isinstance(learner, ES):
        yield from _from_rewards(e, learner, made, delta, tell)
        return
    inference = Inference(e, learner, params, made, delta, tell)
    for view in views:
        yield from inference.of(view)


@dataclass(frozen=True, eq=False)
class Inference:
    """Attacks on the updates of PDGD."""

    e: Experiment
    learner: PDGD
    params: Array
    made: list[Search]
    delta: float
    tell: Tell

    def of(self, view: View) -> Iterator[Row]:
        clicked = [i for i, search in enumerate(self.made) if search.clicks.any()]
        most = FEW_TARGETS if len(self.params) > MANY_WEIGHTS else TARGETS
        targets = clicked if view.kind == "message" else clicked[:most]
        found: dict[str, list[Guess]] = {}
        for done, i in enumerate(targets):
            self.tell(f"label inference, {view}", done, len(targets))
            for name, guess in self._guesses(i, view):
                found.setdefault(name, []).append(guess)
        promised = promise(self.e.privacy, view, len(self.params), self.delta)
        for name, guesses in found.items():
            yield Row(name, view, measured(guesses, [self.made[i].clicks for i in targets]), promised)

    def _guesses(self, target: int, view: View) -> Iterator[tuple[str, Guess]]:
        others = self._others(target, view.arriving) if view.kind == "sum" else []
        group, t = [self.made[i] for i in (target, *others)], self.e.rounds
        first = target * len(group) if view.kind == "sum" else target
        payloads = np.stack([search.payload for search in group])
        messages = sent(self.e.privacy, payloads, view.asked, self.e.seed, t, first).astype(np.float64)
        group = group[:-1] if view.kind == "sum" else group  # the last one takes part only when the target does not
        arrived = messages[: len(group)].sum(axis=0)
        columns = np.concatenate([search.gradients for search in group]).T.astype(np.float64)
        luck = stream(self.e.seed, "audit", "guess", target)
        seen = Seen(self.e.ranker, self.params, group[0].docs, columns, arrived, luck)
        attacks: dict[str, Attack] = {**OF_THE_SEED, **BEYOND}
        if view.kind == "sum":
            names = OF_SUMS if columns.shape[1] < min(len(self.params), MANY_COLUMNS) else OF_SUMS[:-1]
            attacks = {name: attacks[name] for name in names}
        for name, attack in attacks.items():
            yield name, attack(seen)
        if view.kind == "sum":
            without = replace(seen, update=arrived + messages[-1] - messages[0])  # another in the client's place
            yield ABSENT, least_squares(without)
        if self.learner.k <= LONGEST and view.kind == "message":
            model = Model(self.learner, self.e.privacy, self.params, self.e.rounds)
            yield "all click sets of PDGD", model.guess(group[0], seen.update, view)

    def _others(self, target: int, count: int) -> list[int]:
        """Other clients of the round, each with a query of its own as long as there are enough."""
        rng, rest = stream(self.e.seed, "audit", "others", target, count), len(self.made) - 1
        drawn: list[int] = []
        while len(drawn) < count and rest:
            drawn += np.argsort(rng.words(rest), kind="stable").tolist()
        return [i + (i >= target) for i in drawn[:count]]


def _from_rewards(e: Experiment, learner: ES, made: list[Search], delta: float, tell: Tell) -> Iterator[Row]:
    """A told reward says which sets of clicks there may have been; before, documents were clicked with chance PRIOR."""
    if learner.k > LONGEST:
        return
    sets = click_sets(learner.k)
    _, coded = learner.reward_values()
    which = np.array([coded[learner.code(clicks)] for clicks in sets])
    guesses, truths = [], []
    for i, search in enumerate(made):
        tell("label inference, each message", i, len(made))
        if search.clicks.any():
            guesses.append(_posterior(_told(e, learner, search, i), which, sets, learner, e.privacy))
            truths.append(search.clicks)
    yield Row("what the reward tells", message(e.cohort), measured(guesses, truths), promised(e, learner, delta))


def _told(e: Experiment, learner: ES, search: Search, client: int) -> int:
    """Which value the message holds, after the privatizer."""
    values, _ = learner.reward_values()
    _, means = read_messages(search.payload[None])
    true = int(np.abs(values - float(means[0, 0])).argmin())
    if e.privacy is None:
        return true
    return e.privacy.on_reward(true, len(values), stream(e.seed, "privacy", client, e.rounds).at(0))


def _posterior(told: int, which: Array, sets: Array, learner: Learner, privacy: Privatizer | None) -> Guess:
    p = chance_of_truth(privacy)
    chance = np.where(which == told, p, (1.0 - p) / (learner.rewards - 1))
    chance = chance * PRIOR ** sets.sum(axis=1) * (1.0 - PRIOR) ** (~sets).sum(axis=1)
    belief = chance @ sets / chance.sum()
    return Guess(belief > 0.5, belief)
