"""The study of device search: what a person gets from a device that learns, alone or with others.

The queries of every device are split in halves, by the seed. A simulated person searches the
training half in random order, and clicks by a cascade model. The device shows the lists that its
guard decides, and learns from each search. Two things are measured after 10, 20, 50 and 100
searches of each device: nDCG@10 of its own ranker on the held-out half, and nDCG@10 of the lists
shown so far minus that of BM25's lists for the same searches. Relevant documents that are no
candidates count in the ideal list.

Only the person is simulated. The rest is the code of devices and servers: the steps of the
learner, the guard, `Client`, `Server` and `federate`. Settings were fixed on the bed `tuning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.baselines.lambda_mart import LambdaMART
from foltr.components.baselines.ranking_svm import RankingSVM
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.optimizers.sgd import SGD
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core import Answers, Array, Ask, ClickModel, Cohort, Observed, Show
from foltr.core.errors import did_you_mean, require
from foltr.core.federation import DIRECTLY, Client, Delivery, Server, State, federate
from foltr.core.metrics import DEPTH, dcg
from foltr.core.seeds import key, stream
from foltr.core.stepwise import LearnsStepwise, Start
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.protocols import Baseline
from foltr.device.guard import Guard, by_bm25, click_order, mixed, winner
from foltr.device.learning import ALONE, GUARD, PRIOR, START, WATCHED, as_it_is
from foltr.device.searching import NAMES
from foltr.device.study_data import Bed, Device, HeldOut, JudgedQuery, dealt, halves
from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of

AFTER = (10, 20, 50, 100)  # searches of each device after which results are measured
KINDS: tuple[Literal["perfect", "navigational", "informational"], ...]
KINDS = ("perfect", "navigational", "informational")
CLICKS = {kind: Cascade(kind) for kind in KINDS}
SHARED = PDGD(lr=0.1, explore=False, sessions=10)  # devices send after 10 searches
PERSONAL = Personal(SHARED, pull=0.05)
IN_TWO_ROUNDS = Personal(replace(SHARED, sessions=50), pull=0.2)  # each round costs privacy
CLIP = 2.0  # of updates that get noise
CLIPS = (0.25, 0.5, 1.0, 2.0, 4.0)  # those that were tried on `tuning`
VERSION = 3  # of results: whoever changes what a method or the guard does must raise it


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
    """A device in a run: who searches on it, and what its ranker is measured on."""

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
class Run:
    """What a method is run on."""

    bed: Bed
    clicks: ClickModel
    seed: int

    def places(self, sessions: int, guard: Guard = GUARD, parts: int = 1) -> list[Place]:
        """The devices before their first search. `parts` > 1: each device of the bed is that many,
        which share its training queries and are measured on the same held-out queries."""
        found = []
        for device in self.bed.devices:
            training, held_out = halves(device, self.seed)
            for each in dealt(training, parts) if parts > 1 else (training,):
                seed = key(self.seed, "device", each.name)
                found.append(Place(Person(each, self.clicks, guard, seed, sessions), held_out))
        return found


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was measured: after how many searches, for each device.

    Fields
        devices: their names (n)
        held_out: nDCG@10 of each device's ranker on its held-out queries (n,); after 0 searches if
            the method does not learn from them
        gained: nDCG@10 of the lists shown so far minus that of BM25's lists (n,)
        epsilon: of all that one device sends, at delta = 1e-5; None without noise"""

    devices: tuple[str, ...]
    held_out: Mapping[int, Array]
    gained: Mapping[int, Array]
    epsilon: float | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "devices": list(self.devices),
            "held_out": {str(n): values.tolist() for n, values in self.held_out.items()},
            "gained": {str(n): values.tolist() for n, values in self.gained.items()},
            "epsilon": self.epsilon,
        }


def _outcome(places: Sequence[Place], held_out: Mapping[int, Array]) -> Outcome:
    """The outcome of a method by which all devices have searched."""
    gains = np.array([np.subtract(p.person.shown, p.person.plain) for p in places])
    gained = {n: gains[:, :n].mean(axis=1) for n in AFTER}
    return Outcome(tuple(place.name for place in places), held_out, gained)


def untrained(start: Linear = START) -> Array:
    return start.init(len(NAMES), stream(0))


# --- devices alone, and all in one place ---


def bm25(run: Run, start: Linear = START) -> Outcome:
    """A device that has learned nothing, or (`PRIOR`) from public manuals only."""
    places = run.places(1)
    held_out = np.array([place.quality(untrained(start)) for place in places])
    return Outcome(tuple(place.name for place in places), {0: held_out}, {})


def local(run: Run, start: Linear = START, learner: PDGD = ALONE) -> Outcome:
    """Each device learns alone, as `LocalRanker` does without a federation."""
    places = run.places(learner.sessions)
    found = [one_learner([place], start, learner) for place in places]
    return _outcome(places, {n: np.concatenate([each[n] for each in found]) for n in AFTER})


def pooled(run: Run) -> Outcome:
    """One learner sees the searches of all devices, in turn. Nothing is private."""
    places = run.places(ALONE.sessions)
    return _outcome(places, one_learner(places))


