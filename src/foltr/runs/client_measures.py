"""What clients gain: the final ranker, and those of clients that have their own, measured for each
client."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from foltr.core import Array
from foltr.runs.context import Context
from foltr.simulation.client_evaluation import ClientEvaluator

STEP_SECONDS = 0.2  # from one report of the progress to the next
FIRST_STEP = 16  # clients


def of_clients(
    run: Context, params: Array, memory: Array, clients: Array, told: Callable[[int, int], None]
) -> dict[str, float | None]:
    """Means over clients: the final ranker judged by each client on the queries it holds, and,
    where clients have rankers of their own, each of those by its client and on all held-out
    queries. `told(done, of)` hears how many clients are measured."""
    e, population = run.experiment, run.population
    shared, personal = params.astype(np.float32), memory.shape[1] > 0
    if e.partition.identical_clients and not personal:
        return {}
    measure = ClientEvaluator(run.evaluator(), population, shared)
    everywhere = on_same_data(measure, shared, clients)
    measures = {"own_ndcg@10": mean_known(everywhere)}
    if not personal:
        return measures
    on_test, on_own, done, step = list[float](), list[float](), 0, FIRST_STEP
    while done < len(clients):
        told(done, len(clients))
        begun, some = time.monotonic(), clients[done : done + step]
        rankers = np.stack([e.device_learner.personal(shared, memory[c]) for c in some])
        on_test += measure.on_held_out(rankers)
        on_own += measure.on_own(rankers, some)
        done += len(some)
        spent = max(1e-9, time.monotonic() - begun) / len(some)
        step = max(1, min(4 * step, int(STEP_SECONDS / spent)))
    measures["personal_ndcg@10"] = mean_known(on_test)
    measures["personal_own_ndcg@10"] = mean_known(on_own)
    return measures


def on_same_data(measure: ClientEvaluator, shared: Array, clients: Array) -> list[float]:
    """The shared ranker on what each client holds: once for clients that hold the same."""
    p = measure.population
    ranges = np.stack([p.first[clients], p.last[clients]], axis=1)
    _, one, which = np.unique(ranges, axis=0, return_index=True, return_inverse=True)
    found = measure.on_own(np.tile(shared, (len(one), 1)), clients[one])
    return [found[i] for i in which.ravel().tolist()]


def mean_known(values: list[float]) -> float | None:
    """Over those that are known."""
    there = [value for value in values if not np.isnan(value)]
    return sum(there) / len(there) if there else None
