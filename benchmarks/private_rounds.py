"""What privacy costs: whole rounds of 1000 clients x 4 searches (MSLR shape, linear ranker) with
each mechanism, over the same rounds without one, measured alternately in one process.

Run: python benchmarks/private_rounds.py. It works with earlier commits, too: run it in the
environment of each, and compare the ratios."""

import os

for library in ("OPENBLAS", "MKL", "OMP"):  # before NumPy
    os.environ[f"{library}_NUM_THREADS"] = "1"

import json
import time

import numpy as np

from foltr.core.compiled import using
from foltr.core.federation import Server, federate
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.experiment import Experiment
from foltr.simulation.engines.twins import KERNELS
from foltr.simulation.runs.setup import delivery_of, engine_of, population_of

REPEATS, ROUNDS = 40, 3
SUM = {"channel": "SecureSum()"}
CASES = {
    "Laplace": {"privacy": "Laplace(epsilon=1.0, clip=0.1)"},
    "Gaussian, client": {"privacy": "Gaussian(noise=5.0, clip=0.1)"},
    "Gaussian, shares, secure sum": {
        "privacy": "Gaussian(noise=20.0, clip=0.1, where='shares')",
        **SUM,
    },
    "Gaussian, server": {"privacy": "Gaussian(noise=5.0, clip=0.1, where='server')"},
    "GammaShares, secure sum": {"privacy": "GammaShares(epsilon=1.2, sensitivity=3.0)", **SUM},
}


def rounds(e: Experiment):
    """A function that makes some rounds of the experiment."""
    data = e.data.load("train")
    params = e.ranker.init(data.width, stream(e.seed, "init")).astype(np.float64)
    population = population_of(e, data)
    threads = Threads(1)
    engine = engine_of(e, population, params, threads, "local")
    server = Server(e.device_learner, e.aggregator, e.optimizer, e.privacy)
    delivery, everybody = delivery_of(e, population), np.arange(e.clients)

    def made() -> float:
        began = time.process_time()
        with threads.running():
            state = server.init(params)
            federate(
                server,
                engine,
                state,
                ROUNDS,
                lambda t: everybody,
                e.seed,
                lambda *seen: None,
                delivery,
            )
        return time.process_time() - began

    made()
    return made


@using(KERNELS)
def main() -> None:
    common = {
        "data": "Synthetic(shape='MSLR', queries=2000)",
        "clients": 1000,
        "learner": "PDGD(sessions=4)",
    }
    bare = rounds(Experiment(**common))
    found = {}
    for name, fields in CASES.items():
        private = rounds(Experiment(**common, **fields))
        times = np.array([(bare(), private()) for _ in range(REPEATS)])
        found[name] = round(float(np.median(times[:, 1]) / np.median(times[:, 0])), 3)
        once = np.median(times[:, 0]) / ROUNDS * 1e3
        print(f"{name:<32}{found[name]:.3f} times a bare round ({once:.1f} ms)", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