def one_learner(
    places: Sequence[Place], ranker: Linear = START, learner: LearnsStepwise = ALONE
) -> dict[int, Array]:
    """nDCG@10 on the held-out queries of each device, of a learner that sees the searches of all
    of them. Its epochs are those of `LocalRanker.begin_epoch_if_full`."""
    epoch, seed = 0, places[0].person.seed

    def begun(params: Array, memory: Array) -> Start:
        draws = stream(seed, "ranking", epoch)
        return Start(ranker, params, memory, learner.sessions, draws, 0, as_it_is)

    start = begun(untrained(ranker), learner.remembered(ranker, untrained(ranker)))
    sofar, held_out, made = learner.begin(start), {}, 0
    for n in range(1, max(AFTER) + 1):
        for place in places:
            search = place.person.session(partial(learner.show, start, sofar))
            sofar = learner.step(start, sofar, *search)
            made += 1
            if made % learner.sessions == 0:
                update, _, memory = learner.finish(start, sofar)
                epoch += 1
                start = begun(start.params + update, memory)
                sofar = learner.begin(start)
        if n in AFTER:
            now = learner.current(start, sofar)
            held_out[n] = np.array([place.quality(now) for place in places])
    return held_out


# --- federations ---


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


def federated(
    run: Run,
    learner: Personal | PDGD,
    guard: Guard = GUARD,
    parts: int = 1,
    privacy: Gaussian | None = None,
    start: Linear = START,
) -> Outcome:
    """Devices learn together, and rank by what the server and they themselves have learned."""
    places = run.places(learner.sessions, guard, parts)
    models = federation([place.person for place in places], learner, run.seed, privacy, start)
    held_out = {
        n: np.array(
            [
                place.quality(learner.personal(model.params, kept))
                for place, kept in zip(places, model.memory, strict=True)
            ]
        )
        for n, model in models.items()
    }
    return _outcome(places, held_out)


def newcomer(run: Run) -> Outcome:
    """The server's ranker on a device that joins when the others have searched, before its first
    click: each newcomer of the bed in turn."""
    found = []
    for name in run.bed.newcomers:
        places = run.places(PERSONAL.sessions)
        (joins,) = [place for place in places if place.name == name]
        others = [place.person for place in places if place.name != name]
        require(
            bool(others), f"{name} is the only device of {run.bed.name}: it cannot join others"
        )
        models = federation(others, PERSONAL, run.seed)
        found.append([joins.quality(models[n].params) for n in AFTER])
    held_out = dict(zip(AFTER, np.transpose(found), strict=True))
    return Outcome(run.bed.newcomers, held_out, {})


def private(run: Run, devices: int, noise: float | None, clip: float) -> Outcome:
    """About so many devices, which share the bed's training queries. They send twice, with noise
    in shares, and the server sees sums. `noise` is that of `Gaussian`; None for no noise and no
    clipping."""
    parts = max(1, round(devices / len(run.bed.devices)))
    privacy = None if noise is None else Gaussian(noise, clip, "shares")
    found = federated(run, IN_TWO_ROUNDS, GUARD, parts, privacy)
    return replace(found, epsilon=epsilon_of(privacy, len(found.devices)))


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


# --- from labels ---


def from_labels(run: Run, baseline: Baseline) -> Outcome:
    """A ranker trained in one place on the labels of all training queries: a level to compare
    with. It is neither private nor made from clicks."""
    places = run.places(1)
    queries = [query for place in places for query in place.person.device.queries]
    grades = max(device.grades for device in run.bed.devices)
    ranker = baseline.fit(dataset_of(queries, grades), None, run.seed)
    held_out = [place.ndcg(ranker.scores(place.held_out.features)) for place in places]
    return Outcome(tuple(place.name for place in places), {0: np.array(held_out)}, {})


def dataset_of(queries: Sequence[JudgedQuery], grades: int) -> Dataset:
    flat = HeldOut.of([query for query in queries if len(query.labels)])
    storage = np.zeros((len(flat.labels), padded(len(NAMES))), np.float32)
    storage[:, : len(NAMES)] = flat.features
    ids = np.arange(len(flat.ideals)).astype(bytes)
    return Dataset(storage, len(NAMES), flat.labels[None], flat.offsets, grades, ids, "")


METHODS: Mapping[str, partial[Outcome]] = {
    "bm25": partial(bm25),
    "local": partial(local),
    "local-exploring": partial(local, learner=replace(ALONE, explore=True)),
    "fedavg": partial(federated, learner=SHARED),
    "personal": partial(federated, learner=PERSONAL),
    "personal-unguarded": partial(federated, learner=PERSONAL, guard=Guard(on=False)),
    "prior": partial(bm25, start=PRIOR),
    "local-from-prior": partial(local, start=PRIOR),
    "personal-from-prior": partial(federated, learner=PERSONAL, start=PRIOR),
    "newcomer": partial(newcomer),
    "pooled": partial(pooled),
    "ranking-svm": partial(from_labels, baseline=RankingSVM()),
    "lambda-mart": partial(from_labels, baseline=LambdaMART(trees=200, leaves=15)),
    "private-200-no-noise": partial(private, devices=200, noise=None, clip=CLIP),
    "private-200-noise-10": partial(private, devices=200, noise=10.0, clip=CLIP),
    "private-200-noise-20": partial(private, devices=200, noise=20.0, clip=CLIP),
    "private-20-no-noise": partial(private, devices=20, noise=None, clip=CLIP),
    "private-20-noise-10": partial(private, devices=20, noise=10.0, clip=CLIP),
    "private-20-noise-4": partial(private, devices=20, noise=4.0, clip=CLIP),
} | {f"clip-{clip}": partial(private, devices=200, noise=10.0, clip=clip) for clip in CLIPS}
FROM_CLICKS = frozenset(METHODS) - {"bm25", "prior", "ranking-svm", "lambda-mart"}


def settings_of(method: str) -> str:
    """All settings that the results of a method depend on, but for bed, clicks and seed."""
    require(method in METHODS, f"there is no method {method!r}: {did_you_mean(method, METHODS)}")
    common = START, ALONE, SHARED, PERSONAL, IN_TWO_ROUNDS, GUARD
    return f"version {VERSION}, {common!r}, {METHODS[method].keywords!r}"
