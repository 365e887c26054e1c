"""Several rounds of a simulation in one compiled call: the twin of `federation.federate`.

Rounds of a few clients take less time than Python needs to begin them. A stretch has the same
draws and gives the same bits as `federate`, in pieces of any length. It is for parts that have
twins; `missing` names those that have none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr.core import Array, Engine, Memory
from foltr.core.federation import Delivery, Participants, Server, State
from foltr.core.seeds import key
from foltr.core.world.population import nobody
from foltr.experiment.malicious import Malicious, MaliciousRewrite
from foltr.kernels import frozen, rounds
from foltr.kernels.calls import address_of
from foltr.simulation.engines.local import Local
from foltr.simulation.engines.twins import (
    NoiseTwin,
    PartTwin,
    attack_twin,
    noise_twin,
    numbers,
    optimizer_twin,
    rule_twin,
)

MOST_SEEN = 2**21  # numbers that are observed in one call
KEPT = 2**24  # bytes that devices keep, where some of them take part in a round
SUMMED = 8192  # numbers that NumPy 2.0 adds up at a time; later versions add up more


@dataclass(frozen=True)
class Parts:
    """The parts of a round that a stretch is made of."""

    server: Server
    engine: Local
    choose: Participants
    delivery: Delivery
    seed: int
    dim: int  # parameters of the ranker

    @property
    def adds_noise(self) -> bool:
        """Whether clients add noise to their updates. Rewards are randomised in the kernel of the
        learner instead."""
        return self.server.privacy is not None and not self.engine.learner.reward_levels

    @property
    def noise(self) -> NoiseTwin | None:
        privacy, drawn_by_address = self.server.privacy, self.engine.noise is None
        if privacy is None or privacy.adds_noise_on_server or not drawn_by_address:
            return None
        return noise_twin(privacy, self.choose.count)

    @property
    def attack(self) -> PartTwin | None:
        rewrite = self.delivery.rewrite
        if type(rewrite) is not MaliciousRewrite or self.dim > SUMMED:
            return None
        if self.engine.learner.reward_levels:
            return None  # changed rewards would have to be decoded
        return attack_twin(rewrite.attack, self.choose.count)


def parts_of(
    server: Server, engine: Engine, choose: object, delivery: Delivery, seed: int, dim: int
) -> Parts | None:
    """The parts, if clients are simulated by kernels and chosen as a simulation chooses them."""
    if type(engine) is not Local or engine.twin is None or type(choose) is not Participants:
        return None
    return Parts(server, engine, choose, delivery, seed, dim)


def missing(parts: Parts) -> tuple[str, ...]:
    """What keeps rounds of these parts from being made in stretches, in words: for a note."""
    server, engine, delivery, found = parts.server, parts.engine, parts.delivery, list[object]()
    if delivery.host is not None or rule_twin(server.aggregator) is None:
        found.append(server.aggregator)
    if optimizer_twin(server.optimizer) is None:
        found.append(server.optimizer)
    if parts.adds_noise and parts.noise is None:
        found.append(server.privacy)
    if type(engine.malicious) is not Malicious and engine.malicious is not nobody:
        found.append(engine.malicious)
    if delivery.rewrite is not None and parts.attack is None:
        rewrite = delivery.rewrite
        found.append(rewrite.attack if type(rewrite) is MaliciousRewrite else rewrite)
    if delivery.channel is not None:
        found.append(delivery.channel)
    names = [type(part).__name__ for part in found]
    if delivery.dropout:
        names.append("dropout")
    if not engine.all_search:
        names.append("clients that never search")
    few = parts.choose.count < engine.population.clients
    if few and engine.memory.nbytes > KEPT:  # a stretch copies all of it
        names.append("so much memory of devices of which some take part")
    if engine.population.data.width < 2:  # NumPy adds up a single column in another order
        names.append("a single feature")
    return tuple(names)


class Stretch:
    """Makes rounds of parts of which nothing is `missing`."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.n, self.dim = parts, parts.choose.count, parts.dim
        engine, p = parts.engine, parts.engine.population
        (data, blocks), (tables, *how) = engine.around
        self.given = (data, blocks, tables, *how, engine.keys)
        first, last, honest, sessions = engine.honest[2]
        models, is_malicious = honest.copy(), np.zeros(len(p.first), bool)
        roaming, malicious_key, malicious_count = False, 0, 0
        if type(engine.malicious) is Malicious:
            malicious = engine.malicious
            roaming, malicious_count = malicious.roaming, malicious.count
            malicious_key = key(malicious.seed, "malicious")
            if not roaming:
                is_malicious[malicious.members(0)] = True
                if p.malicious_model is not None:
                    models[malicious.members(0)] = p.malicious_model
        poison = -1 if p.malicious_model is None else p.malicious_model
        self.people = (first, last, models, sessions, honest, poison)
        participation_key = np.uint64(key(parts.choose.seed, "participation"))
        malicious_now = is_malicious, roaming, np.uint64(malicious_key), malicious_count
        self.who = (frozen(parts.choose.pool), participation_key, *malicious_now, p.clients)
        self._scratch()
        self._addresses()

    def _scratch(self) -> None:
        """Arrays that a round fills."""
        n, d, pool, twin = self.n, self.dim, self.parts.choose.pool, self.parts.engine.twin
        assert twin is not None
        longest = max(len(pool), self.parts.engine.population.clients)
        words = np.empty((2, longest), np.uint64)
        self.work = (
            pool[:n].astype(np.int64),
            np.empty(d, np.float32),
            np.empty((n, twin.message), np.uint32),
            np.empty((n, d), np.float32),
            np.empty(d),
            np.empty(n, bool),
            (words[0], words[1], np.empty(longest, np.int64)),
            self.parts.engine.room(),
        )

    def _addresses(self) -> None:
        """Where the kernels of the parts are, and their settings."""
        parts, engine = self.parts, self.parts.engine
        rule = rule_twin(parts.server.aggregator)
        optimizer = optimizer_twin(parts.server.optimizer)
        assert engine.twin is not None and rule is not None and optimizer is not None
        self.optimizer, self.optimizer_settings = optimizer
        clients, sent, payloads, updates, direction, malicious_now, scratch, room = self.work
        ids, weights, remembered = frozen(clients), np.empty(self.n), self._remembered(())
        round_ = sent, engine.keys, 0, ids, 0, self.n, engine.memory
        filled = payloads, updates, np.empty((3, self.n)), room
        learn_at = address_of(engine.twin.kernel, *engine.honest, *round_, *filled)
        self.rule = rule.given
        aggregated = *rule.given, clients, updates, weights, remembered, direction
        rule_at, noise_at, attack_at = address_of(rule.kernel, *aggregated), 0, 0
        none, noise_key = numbers(), np.uint64(key(engine.seed, "privacy"))
        self.noise = (none, none, noise_key)
        if parts.adds_noise and (noise := parts.noise) is not None:
            self.noise = (noise.settings, noise.chances, noise_key)
            noise_at = address_of(noise.kernel, *self.noise, ids, 0, updates)
        attack_key = np.uint64(key(parts.seed, "attack"))
        self.attack = (frozen(np.empty(0, np.int64)), none, attack_key)
        if (attack := parts.attack) is not None:
            self.attack = (*attack.given, attack_key)
            attack_at = address_of(
                attack.kernel, *self.attack, clients, malicious_now, sent, updates
            )
        sample_at, move_at = 0, 0
        _, participation_key, is_malicious, roaming, malicious_key, count, clients_all = self.who
        if roaming or self.n < len(parts.choose.pool):
            sample_at = address_of(rounds.sample, participation_key, clients_all, self.n, scratch)
        if roaming:
            models, honest, poison = self.people[2], *self.people[4:]
            moved = (
                malicious_key,
                clients_all,
                count,
                is_malicious,
                models,
                honest,
                poison,
                scratch,
            )
            move_at = address_of(rounds.move_malicious, sample_at, *moved)
        self.addresses = learn_at, noise_at, attack_at, rule_at, sample_at, move_at

    @property
    def most(self) -> int:
        """The most rounds of one call."""
        return max(1, MOST_SEEN // (3 * self.n))

    def advance(self, state: State, count: int) -> tuple[State, Array]:
        """`count` rounds, `most` at most: the server's state after them, and what was observed in
        each (rounds, 3, n): nDCG, MaxRR and searches of each client. Fewer rounds, or
        none, where `federate` must make the next one."""
        memory = self.parts.engine.memory
        before = memory.copy() if memory.size else memory
        made, after, seen = self._made(state, count)
        if made < len(seen):  # the next round was begun: all rounds before it once more
            memory[...] = before
            made, after, seen = self._made(state, made)
        return after, seen

    def _made(self, state: State, count: int) -> tuple[int, State, Array]:
        remembered, moments = state.optimizer, (np.empty(0), np.empty(0))
        powers = np.empty((count, 2))
        if self.optimizer == rounds.MOMENTS:
            moments, times = (
                (remembered[0].copy(), remembered[1].copy()),
                np.arange(1.0, count + 1),
            )
            for i in range(2):
                powers[:, i] = self.optimizer_settings[1 + i] ** (remembered[2] + times)
        params, seen = state.params.copy(), np.empty((count, 3, self.n))
        kept = self._remembered(state.aggregator)
        now = (state.t, params, self.parts.engine.memory, kept, *moments)
        fixed = self.addresses, self.given, self.people, self.who
        optimizer = self.optimizer, self.optimizer_settings, powers
        parts, done = (self.noise, self.attack, self.rule, optimizer), 0

        def work(first: int, last: int) -> None:
            nonlocal done
            done = rounds.make_rounds(*fixed, *parts, now, self.work, seen)

        self.parts.engine.threads.share(1, work)
        if self.optimizer == rounds.MOMENTS:
            remembered = *moments, remembered[2] + float(done)
        rule = kept[: len(state.aggregator)] if state.aggregator else ()
        after = replace(
            state, params=params, aggregator=rule, optimizer=remembered, t=state.t + done
        )
        return done, after, seen

    def _remembered(self, memory: Memory) -> Memory:
        """A copy of what the rule remembers, in the shape that all rules have here."""
        if memory:
            return tuple(part.copy() for part in memory)
        return np.empty(0, np.int64), np.empty((0, self.dim)), np.empty((0, 4)), np.empty(0)
