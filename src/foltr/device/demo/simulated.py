"""Simulated people who search on devices and click, and devices of such people that learn
together.

The queries of every device are split in halves, by a seed. A simulated person searches the
training half in random order, and clicks by a click model. The device shows the lists that its
guard decides, and learns from each search. Its ranker is measured by nDCG@10 on the held-out half;
relevant documents that are no candidates count in the ideal list.

Only the person is simulated. The rest is the code of devices and servers: the steps of the
learner, the guard, `Client`, `Server` and `federate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.optimizers.sgd import SGD
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.rankers.linear import Linear
from foltr.core import Answers, Array, Ask, ClickModel, Cohort, Observed, Show
from foltr.core.errors import require
from foltr.core.federation import DIRECTLY, Client, Delivery, Server, State, federate
from foltr.core.metrics import DEPTH, dcg, discounts, gains
from foltr.core.seeds import Stream, key, stream
from foltr.device.guard import Guard, by_bm25, click_order, mixed, winner
from foltr.device.learning import GUARD, START, WATCHED
from foltr.device.searching import NAMES
from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of

AFTER = (10, 20, 50, 100)  # searches of each device after which results are measured
IN_TWO_ROUNDS = Personal(PDGD(lr=0.1, explore=False, sessions=50), pull=0.2)
CLIP = 2.0  # of updates that get noise


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """A query, as a ranker and a simulated user see it.

    Fields
        features: those of its candidates (m, f) float32
        labels: their grades (m,) int8
        ideal: the largest DCG@10 that all relevant documents allow, candidates or not"""

    features: Array
    labels: Array
    ideal: float


@dataclass(frozen=True, eq=False)
class Device:
    """A device, and the queries that are searched on it.

    Fields
        name: unique among the devices
        grades: labels are 0 .. grades - 1
        queries: all of them
        content: a hash of what they are"""

    name: str
    grades: int
    queries: tuple[JudgedQuery, ...]
    content: str = ""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Queries to measure rankers on, as flat arrays: the documents of query q are the rows
    offsets[q] .. offsets[q + 1].

    Fields
        features, labels: of all documents (N, f), (N,)
        offsets: (q + 1,)
        ideals: the largest DCG@10 of each query (q,)"""

    features: Array
    labels: Array
    offsets: Array
    ideals: Array

    @classmethod
    def of(cls, queries: Sequence[JudgedQuery]) -> HeldOut:
        return cls(
            np.concatenate([query.features for query in queries]),
            np.concatenate([query.labels for query in queries]),
            np.cumsum([0, *(len(query.labels) for query in queries)]),
            np.array([query.ideal for query in queries]),
        )

    def ndcg(self, scores: Array, rng: Stream) -> float:
        """Mean nDCG@10 of the rankings by these scores (N,). Ties are broken at random."""
        q = len(self.ideals)
        query = np.repeat(np.arange(q), np.diff(self.offsets))
        order = np.lexsort((rng.words(len(scores)), -scores, query))
        rank = np.arange(len(scores)) - self.offsets[query]
        top = rank < DEPTH
        worth = gains(self.labels[order][top]) * discounts(DEPTH)[rank[top]]
        return float((np.bincount(query[top], worth, q) / self.ideals).mean())


def dealt(device: Device, parts: int) -> tuple[Device, ...]:
    """Several devices that share the queries of one. Where it has fewer queries than there are
    parts, some of them share a query."""
    n = len(device.queries)
    return tuple(
        replace(
            device,
            name=f"{device.name}-{part + 1}",
            queries=device.queries[part % n :: parts],
            content=f"{device.content}, {part} of {parts}",
        )
        for part in range(parts)
    )


