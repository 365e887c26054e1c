"""Games against a whole experiment: privatizer, malicious clients, drop-outs, channel, server and
rule act as in a run. The adversary decides by likelihood ratio; its success is compared with the
ledger.

The adversary chooses the two inputs, as far apart as clipping or the ball allows. It knows all
that other clients send except their noise, and malicious clients share their knowledge with it.
(`foltr.simulation.audits` attacks real searches.)"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from foltr.components.optimizers.sgd import SGD
from foltr.core import Array, Ask, Cohort, Privatizer
from foltr.core.compiled import using
from foltr.core.federation import Delivery, Server
from foltr.core.seeds import stream
from foltr.core.spec import click_models
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import SimulatedUser, iid
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of
from foltr.experiment.malicious import MaliciousRewrite
from foltr.privacy.accounting import Bound
from foltr.privacy.adversaries import Unit, Who
from foltr.privacy.guarantee import ledger_of
from foltr.privacy.participation import exposure_of
from foltr.simulation.audits.games import Game, game_result, worst_updates
from foltr.simulation.audits.noise import View, clipped, events_in, log_density, message
from foltr.simulation.engines.local import privatize
from foltr.simulation.engines.twins import KERNELS
from foltr.simulation.runs.setup import checked_population

PIECE = 10**6  # numbers drawn at a time
FINEST = 2.0**-31  # a difference visible only in the last bits of a number
FEWEST = 200  # fewest games of a kind


@using(KERNELS)
def play_all(e: Experiment, features: int, games: int, delta: float = 1e-5) -> list[Game]:
    """All games that fit the experiment, each with `games` rounds for either of its two inputs.

    There are none where the ledger gives no guarantee. The ranker gets `features` features; with
    fewer, the games come closer to the guarantee."""
    if e.privacy is None:
        return []
    if e.privacy.acts_on == "rewards":
        return list(_rewards(e, e.privacy, features, games, delta))
    if len(e.device_learner.remembered(e.ranker, e.ranker.init(features, stream(0)))):
        data = narrowed(e.data.load("train"), features)
        return list(_remembered(e, e.privacy, data, games, delta))
    return list(Table(e, e.privacy, features).play(games, delta))


def guarantee(e: Experiment, features: int, who: Who, unit: Unit, delta: float) -> Bound:
    return ledger_of(e, features, delta).guarantee(who, unit)


def _game_result(
    e: Experiment,
    features: int,
    name: str,
    who: Who,
    unit: Unit,
    ones: Array,
    zeros: Array,
    delta: float,
) -> Game:
    def at(each: float) -> Bound:
        return guarantee(e, features, who, unit, each)

    return game_result(name, who, f"one {unit}", ones, zeros, at, delta)


@dataclass(frozen=True, eq=False)
class Table:
    """Rounds in which only the target, row 0, has an update; malicious clients are the next
    rows."""

    e: Experiment
    privacy: Privatizer
    features: int
    seed: int = 1

    @cached_property
    def params(self) -> Array:
        return np.zeros(len(self.e.ranker.init(self.features, stream(0))), np.float32)

    @cached_property
    def ask(self) -> Ask:
        return Ask(self.params, 0, self.e.cohort)

    @cached_property
    def weights(self) -> Array:
        data = self.e.data.load("train"), self.e.data.load("test")
        population = checked_population(self.e, *data)
        return population.sessions[: self.e.cohort].astype(float)

    @cached_property
    def malicious(self) -> Array:
        rows = np.arange(self.e.cohort)
        return (0 < rows) & (rows <= exposure_of(self.e).malicious)

    @cached_property
    def arriving(self) -> int:
        """The number of rows that arrive: the fewest that may make a round, all malicious ones
        included."""
        return setting_of(self.e, len(self.params)).least_arriving

    def play(self, games: int, delta: float) -> Iterator[Game]:
        pairs, whos = worst_updates(self.privacy, self.params, self.e.cohort), self._who()
        if len(self.params) == 1:
            pairs = dict(list(pairs.items())[:1])  # with one parameter all pairs are equal
        for name, pair in pairs.items():
            for view, against in whos.items():
                zeros, ones = (self.scores(pair, world, games, view) for world in (0, 1))
                yield from self._units(name, against, ones, zeros, delta)
        if any(view.kind == "sum" for view in whos) and self.e.channel is not None:
            zeros, ones = (self.last_bits(world, min(games, 2 * FEWEST)) for world in (0, 1))
            yield from self._units("last bits of the sum", "server", ones, zeros, delta)

    def _who(self) -> dict[View, Who]:
        """The views for which there is a guarantee, and against whom."""
        n, found = self.e.cohort, dict[View, Who]()
        honest = self.arriving - int(self.malicious[: self.arriving].sum())
        for who in ("models", "server"):
            if math.isfinite(guarantee(self.e, self.features, who, "round", 1e-5).epsilon):
                hidden: View = (
                    View("model", n, honest)
                    if self.privacy.adds_noise_on_server
                    else View("sum", n, honest)
                )
                found[message(n) if who == "server" and self.e.channel is None else hidden] = who
        return found

    def _units(
        self, name: str, who: Who, ones: Array, zeros: Array, delta: float
    ) -> Iterator[Game]:
        """The games over single rounds, and over as many rounds as one client takes part in at
        most."""
        units: dict[Unit, int] = {"round": 1, "client": exposure_of(self.e).times}
        for unit, count in units.items():
            whole = [
                each[: len(each) // count * count].reshape(-1, count).sum(axis=1)
                for each in (ones, zeros)
            ]
            if len(whole[0]) >= FEWEST:
                yield _game_result(
                    self.e, self.features, name, who, unit, whole[0], whole[1], delta
                )

    def scores(self, pair: tuple[Array, Array], world: int, games: int, view: View) -> Array:
        """The log-likelihood ratio of the second update against the first, for each round."""
        events = events_in(self.privacy, view, len(self.params))
        zero, one = clipped(self.privacy, np.stack(pair).astype(np.float64), self.e.cohort)
        secret = (
            view.kind == "model" and self.e.attack is None and self.e.cohort < self.e.clients - 1
        )
        # probability of taking part, if participation is secret
        chance = self.e.cohort / self.e.clients if secret else 1.0
        found = np.empty(games)
        for start, seen in self._seen(pair[world], world, games, view, chance):
            without, first, second = (
                log_density(events, view, seen - each) for each in (0.0 * zero, zero, one)
            )
            if chance < 1.0:
                first, second = (
                    np.logaddexp(math.log(chance) + each, math.log1p(-chance) + without)
                    for each in (first, second)
                )
            found[start : start + len(seen)] = second - first
        return found

    def _seen(
        self, update: Array, world: int, games: int, view: View, chance: float
    ) -> Iterator[tuple[int, Array]]:  # fmt: skip
        """What is observed of the target, minus what is known of the others, in pieces: the first
        round, (rows, d)."""
        n, d = 1 if view.kind == "message" else self.e.cohort, len(self.params)
        step = max(1, PIECE // (n * d))
        there = stream(self.seed, "audit", "there", world).uniforms(games) < chance
        for start in range(0, games, step):
            stop = min(start + step, games)
            sent = np.zeros((stop - start, n, d), np.float32)
            sent[there[start:stop], 0] = update
            clients = np.arange(start * n, stop * n)
            privatize(self.privacy, sent.reshape(-1, d), clients, self.e.cohort, self.seed, world)
            if view.kind == "message":
                yield start, sent[:, 0].astype(np.float64)
            # a plain sum, independent of malicious clients
            elif self.e.channel is None and not self.privacy.adds_noise_on_server:
                honest = np.flatnonzero(~self.malicious[: self.arriving])
                yield (
                    start,
                    np.einsum(
                        "n,gnd->gd", self.weights[honest] / self.weights[0], sent[:, honest]
                    ),
                )
            else:
                yield (
                    start,
                    np.stack(
                        [self._released(rows, start + i, world) for i, rows in enumerate(sent)]
                    ),
                )

    def _released(self, sent: Array, i: int, world: int) -> Array:
        """The output of one round (of the channel, or of the server if it adds noise), minus what
        malicious clients sent."""
        rng, cohort = (
            stream(self.seed, "audit", "round", world, i),
            Cohort(np.arange(len(sent)), sent, self.weights),
        )
        if self.e.attack is not None and self.e.attack.rewrites:
            attacked = MaliciousRewrite(self.e.attack, lambda t, clients: self.malicious[clients])
            cohort = attacked(cohort, self.ask, rng.at(0))
        arrived = cohort.only(np.arange(self.arriving))
        malicious = self.malicious[: self.arriving]
        total, known = _summed(arrived), _summed(arrived.only(malicious))
        if self.e.channel is not None:
            carried = Delivery(channel=self.e.channel).carried(arrived, self.ask, rng.at(1))
            total = carried.updates[0] * carried.weights[0]
        if self.privacy.adds_noise_on_server:
            got = arrived if self.e.channel is None else carried
            state = self.server.init(self.params)
            moved = self.server.step(state, got, rng.at(2)).params
            total = moved / self.gain * got.weights.sum()
        return (total - known) / self.weights[0]

    @cached_property
    def server(self) -> Server:
        return Server(self.e.device_learner, self.e.aggregator, SGD(), self.privacy)

    @cached_property
    def gain(self) -> float:
        """The factor by which the rule scales a mean in its first round."""
        bare = replace(self.server, privacy=None)
        one = Cohort(np.array([-1]), np.ones((1, len(self.params))), np.ones(1))
        return float(bare.step(bare.init(0.0 * self.params), one, stream(0)).params[0])

    def last_bits(self, world: int, games: int) -> Array:
        """The scores of a game in which the target sends 0, or a tiny number, while all others
        send 0.2. A score is how many bits after the point the sum needs."""
        scores, rows = np.empty(games), np.full((self.e.cohort, len(self.params)), 0.2, np.float32)
        rows[0] = 0.0
        rows[0, 0] = world * FINEST
        for i in range(games):
            sent = rows.copy()
            privatize(
                self.privacy,
                sent,
                np.arange(len(rows)),
                len(rows),
                self.seed,
                10**6 + 2 * i + world,
            )
            words = round(float(self._released(sent, i, world)[0] * self.weights[0]) * 2**40)
            scores[i] = -(words & -words).bit_length()
        return scores


def _summed(cohort: Cohort) -> Array:
    return np.einsum("n,nd->d", cohort.weights, cohort.updates.astype(np.float64))


def _rewards(
    e: Experiment, privacy: Privatizer, features: int, games: int, delta: float
) -> Iterator[Game]:
    """The game between two rewards: reported once (an interaction), or in every search of a
    round."""
    sent = np.empty((2, games, e.sessions), np.int64)
    for world, i in np.ndindex(2, games):
        rng = stream(1, "audit", "reward", world, i)
        sent[world, i] = [
            privacy.on_reward(world, e.learner.reward_levels, rng.at(s)) for s in range(e.sessions)
        ]
    zeros, ones = (sent == 1).astype(float) - (sent == 0)
    yield _game_result(
        e, features, "two rewards", "server", "interaction", ones[:, 0], zeros[:, 0], delta
    )
    yield _game_result(
        e, features, "two rewards", "server", "round", ones.sum(axis=1), zeros.sum(axis=1), delta
    )


def _remembered(
    e: Experiment, privacy: Privatizer, data: Dataset, games: int, delta: float
) -> Iterator[Game]:
    """The game in which the first round of one client is replaced, which changes all later
    messages through its device memory. The server sends the same weights in every round, and knows
    the messages of both worlds except for the noise."""
    histories, view = two_histories(e, data), message(e.cohort)
    events = events_in(privacy, view, histories.shape[2])
    bare = [clipped(privacy, each.astype(np.float64), e.cohort) for each in histories]
    scores = np.zeros((2, games))
    for world, history in enumerate(histories):
        for t, update in enumerate(history):
            sent = np.tile(update, (games, 1))
            privatize(privacy, sent, np.arange(games), e.cohort, 1, 2 * t + world)
            first, second = (
                log_density(events, view, sent.astype(np.float64) - each[t]) for each in bare
            )
            scores[world] += second - first
    yield _game_result(
        e, data.width, "first round replaced", "server", "round", scores[1], scores[0], delta
    )


def narrowed(data: Dataset, features: int) -> Dataset:
    """The same documents with only their first features."""
    storage = np.where(np.arange(data.storage.shape[1]) < features, data.storage, np.float32(0.0))
    return replace(data, storage=storage, width=features, names=None)


def two_histories(e: Experiment, data: Dataset) -> Array:
    """The updates of a device in each round without noise, (2, rounds, d). In the second world its
    user clicks on documents that are not relevant, in round 0 only."""
    learner, honest = e.device_learner, iid(data, e.users, 1, e.sessions)
    other = iid(data, click_models.build("Cascade(kind='poison')"), 1, e.sessions)
    params = e.ranker.init(data.width, stream(e.seed, "init"))
    found = np.empty((2, e.rounds, len(params)), np.float32)
    for world in (0, 1):
        memory = learner.remembered(e.ranker, params)
        for t in range(e.rounds):
            population = other if world == 1 and t == 0 else honest
            user, rng = (
                SimulatedUser(population, 0, stream(e.seed, "user", 0, t)),
                stream(e.seed, "ranking", 0, t),
            )
            learned = learner.learn(
                e.ranker, params, memory, user, rng, t, lambda which, values, session: which
            )
            found[world, t], _, memory = learned
    return found
