"""Membership inference: is a client whose update is known among those of this round?

No guarantee covers participation (the server asks clients by name). The attack measures how much
of one update remains in what the server gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Ask, ClickModel, Privatizer
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import iid
from foltr.experiment import Experiment
from foltr.privacy.accounting import Bound
from foltr.simulation.audits.games import Estimate, Game, area_interval, game_result
from foltr.simulation.audits.labels import MANY_WEIGHTS, Report
from foltr.simulation.audits.noise import (
    View,
    clipped,
    events_in,
    guarantee,
    log_density,
    message,
    sent,
    summed,
    variance,
)
from foltr.simulation.engines.local import Local

DRAWN = 10**7  # most numbers in the messages of all trials of a size


@dataclass(frozen=True)
class Membership:
    """The result of membership inference in one view."""

    view: View
    auc: Estimate
    game: Game

    def plain(self) -> dict[str, Any]:
        return {"clients": self.view.arriving, "auc": self.auc.plain(), **self.game.plain()}


def real_round(
    e: Experiment, params: Array, users: ClickModel, train: Dataset, clients: int, threads: int
) -> Array:  # fmt: skip
    """The updates (clients, d) without noise of a round after the last."""
    population = iid(train, users, clients, e.sessions)
    memory = np.tile(e.device_learner.remembered(e.ranker, params), (clients, 1))
    engine = Local(
        e.device_learner, e.ranker, population, e.seed, memory, threads=Threads(threads)
    )
    with engine.threads.running():
        cohort = engine.collect(Ask(params, e.rounds, clients), np.arange(clients)).arrived
    return cohort.updates


def membership(
    e: Experiment, updates: Array, sizes: tuple[int, ...], most: int, delta: float, report: Report
) -> Iterator[Membership]:
    """The attack in rounds of sizes[i] clients, at most `most` trials each: with the target, and
    with another client in its place."""
    for n in sizes:
        trials = max(100, min(most, DRAWN // (n * updates.shape[1])))
        for view in (message(n), summed(n)):
            report(f"membership inference, {view} of a round of {n:,}", 0, 1)
            ones, zeros = scores(e.privacy, updates, view, trials, e.seed)

            def guaranteed(at: float, view: View = view) -> Bound:
                return guarantee(e.privacy, view, updates.shape[1], at)

            game = game_result(
                "membership", str(view), "one client-round", ones, zeros, guaranteed, delta
            )
            yield Membership(view, area_interval(ones, zeros), game)


def scores(
    privacy: Privatizer | None, updates: Array, view: View, trials: int, seed: int
) -> tuple[Array, Array]:
    """The score of each trial, in the world with the target and in the world without it."""
    n, half = view.arriving, len(updates) // 2
    # the attacker's knowledge of the population is from other clients
    known, fresh = (updates[:half], updates[half:])
    is_sum = view.kind == "sum"
    test = sum_test(privacy, known, view) if is_sum else message_test(privacy, view)
    t, found = view.asked + is_sum * 10**6, np.empty((2, trials))
    for i in range(trials):
        rng = stream(seed, "audit", "membership", view.asked, i)
        order = np.argsort(rng.words(len(fresh)), kind="stable")
        members = fresh[order[np.arange(n + 1) % len(fresh)]]
        for world in (0, 1):
            there = np.concatenate([members[[1 - world]], members[2:]])  # the target is members[0]
            messages = sent(privacy, there, view.asked, seed, t, (2 * i + world) * n)
            found[world, i] = test(messages.astype(np.float64), members[0])
    return found[1], found[0]


Test = Callable[[Array, Array], float]  # (messages, the target's update) -> score


def message_test(privacy: Privatizer | None, view: View) -> Test:
    """The highest likelihood of a message, given what the target would have sent."""

    def test(messages: Array, target: Array) -> float:
        bare = clipped(privacy, target[None].astype(np.float64), view.asked)
        events = events_in(privacy, view, len(target))
        return float(log_density(events, view, messages - bare).max())

    return test


def sum_test(privacy: Privatizer | None, known: Array, view: View) -> Test:
    """The likelihood ratio of normal variables: others as in the population, of which `known` are
    updates, noise as in the privatizer's events."""
    bare = clipped(privacy, known.astype(np.float64), view.asked)
    d, n = bare.shape[1], view.arriving
    mean, noise = bare.mean(axis=0), variance(privacy, view, d)
    if d > MANY_WEIGHTS:  # a diagonal covariance, which is faster and less accurate
        spread = n * bare.var(axis=0) + noise
    else:
        full = n * np.cov(bare, rowvar=False).reshape(d, d) + np.eye(d) * noise
        inverse = np.linalg.pinv(full, rcond=1e-9, hermitian=True)

    def test(messages: Array, target: Array) -> float:
        way = clipped(privacy, target[None].astype(np.float64), view.asked)[0] - mean
        weighed = way / (spread + 1e-6 * spread.mean()) if d > MANY_WEIGHTS else inverse @ way
        return float(weighed @ (messages.sum(axis=0) - len(messages) * mean - way / 2.0))

    return test
