"""What the two engines are compared on, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import numpy as np
from populations import FEATURES, dataset, lengths_between, varied, with_score_range

from asking import collected
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core import Array, ClickModel
from foltr.core.metrics import ideal_dcg
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population, iid, nobody, with_malicious_model
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local

EPS = float(np.finfo(np.float32).eps)
SEED = 11
SESSIONS = 600  # per case
INFORMATIONAL = Cascade(kind="informational")


@dataclass(frozen=True)
class Case:
    population: Population
    params: Array
    learner: PDGD | FedPer | Personal = field(default_factory=lambda: PDGD(sessions=1))
    ranker: Linear | MLP = field(default_factory=Linear)
    t: int = 0
    malicious: Callable[[int, Array], Array] = nobody

    @property
    def inner(self) -> PDGD:
        return self.learner if isinstance(self.learner, PDGD) else self.learner.learner

    def memory(self) -> Array:
        """What the devices keep: something else on each of them."""
        kept = self.learner.remembered(self.ranker, self.params)
        draws = np.random.default_rng(7).normal(size=(len(self.population.first), len(kept)))
        return (0.5 * draws).astype(np.float32)


@dataclass(frozen=True)
class Comparison:
    sessions: int
    mismatched: int  # sessions of the clients whose lists, clicks or updates differ
    moved: float  # share of clients whose update is not zero
    worst: float  # largest difference of a matching update, in units of what rounding explains


def usual(twins: bool = False, grades: int = 3) -> Dataset:
    return dataset(lengths_between(5, 60), grades, twins=twins)


def weights(scale: float = 1.0) -> Array:
    """Linear parameters; the last one is 0, so that the twins of a data set tie."""
    params = scale * np.random.default_rng(1).normal(size=FEATURES)
    params[-1] = 0.0
    return params.astype(np.float32)


def clicked_by(model: ClickModel, grades: int = 3) -> Case:
    return Case(iid(usual(grades=grades), model, SESSIONS, 1), weights())


def learned_by(learner: PDGD, t: int = 0) -> Case:
    clients = SESSIONS // learner.sessions
    return Case(iid(usual(), INFORMATIONAL, clients, learner.sessions), weights(), learner, t=t)


def on_lists(data: Dataset, scale: float = 1.0, learner: PDGD | None = None) -> Case:
    return Case(iid(data, INFORMATIONAL, SESSIONS, 1), weights(scale), learner or PDGD(sessions=1))


def in_range(spread: float, explore: bool = True) -> Case:
    # BLAS may round one of two equal rows otherwise: then only a sampled list forgives it
    data = usual(twins=explore)
    params = with_score_range(weights(), data, spread)
    return Case(iid(data, INFORMATIONAL, SESSIONS, 1), params, PDGD(sessions=1, explore=explore))


def network(
    ranker: MLP, scale: float = 1.0, learner: PDGD | None = None, data: Dataset | None = None
) -> Case:
    learner, params = learner or PDGD(sessions=1), ranker.init(FEATURES, stream(3, "init"))
    population = iid(
        data or usual(), INFORMATIONAL, SESSIONS // learner.sessions, learner.sessions
    )
    return Case(population, np.float32(scale) * params, learner, ranker)


def unlike_clients(ranker: Linear | MLP) -> Case:
    data = dataset(lengths_between(2, 30), labellings=3)
    models = (Cascade(), Cascade(kind="navigational"), INFORMATIONAL, PositionBased(eta=0.5))
    params = weights() if ranker == Linear() else ranker.init(FEATURES, stream(3, "init"))
    return Case(varied(data, models, SESSIONS // 3), params, PDGD(k=7), ranker, t=3)


def scattered(data: Dataset, clients: int, model: ClickModel = INFORMATIONAL) -> Population:
    """Blocks of any documents in any order: half of each query's, shuffled, mixed with some of the
    next query's; every third block is a whole query, in its own order."""
    rng, offsets = np.random.default_rng(6), data.offsets
    queries = [np.arange(a, b) for a, b in pairwise(offsets)]
    held = []
    for q, own in enumerate(queries):
        mixed = np.append(own[rng.random(len(own)) < 0.5], queries[q - 1][:3])
        held.append(own if q % 3 == 0 else rng.permutation(mixed))
    rows, ends = np.concatenate(held), np.cumsum([len(block) for block in held])
    return replace(
        iid(data, model, clients, 1),
        rows=rows.astype(np.int32),
        starts=np.append(0, ends[:-1]),
        stops=ends,
        ideals=ideal_dcg(data.labels[0][rows], np.append(0, ends)),
        sessions=rng.integers(1, 4, clients),
    )


def every_third(t: int, clients: Array) -> Array:
    return (clients + t) % 3 == 0


