"""What clients gain: the final ranker, and those of clients that have their own, measured for each
client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from foltr.core import Array
from foltr.runs.context import Context
from foltr.simulation.client_evaluation import ClientEvaluator
from foltr.world.population import Population

STEP_SECONDS = 0.2  # from one report of the progress to the next
T = TypeVar("T")
FIRST_STEP, MOST_AT_ONCE = 16, 4096  # clients


def of_clients(
    run: Context, params: Array, memory: Array, clients: Array, told: Callable[[int, int], None]
) -> dict[str, float | None]:
    """Means over clients: the final ranker judged by each client on the queries it holds, and,
    where clients have rankers of their own, each of those by its client and on all held-out
    queries. `told(done, of)` is called before each step of a pass over the clients."""
    e, population = run.experiment, run.population
    shared, personal = params.astype(np.float32), memory.shape[1] > 0
    if e.partition.identical_clients and not personal:
        return {}
    measure = ClientEvaluator(run.evaluator(), population, shared)

    def one_for_all(some: Array) -> list[float]:
        return measure.on_own(np.tile(shared, (len(some), 1)), some)

    def own_rankers(some: Array) -> list[tuple[float, float]]:
        rankers = np.stack([e.device_learner.personal(shared, memory[c]) for c in some])
        return list(zip(measure.on_held_out(rankers), measure.on_own(rankers, some), strict=True))

    different, which = holding_different(population, clients)
    found = in_steps(one_for_all, different, told)
    measures = {"own_ndcg@10": mean_known([found[i] for i in which])}
    if personal:
        on_test, on_own = zip(*in_steps(own_rankers, clients, told), strict=True)
        measures["personal_ndcg@10"] = mean_known(list(on_test))
        measures["personal_own_ndcg@10"] = mean_known(list(on_own))
    return measures


def holding_different(p: Population, clients: Array) -> tuple[Array, list[int]]:
    """One client for each range of blocks that is held, and the place of each client's range among
    them."""
    ranges = np.stack([p.first[clients], p.last[clients]], axis=1)
    _, one, which = np.unique(ranges, axis=0, return_index=True, return_inverse=True)
    return clients[one], which.ravel().tolist()


def in_steps(
    work: Callable[[Array], list[T]], clients: Array, told: Callable[[int, int], None]
) -> list[T]:
    """`work` on all clients, some of them at a time."""
    found, step = list[T](), FIRST_STEP
    while len(found) < len(clients):
        told(len(found), len(clients))
        begun, some = time.monotonic(), clients[len(found) : len(found) + step]
        found += work(some)
        spent = max(1e-9, time.monotonic() - begun) / len(some)
        step = max(1, min(4 * step, int(STEP_SECONDS / spent), MOST_AT_ONCE))
    return found


def mean_known(values: list[float]) -> float | None:
    """The mean of the values that are not NaN; None if there are none."""
    there = [value for value in values if not np.isnan(value)]
    return sum(there) / len(there) if there else None
