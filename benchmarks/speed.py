"""How fast a round is, as ratios measured in one process: over the debug engine, of the read-only
limit, whole rounds, small rounds.

Run: python benchmarks/speed.py [SHAPE ...]. One thread but where it says two. Ends with one line
of JSON: interactions_per_s of the local engine; over_debug, that over the debug engine's;
of_limit, that over a pass that only reads the same query blocks; round_adds, what aggregation,
recording and evaluation every 10 rounds add to it; privacy_adds, what noise shares of 1000 clients
add to the collecting of a round.

Rows "CLIENTS x SESSIONS": rounds per second with Mean, and the share of the bare kernel that whole
rounds keep (learn, aggregate, step, record; in stretches, as `foltr run` makes them) with Mean,
Krum and Gated: the time per search of one compiled call that makes as many searches, over that of
the rounds. one_by_one: the same share with Mean when `federate` makes each round.

Networks: gflops are float32 operations of the forward pass (2 x documents x features x hidden
units) over the time of a whole search; products_gflops the same over the time of the first layer
alone; peak_gflops those of a product of two 1024 x 1024 matrices by NumPy, on one thread.
products_us, activation_us and rest_us: how the time of a search divides."""

import os

# before NumPy: the debug engine's matrix products count as one thread too
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numba
import numpy as np

from foltr.components.aggregators.gated import Gated
from foltr.components.aggregators.krum import Krum
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.core import Ask
from foltr.core.compiled import using
from foltr.core.federation import DIRECTLY, Participants, Server, federate
from foltr.core.metrics import DEPTH
from foltr.core.seeds import key, stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.population import iid
from foltr.kernels.draws import below, uniform
from foltr.kernels.hidden_layer import SIGMOID, activate, products
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local
from foltr.simulation.engines.stretch import Stretch, parts_of
from foltr.simulation.engines.twins import KERNELS
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.columns import Metrics

SHAPES = {
    "MQ2007": (46, 41, 1017),
    "MSLR": (136, 120, 6000),
    "Yahoo": (700, 24, 8000),
    "IstellaS": (220, 103, 5000),
}
CLIENTS, SESSIONS, REPEATS, PLAIN = 1000, 4, 15, 40
SMALL = (1, 1), (4, 5), (10, 5), (100, 4)
LEARNERS = {
    "linear": (PDGD(sessions=SESSIONS), Linear()),
    "mlp64": (PDGD(sessions=SESSIONS), MLP(hidden=64)),
    "es linear": (ES(sessions=SESSIONS), Linear()),
    "es mlp10": (ES(sessions=SESSIONS), MLP(hidden=10, activation="relu", scale=0.0)),
}
NOTHING = np.empty((CLIENTS, 0), np.float32)


def made(shape: str, queries: int) -> Dataset:
    """Random documents: speed does not depend on what they mean, only on how many there are and
    how long a row is."""
    features, documents, _ = SHAPES[shape]
    lengths = np.maximum(
        2, documents * np.exp(0.4 * stream(0, shape).normals(queries) - 0.08)
    ).astype(np.int64)
    offsets = np.append(0, np.cumsum(lengths))
    storage = np.zeros((offsets[-1], padded(features)), np.float32)
    for i, start in enumerate(range(0, len(storage), 10_000)):
        part = storage[start : start + 10_000, :features]
        part[:] = stream(1, shape, i).uniforms(part.size).reshape(part.shape)
    labels = np.searchsorted(
        [0.5, 0.8, 0.93, 0.98], stream(2, shape).uniforms(len(storage))
    ).astype(np.int8)
    return Dataset(
        storage, features, labels[None], offsets, 5, np.arange(queries).astype(bytes), shape
    )


@numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def read_blocks(X, starts, stops, user_key, t, clients, sessions):
    """The limit: go through the documents that a round must read, and do nothing with them."""
    total = np.float64(0)
    for c in range(clients):
        for s in range(sessions):
            here = below(below(below(user_key, np.uint64(c)), np.uint64(t)), np.uint64(s))
            block = int(uniform(here, np.uint64(0)) * starts.shape[0])
            for row in range(starts[block], stops[block]):
                part = np.float32(0)
                for f in range(X.shape[1]):
                    part += X[row, f]
                total += part
    return total


def best(
    *tasks: Callable[[int], object], repeats: int = REPEATS, clock=time.thread_time
) -> list[float]:
    """The best time of each task, taking turns, so that what disturbs one disturbs all."""
    times = [float("inf")] * len(tasks)
    for t in range(repeats):
        for i, task in enumerate(tasks):
            begun = clock()
            task(t)
            times[i] = min(times[i], clock() - begun)
    return times


def asked(params: np.ndarray, t: int, clients: int = CLIENTS) -> Ask:
    return Ask(params, t, clients)


