"""Does a round grow gracefully? One session each for 10^3 .. 10^6 clients on the MQ2007 shape:
time and memory.

Run: python benchmarks/scale.py. Ends with one line of JSON: by number of clients, interactions per
second of a whole round (collect, aggregate, step) and the most memory in MB beyond the data set.
"""

import json
import resource
import time

import numpy as np
from speed import made

from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core.compiled import using
from foltr.core.federation import Server, federate
from foltr.core.system.process import Threads
from foltr.core.world.population import iid
from foltr.simulation.engines.local import Local
from foltr.simulation.engines.twins import KERNELS


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_round(data, clients: int) -> float:
    learner, ranker = PDGD(sessions=1), Linear()
    population = iid(data, Cascade(kind="navigational"), clients, 1)
    engine = Local(
        learner, ranker, population, 1, np.empty((clients, 0), np.float32), threads=Threads(1)
    )
    server = Server(learner, Mean(), SGD())
    begun = time.thread_time()
    federate(
        server,
        engine,
        server.init(np.zeros(data.width)),
        1,
        lambda t: np.arange(clients),
        1,
        lambda *_: None,
    )
    return time.thread_time() - begun


@using(KERNELS)
def main() -> None:
    data = made("MQ2007", 1017)
    one_round(data, 10)  # compiles
    before, rows = peak_mb(), {}
    for clients in (10**3, 10**4, 10**5, 10**6):
        seconds = min(one_round(data, clients) for _ in range(3))
        rows[clients] = {
            "seconds": round(seconds, 5),
            "interactions_per_s": round(clients / seconds),
            "mb_beyond_data": round(peak_mb() - before),
        }
        print(f"{clients:>9,} clients: {rows[clients]}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