def some_lie(ranker: Linear | MLP) -> Case:
    honest = iid(usual(), Cascade(), SESSIONS // 2, 2)
    params = weights() if ranker == Linear() else ranker.init(FEATURES, stream(3, "init"))
    population = with_malicious_model(honest, Cascade(kind="poison"))
    return Case(population, params, PDGD(sessions=2), ranker, t=1, malicious=every_third)


def on_scattered(ranker: Linear | MLP) -> Case:
    params = weights() if ranker == Linear() else ranker.init(FEATURES, stream(3, "init"))
    return Case(scattered(usual(), SESSIONS // 2), params, PDGD(), ranker)


def remembering(learner: FedPer | Personal, ranker: Linear | MLP, t: int = 1) -> Case:
    params = (
        weights()
        if ranker == Linear()
        else np.float32(5.0) * ranker.init(FEATURES, stream(3, "init"))
    )
    population = iid(usual(), INFORMATIONAL, SESSIONS // learner.sessions, learner.sessions)
    return Case(population, params, learner, ranker, t)


FOUR, PULLED = PDGD(sessions=4), PDGD(sessions=4, mu=2.0, max_norm=3.0, decay=0.9)
CUSTOM = Cascade(kind="custom", click=(0.15, 0.3, 0.45, 0.9), stop=(0.0, 0.1, 0.9, 1.0))

CASES: dict[str, Callable[[], Case]] = {
    "perfect": lambda: clicked_by(Cascade()),
    "perfect, 5 grades": lambda: clicked_by(Cascade(), grades=5),
    "navigational, 5 grades": lambda: clicked_by(Cascade(kind="navigational"), grades=5),
    "informational": lambda: clicked_by(INFORMATIONAL),
    "informational, 2 grades": lambda: clicked_by(INFORMATIONAL, grades=2),
    "poison": lambda: clicked_by(Cascade(kind="poison")),
    "position-based": lambda: clicked_by(PositionBased(eta=1.0)),
    "position-based without bias": lambda: clicked_by(PositionBased(eta=0.0), grades=5),
    "custom tables": lambda: clicked_by(CUSTOM, grades=4),
    "lists of 1 to 9": lambda: on_lists(dataset(lengths_between(1, 9))),
    "single documents": lambda: on_lists(dataset([1] * 20)),
    "long lists": lambda: on_lists(dataset(lengths_between(150, 300, queries=10)), scale=3.0),
    "all tied": lambda: on_lists(usual(), scale=0.0),
    "all tied, best first": lambda: on_lists(
        usual(), scale=0.0, learner=PDGD(sessions=1, explore=False)
    ),
    "range 60": lambda: in_range(60),
    "range 80, both sides of the switch": lambda: in_range(80),
    "range 100": lambda: in_range(100),
    "range 1000": lambda: in_range(1000),
    "range 5000": lambda: in_range(5000),
    "range 5000, best first": lambda: in_range(5000, explore=False),
    "nothing to click": lambda: Case(
        iid(dataset([12] * 9, relevant=0.0), Cascade(), SESSIONS, 1), weights()
    ),
    "rare clicks": lambda: Case(
        iid(dataset([12] * 9, relevant=0.03), Cascade(), SESSIONS, 1), weights()
    ),
    "k = 1": lambda: learned_by(PDGD(sessions=1, k=1)),
    "k = 3": lambda: learned_by(PDGD(sessions=1, k=3)),
    "k = 20": lambda: learned_by(PDGD(sessions=1, k=20)),
    "best first": lambda: learned_by(PDGD(sessions=1, explore=False)),
    "shown pairs": lambda: learned_by(PDGD(sessions=1, pairs="shown")),
    "four sessions": lambda: learned_by(PDGD(sessions=4)),
    "max_norm": lambda: learned_by(PDGD(sessions=4, max_norm=2.0)),
    "mu": lambda: learned_by(PDGD(sessions=4, mu=2.0)),
    "decay": lambda: learned_by(PDGD(sessions=4, decay=0.9), t=2),
    "one step per round": lambda: learned_by(PDGD(sessions=4, update="round")),
    "everything at once": lambda: learned_by(
        PDGD(lr=0.5, sessions=4, k=6, decay=0.95, pairs="shown", max_norm=3.5, update="round"), t=1
    ),
    "unlike clients": lambda: unlike_clients(Linear()),
    "sigmoid": lambda: network(MLP(hidden=16)),
    "relu": lambda: network(MLP(hidden=16, activation="relu")),
    "tanh": lambda: network(MLP(hidden=16, activation="tanh")),
    "steep sigmoid": lambda: network(MLP(hidden=16), scale=30.0),
    "steep relu": lambda: network(MLP(hidden=16, activation="relu"), scale=30.0),
    "steep tanh": lambda: network(MLP(hidden=16, activation="tanh"), scale=30.0),
    "odd network, lists of 1 to 9": lambda: network(
        MLP(hidden=5), data=dataset(lengths_between(1, 9))
    ),
    "one hidden unit": lambda: network(MLP(hidden=1, activation="tanh"), scale=3.0),
    "network of zeros": lambda: network(MLP(hidden=8), scale=0.0),
    "network, best first": lambda: network(
        MLP(hidden=16), learner=PDGD(sessions=1, explore=False)
    ),
    "network, four sessions": lambda: network(MLP(hidden=16), scale=5.0, learner=PDGD(sessions=4)),
    "network, max_norm": lambda: network(
        MLP(hidden=16), scale=5.0, learner=PDGD(sessions=4, max_norm=1.0)
    ),
    "network, mu": lambda: network(MLP(hidden=16), scale=5.0, learner=PDGD(sessions=4, mu=2.0)),
    "network, one step per round": lambda: network(
        MLP(hidden=16), scale=5.0, learner=PDGD(sessions=4, update="round")
    ),
    "network, unlike clients": lambda: unlike_clients(MLP(hidden=8)),
    "scattered documents": lambda: on_scattered(Linear()),
    "network, scattered documents": lambda: on_scattered(MLP(hidden=7)),
    "some users lie": lambda: some_lie(Linear()),
    "network, some users lie": lambda: some_lie(MLP(hidden=8)),
    "personal": lambda: remembering(Personal(learner=FOUR, pull=0.2), Linear()),
    "personal, all at once": lambda: remembering(Personal(learner=PULLED, pull=0.5), Linear()),
    "network, personal": lambda: remembering(Personal(learner=FOUR, pull=0.2), MLP(hidden=7)),
    "network, one personal step": lambda: remembering(
        Personal(learner=PDGD(sessions=4, update="round")), MLP(hidden=16, activation="tanh")
    ),
    "personal heads": lambda: remembering(FedPer(learner=FOUR), MLP(hidden=16)),
    "personal heads, all at once": lambda: remembering(
        FedPer(learner=PULLED), MLP(hidden=5, activation="relu")
    ),
}


def rounding(case: Case) -> Array:
    """How far the two engines' updates may lie apart in one client, by float32 rounding alone.

    Adding up to k rows to the parameters one after another rounds each time by half a unit in the
    last place of the largest parameter. A score is a sum of terms of total size S, known to about
    2 S eps on each side; document weights and slopes follow scores with a factor of at most a few,
    and a kernel's e^x is good to 2 eps."""
    learner, ranker, features = case.inner, case.ranker, case.population.data.features
    sessions = case.population.sessions.astype(float)
    own = np.abs(case.memory()).max(axis=0)
    params = np.abs(case.params) + np.append(
        np.zeros(len(case.params) - len(own), np.float32), own
    )
    largest = params.max() + learner.lr
    if isinstance(ranker, MLP):
        w, b, v = ranker._split(params)
        inner = (features @ w.T + b).max()
        size, reach = (
            v.sum() * max(1.0, inner),
            max(1.0, v.max(), inner if ranker.activation == "relu" else 0.0),
        )
    else:
        size, reach = (features @ params).max(), 1.0
    return EPS * sessions * ((learner.k + 3) / 2 * largest + learner.lr * reach * (8 + 8 * size))


@cache
def compared(name: str) -> Comparison:
    return compare(case := CASES[name](), case.learner)


def engines(case: Case, plainly: PDGD | FedPer | Personal) -> tuple[Debug, Local]:
    parts = case.ranker, case.population, SEED
    debug = Debug(plainly, *parts, case.memory(), malicious=case.malicious)
    local = Local(
        case.learner, *parts, case.memory(), threads=Threads(1), malicious=case.malicious
    )
    assert not local.notes  # it is compiled
    return debug, local


def compare(case: Case, plainly: PDGD | FedPer | Personal) -> Comparison:
    """The compiled engine on a case, the plain one with a learner that should be the same."""
    clients, (debug, local) = np.arange(case.population.clients), engines(case, plainly)
    plain, seen = collected(debug, case.params, case.t, clients)
    fast, also_seen = collected(local, case.params, case.t, clients)
    assert (plain.clients == fast.clients).all() and (plain.weights == fast.weights).all()
    apart = np.abs(plain.updates - fast.updates).max(axis=1) / rounding(case)
    kept = np.abs(debug.memory - local.memory).max(axis=1, initial=0.0) / rounding(case)
    apart = np.maximum(apart, kept)
    observed = np.stack([seen.ndcg - also_seen.ndcg, seen.max_rr - also_seen.max_rr])
    differs = (apart > 1.0) | (np.abs(observed) > 1e-9).any(axis=0)
    sessions, moved = case.population.sessions, (plain.updates != 0.0).any(axis=1)
    worst = apart[~differs].max(initial=0.0)
    return Comparison(
        int(sessions.sum()), int(sessions[differs].sum()), float(moved.mean()), float(worst)
    )
