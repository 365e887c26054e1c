"""The study of device search: what a person gets from a device that learns, alone or with others.

`foltr.device.demo.simulated` says what is simulated. Two things are measured after 10, 20, 50 and
100 searches of each device: nDCG@10 of its own ranker on the held-out half of the queries, and
nDCG@10 of the lists shown so far minus that of BM25's lists for the same searches. Settings were
fixed on the bed `tuning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from device_study_data import Bed

from foltr.components.baselines.lambda_mart import LambdaMART
from foltr.components.baselines.ranking_svm import RankingSVM
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core import Array, ClickModel
from foltr.core.errors import did_you_mean, require
from foltr.core.seeds import stream
from foltr.core.stepwise import LearnsStepwise, Start
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.protocols import Baseline
from foltr.device.demo import simulated
from foltr.device.demo.simulated import (
    AFTER,
    CLIP,
    IN_TWO_ROUNDS,
    Crowd,
    HeldOut,
    JudgedQuery,
    Place,
    federation,
    together,
    untrained,
)
from foltr.device.guard import Guard
from foltr.device.learning import ALONE, GUARD, PRIOR, START, as_it_is
from foltr.device.searching import NAMES

KINDS: tuple[Literal["perfect", "navigational", "informational"], ...]
KINDS = ("perfect", "navigational", "informational")
CLICKS = {kind: Cascade(kind) for kind in KINDS}
SHARED = PDGD(lr=0.1, explore=False, sessions=10)  # devices send after 10 searches
PERSONAL = Personal(SHARED, pull=0.05)
CLIPS = (0.25, 0.5, 1.0, 2.0, 4.0)  # those that were tried on `tuning`
VERSION = 3  # of results: whoever changes what a method or the guard does must raise it


@dataclass(frozen=True, eq=False)
class Run:
    """What a method is run on."""

    bed: Bed
    clicks: ClickModel
    seed: int

    @property
    def crowd(self) -> Crowd:
        return Crowd(self.bed.devices, self.clicks, self.seed)


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


# --- devices alone, and all in one place ---


def bm25(run: Run, start: Linear = START) -> Outcome:
    """A device that has learned nothing, or (`PRIOR`) from public manuals only."""
    places = run.crowd.places(1)
    held_out = np.array([place.quality(untrained(start)) for place in places])
    return Outcome(tuple(place.name for place in places), {0: held_out}, {})


def local(run: Run, start: Linear = START, learner: PDGD = ALONE) -> Outcome:
    """Each device learns alone, as `LocalRanker` does without a federation."""
    places = run.crowd.places(learner.sessions)
    found = [one_learner([place], start, learner) for place in places]
    return _outcome(places, {n: np.concatenate([each[n] for each in found]) for n in AFTER})


def pooled(run: Run) -> Outcome:
    """One learner sees the searches of all devices, in turn. Nothing is private."""
    places = run.crowd.places(ALONE.sessions)
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


def federated(
    run: Run, learner: Personal | PDGD, guard: Guard = GUARD, start: Linear = START
) -> Outcome:
    """Devices learn together, and rank by what the server and they themselves have learned."""
    places = run.crowd.places(learner.sessions, guard)
    return _outcome(places, together(places, learner, run.seed, start=start))


def newcomer(run: Run) -> Outcome:
    """The server's ranker on a device that joins when the others have searched, before its first
    click: each newcomer of the bed in turn."""
    found = []
    for name in run.bed.newcomers:
        places = run.crowd.places(PERSONAL.sessions)
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
    """About so many devices, which share the bed's training queries and send noise in shares."""
    found = simulated.private(run.crowd, devices, noise, clip)
    return replace(_outcome(found.places, found.held_out), epsilon=found.epsilon)


# --- from labels ---


def from_labels(run: Run, baseline: Baseline) -> Outcome:
    """A ranker trained in one place on the labels of all training queries: a level to compare
    with. It is neither private nor made from clicks."""
    places = run.crowd.places(1)
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