def halves(device: Device, seed: int) -> tuple[Device, HeldOut]:
    """A device with one half of its queries, in random order, and the other half to measure on."""
    n = len(device.queries)
    require(n >= 2, f"the device {device.name} has {n} queries, and 2 are needed to split them")
    order = np.argsort(stream(seed, "split", device.name).words(n), kind="stable").tolist()
    training = tuple(device.queries[i] for i in order[n // 2 :])
    held_out = HeldOut.of([device.queries[i] for i in order[: n // 2]])
    return replace(device, queries=training), held_out


@dataclass
class Person:
    """The simulated user of a device, and the guard of that device. The lists that are shown are
    those of `LocalRanker`.

    Fields
        device: what the person searches for, again and again if that is little
        clicks: how the person clicks
        guard: what decides which list is shown
        seed: that of all draws on this device
        sessions: searches of a round
        shown, plain: nDCG@10 of each list that was shown, and of BM25's for the same search
        won: outcomes of mixed lists"""

    device: Device
    clicks: ClickModel
    guard: Guard
    seed: int
    sessions: int
    shown: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    won: list[int] = field(default_factory=list)

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        made = len(self.shown)
        query = self.device.queries[made % len(self.device.queries)]
        k = min(DEPTH, len(query.labels))
        own = show(query.features)[:k] if k else np.zeros(0, np.int64)
        plain = by_bm25(query.features[:, 0], own, stream(self.seed, "plain", made))
        choice = self.guard.choice(self.guard.evidence(self.won[-WATCHED:]), made)
        ranking = plain if choice == "bm25" else own
        if choice == "mixed":
            draws = stream(self.seed, "mixed", made)
            ranking, teams = mixed(own.tolist(), plain.tolist(), draws)
        draws = stream(self.seed, "user", made)
        clicks = self.clicks.clicks(query.labels[ranking], self.device.grades, draws)
        if choice == "mixed":
            self.won.append(winner(teams, click_order(clicks)))
        self.shown.append(dcg(query.labels[ranking]) / query.ideal)
        self.plain.append(dcg(query.labels[plain]) / query.ideal)
        return query.features, ranking, clicks


class Place(NamedTuple):
    """A device in a simulation: who searches on it, and what its ranker is measured on."""

    person: Person
    held_out: HeldOut

    @property
    def name(self) -> str:
        return self.person.device.name

    def ndcg(self, scores: Array) -> float:
        """nDCG@10 of the held-out queries, ranked by these scores."""
        return self.held_out.ndcg(scores, stream(self.person.seed, "ties"))

    def quality(self, params: Array) -> float:
        """nDCG@10 of the held-out queries, ranked by these parameters."""
        return self.ndcg(START.scores(params, self.held_out.features))


@dataclass(frozen=True, eq=False)
class Crowd:
    """Devices, and how people click on them.

    Fields
        devices: those that search
        clicks: how all people click
        seed: of all draws"""

    devices: Sequence[Device]
    clicks: ClickModel
    seed: int

    def places(self, sessions: int, guard: Guard = GUARD, parts: int = 1) -> list[Place]:
        """The devices before their first search. `parts` > 1: each device is that many, which
        share its training queries and are measured on the same held-out queries."""
        found = []
        for device in self.devices:
            training, held_out = halves(device, self.seed)
            for each in dealt(training, parts) if parts > 1 else (training,):
                seed = key(self.seed, "device", each.name)
                found.append(Place(Person(each, self.clicks, guard, seed, sessions), held_out))
        return found


def untrained(start: Linear = START) -> Array:
    return start.init(len(NAMES), stream(0))


@dataclass
class Devices:
    """The engine of a simulated federation: in a round, each person makes `sessions` searches."""

    people: Sequence[Person]
    learner: Personal | PDGD
    privacy: Gaussian | None
    memory: Array  # (devices, numbers)
    notes: tuple[str, ...] = ()

    def collect(self, ask: Ask, clients: Array) -> Answers:
        updates = []
        for id in clients.tolist():
            person = self.people[id]
            draws = stream(person.seed, "ranking"), stream(person.seed, "noise")
            client = Client(id, self.learner, START, self.privacy, *draws)
            update, self.memory[id] = client.step(ask, self.memory[id], person)
            updates.append(update)
        return Answers(clients, Cohort.stack(updates), None)


class Model(NamedTuple):
    """The state of a federation."""

    params: Array  # the server's (d,)
    memory: Array  # what each device keeps (devices, numbers)


def federation(
    people: Sequence[Person],
    learner: Personal | PDGD,
    seed: int,
    privacy: Gaussian | None = None,
    start: Linear = START,
) -> dict[int, Model]:
    """A server and the devices of these people: the state after each of `AFTER` searches."""
    first, everybody = untrained(start), np.arange(len(people))
    memory = np.tile(learner.remembered(start, first), (len(people), 1))
    devices = Devices(people, learner, privacy, memory)
    server = Server(learner, Mean(), SGD(lr=1.0), privacy)
    found: dict[int, Model] = {}

    def record(state: State, sent: Cohort, observed: Observed | None) -> None:
        if (made := state.t * learner.sessions) in AFTER:
            found[made] = Model(state.params.astype(np.float32), devices.memory.copy())

    rounds = max(AFTER) // learner.sessions
    way = DIRECTLY if privacy is None else Delivery(channel=SecureSum())
    federate(server, devices, server.init(first), rounds, lambda t: everybody, seed, record, way)
    return found


def together(
    places: Sequence[Place],
    learner: Personal | PDGD,
    seed: int,
    privacy: Gaussian | None = None,
    start: Linear = START,
) -> dict[int, Array]:
    """Devices learn together, and rank by what the server and they themselves have learned:
    nDCG@10 on the held-out queries of each (n,), after each of `AFTER` searches."""
    models = federation([place.person for place in places], learner, seed, privacy, start)
    return {
        n: np.array(
            [
                place.quality(learner.personal(model.params, kept))
                for place, kept in zip(places, model.memory, strict=True)
            ]
        )
        for n, model in models.items()
    }


class Private(NamedTuple):
    """Devices whose updates get noise.

    Fields
        places: the devices
        held_out: nDCG@10 of their rankers (n,), by searches of each
        epsilon: of all that one device sends, at delta = 1e-5; None without noise"""

    places: Sequence[Place]
    held_out: dict[int, Array]
    epsilon: float | None


def private(crowd: Crowd, devices: int, noise: float | None, clip: float = CLIP) -> Private:
    """About so many devices, which share the training queries of a crowd. They send twice, with
    noise in shares, and the server sees sums. `noise` is that of `Gaussian`; None for no noise and
    no clipping."""
    parts = max(1, round(devices / len(crowd.devices)))
    privacy = None if noise is None else Gaussian(noise, clip, "shares")
    places = crowd.places(IN_TWO_ROUNDS.sessions, parts=parts)
    held_out = together(places, IN_TWO_ROUNDS, crowd.seed, privacy)
    return Private(places, held_out, epsilon_of(privacy, len(places)))


def epsilon_of(privacy: Gaussian | None, devices: int) -> float | None:
    """Epsilon of all that one device sends in `private`, by foltr's ledger."""
    if privacy is None:
        return None
    rounds = max(AFTER) // IN_TWO_ROUNDS.sessions
    planned = Experiment(
        ranker=START, learner=IN_TWO_ROUNDS, privacy=privacy, channel=SecureSum(),
        clients=devices, rounds=rounds,
    )  # fmt: skip
    found = ledger_of(planned, len(NAMES))
    return max(found.guarantee(who, "client").epsilon for who in ("server", "models"))
