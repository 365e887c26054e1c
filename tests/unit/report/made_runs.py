"""Finished runs that nobody ran: studies of any shape, without a folder."""

from pathlib import Path
from zlib import crc32

import numpy as np

from foltr.report.results import Recorded, Runs
from foltr.simulation.runs.columns import Metrics

KINDS = ("perfect", "navigational", "informational")
BASE = {
    "data": "MQ2008(fold=1)",
    "users": "Cascade(kind='perfect')",
    "ranker": "Linear()",
    "learner": "PDGD(lr=0.1, sessions=4)",
    "clients": 100,
    "rounds": 20,
    "empty": "skip",
    "seed": 1,
}


def made_run(final=0.5, method=None, environment=None, curve=None, every=10, **config):
    """A run with that final nDCG@10 (or those final measures), and curves of as many rounds as its
    config has."""
    config = {**BASE, **config}
    rounds = config["rounds"]
    told = (
        final
        if isinstance(final, dict)
        else {"ndcg@10": final, "online": None if final is None else 10.0 * final}
    )
    metrics = Metrics()
    metrics.evaluated = sorted({*range(0, rounds + 1, every), rounds})
    metrics.offline = {"ndcg@10": [curve(t) if curve else 0.1 for t in metrics.evaluated]}
    metrics.online["online_ndcg@10"] = [curve(t) if curve else 0.1 for t in range(1, rounds + 1)]
    metrics.online["maxrr"] = [0.3] * rounds
    metrics.online["interactions"] = [4.0 * config["clients"]] * rounds
    name = f"run-{crc32(repr((config, method)).encode()):08x}"
    about = {
        "rounds": rounds,
        "queries": 156,
        "empty": config["empty"],
        "interactions": 1,
        "seconds": 1.0,
        **told,
    }
    return Recorded(
        Path("runs") / name, config, about, environment or {"results": 1}, metrics, method
    )


def made_runs(runs, title=""):
    return Runs(tuple(runs), title=title)


def luck(*address):
    """A number that looks random, the same in every test."""
    return float(np.random.default_rng(crc32(repr(address).encode())).normal())


def grid(clients=(100, 10), kinds=KINDS, seeds=(1, 2, 3), **more):
    return [
        made_run(
            0.5 + 0.001 * c + 0.01 * luck(c, k, s),
            clients=c,
            users=f"Cascade(kind='{k}')",
            seed=s,
            **more,
        )
        for c in clients
        for k in kinds
        for s in seeds
    ]