def measured(shape: str, learner: PDGD | ES, ranker: Linear | MLP) -> dict[str, float]:
    train, test = made(shape, SHAPES[shape][2]), made(shape, SHAPES[shape][2] // 3)
    everybody = np.arange(CLIENTS)
    population = iid(train, Cascade(kind="navigational"), CLIENTS, SESSIONS)
    params = ranker.init(train.width, stream(3))
    params = params + (0.3 * stream(4).normals(len(params))).astype(np.float32) * (
        ranker == Linear()
    )
    local = Local(learner, ranker, population, 1, NOTHING, threads=Threads(1))
    debug = Debug(learner, ranker, population, 1, NOTHING)
    user_key = np.uint64(key(1, "user"))
    local.collect(asked(params, 0), everybody)
    read_blocks(train.storage, population.starts, population.stops, user_key, 0, 1, 1)
    fast, limit = best(
        lambda t: local.collect(asked(params, t), everybody),
        lambda t: read_blocks(
            train.storage, population.starts, population.stops, user_key, t, CLIENTS, SESSIONS
        ),
    )
    (slow,) = best(lambda t: debug.collect(asked(params, t, PLAIN), everybody[:PLAIN]), repeats=3)
    rate, bytes_read = (
        CLIENTS * SESSIONS / fast,
        CLIENTS * SESSIONS * train.storage.nbytes / train.queries,
    )
    row = {
        "interactions_per_s": round(rate),
        "over_debug": round(rate / (PLAIN * SESSIONS / slow), 1),
        "of_limit": round(limit / fast, 3),
        "limit_gb_per_s": round(bytes_read / limit / 1e9, 1),
        "round_adds": round(whole_rounds(local, test, ranker, params) - 1.0, 3),
    }
    if shape == "MQ2007":
        row["two_threads"] = round(two_threads(local, params, everybody), 2)
    if isinstance(ranker, MLP) and ranker.activation == "sigmoid":
        row |= network_parts(shape, ranker.hidden, 1.0 / rate)
    if learner == PDGD(sessions=SESSIONS):
        row["privacy_adds"] = round(with_shares(local, params, everybody) - 1.0, 3)
    return row


def with_shares(local: Local, params: np.ndarray, everybody: np.ndarray) -> float:
    """The time of collecting a round with noise shares, over that of the same round without."""
    privacy = GammaShares(epsilon=1.2, sensitivity=3.0)
    noisy = Local(
        local.learner, local.ranker, local.population, 1, NOTHING, privacy, threads=local.threads
    )
    noisy.collect(asked(params, 0), everybody)
    bare, private = best(
        lambda t: local.collect(asked(params, t), everybody),
        lambda t: noisy.collect(asked(params, t), everybody),
    )
    return private / bare


def whole_rounds(local: Local, test: Dataset, ranker: Linear | MLP, params: np.ndarray) -> float:
    """The time of a round with all that belongs to it and a tenth of an evaluation, over that of
    collecting its updates. Taken apart and in turns, because ten rounds in a row meet more of what
    else the machine does."""
    tables = local.population.tables(DEPTH)
    assert tables is not None
    evaluate = Evaluator(ranker, test, ((1.0, tables[0][0]),), "skip", 1, local.threads)
    server, metrics, everybody = (
        Server(local.learner, Mean(), SGD()),
        Metrics(),
        np.arange(CLIENTS),
    )
    start = server.init(params)

    def whole(t: int) -> None:
        def record(state, cohort, observed):
            metrics.add_round(cohort, observed)

        federate(server, local, replace(start, t=t), t + 1, lambda t: everybody, 1, record)

    whole(0)
    evaluate(params)
    bare, round_, evaluation = best(
        lambda t: local.collect(asked(params, t), everybody),
        whole,
        lambda t: metrics.evaluate(t, evaluate(params)),
    )
    return (round_ + evaluation / 10) / bare


def small_rounds(shape: str, clients: int, sessions: int) -> dict[str, float]:
    """Whole rounds beside the kernel alone."""
    learner, data = PDGD(sessions=sessions), made(shape, SHAPES[shape][2])
    params = (0.3 * stream(4).normals(data.width)).astype(np.float32)
    rounds = max(5, 20_000 // (clients * sessions))

    def engine_of(n: int) -> Local:
        population = iid(data, Cascade(kind="navigational"), n, sessions)
        return Local(
            learner, Linear(), population, 1, np.empty((n, 0), np.float32), threads=Threads(1)
        )

    local, all_at_once = engine_of(clients), engine_of(clients * rounds)
    everybody, choose = np.arange(clients * rounds), Participants(np.arange(clients), 1.0, 1)

    def bare(t: int) -> None:
        all_at_once.collect(asked(params, t, clients * rounds), everybody)

    def whole(rule: Mean | Krum | Gated, singly: bool = False) -> Callable[[int], object]:
        server, metrics = Server(learner, rule, SGD(lr=1e-3)), Metrics()
        record = lambda state, sent, observed: metrics.add_round(sent, observed)  # noqa: E731
        parts = parts_of(server, local, choose, DIRECTLY, 1, data.width)
        assert parts is not None
        # the first round by definition: there a rule gets to know the clients
        start = federate(server, local, server.init(params), 1, choose, 1, record)
        stretch = Stretch(parts)

        def make(t: int) -> None:
            if singly:
                federate(server, local, start, 1 + rounds, choose, 1, record)
            else:
                _, seen = stretch.advance(start, rounds)
                assert len(seen) == rounds
                metrics.add_rounds(seen)

        return make

    rules: dict[str, Mean | Krum | Gated] = {"mean": Mean()}
    if clients > 1:
        rules |= {"krum": Krum(malicious=clients // 5), "gated": Gated()}
    tasks = {name: whole(rule) for name, rule in rules.items()}
    tasks["one_by_one"] = whole(Mean(), singly=True)
    for task in (bare, *tasks.values()):
        task(0)
    alone, *times = best(bare, *tasks.values(), repeats=25)
    row = {"rounds_per_s": round(rounds / times[0])}
    return row | {name: round(alone / time, 3) for name, time in zip(tasks, times, strict=True)}


@numba.njit(nogil=True, error_model="numpy")
def only_products(X, W, Z, n, times):
    """The first layer of searches on lists of n documents."""
    none = np.empty(0, np.int32)
    for i in range(times):
        products(X, none, i * n % (X.shape[0] - n), n, W, Z)


@numba.njit(nogil=True, error_model="numpy")
def only_activation(before, Z, b, A, bits, n, times):
    for _ in range(times):
        for i in range(n):
            for h in range(b.shape[0]):
                Z[i, h] = before[i, h]
        activate(Z, n, b, SIGMOID, A, bits)


def network_parts(shape: str, hidden: int, search: float) -> dict[str, float]:
    """What a search with a network is made of; `search` is its time in seconds."""
    data, (_, n, _), times = made(shape, 300), SHAPES[shape], 2000
    width = data.storage.shape[1]
    W = stream(5).normals(hidden * width).reshape(hidden, width).astype(np.float32)
    before = stream(6).normals(n * hidden).reshape(n, hidden).astype(np.float32)
    Z, A, b = np.empty_like(before), np.empty_like(before), np.zeros(hidden, np.float32)
    bits, square = np.empty(n * hidden, np.int32), np.ones((1024, 1024), np.float32)
    tasks = (
        lambda t: only_products(data.storage, W, Z, n, times),
        lambda t: only_activation(before, Z, b, A, bits, n, times),
        lambda t: square @ square,
    )
    for task in tasks:
        task(0)
    layer, activation, product = best(*tasks)
    operations = 2 * n * data.width * hidden
    microseconds = {"products": layer / times * 1e6, "activation": activation / times * 1e6}
    rest = search * 1e6 - sum(microseconds.values())
    return {
        "gflops": round(operations / search / 1e9, 1),
        "products_gflops": round(operations * times / layer / 1e9, 1),
        "peak_gflops": round(2 * 1024**3 / product / 1e9, 1),
        **{f"{name}_us": round(value, 2) for name, value in microseconds.items()},
        "rest_us": round(rest, 2),
    }


def two_threads(local: Local, params: np.ndarray, everybody: np.ndarray) -> float:
    """Wall time of one thread over that of two."""
    pair = Local(local.learner, local.ranker, local.population, 1, NOTHING, threads=Threads(2))
    with pair.threads.running():
        one, two = best(
            lambda t: local.collect(asked(params, t), everybody),
            lambda t: pair.collect(asked(params, t), everybody),
            repeats=40, clock=time.perf_counter,
        )  # fmt: skip
    return one / two


@using(KERNELS)
def main() -> None:
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for shape in sys.argv[1:] or SHAPES:
        rows[shape] = {}
        for name, (learner, ranker) in LEARNERS.items():
            rows[shape][name] = measured(shape, learner, ranker)
            told = ", ".join(f"{what} {value:,}" for what, value in rows[shape][name].items())
            print(f"{shape:9} {name:9} {told}", flush=True)
        for clients, sessions in SMALL:
            name = f"{clients} x {sessions}"
            rows[shape][name] = small_rounds(shape, clients, sessions)
            told = ", ".join(f"{what} {value:,}" for what, value in rows[shape][name].items())
            print(f"{shape:9} {name:>9} {told}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
