import numpy as np
import pytest

from foltr.core.seeds import stream
from foltr.experiment import Experiment
from foltr.simulation.audits import games
from foltr.simulation.audits.searches import searches

SMALL = "Synthetic(queries=90)"


@pytest.fixture(autouse=True)
def surer(monkeypatch):
    """A guarantee that holds counts as broken once in 10^9 games, not once in 1,000: tests play
    many."""
    monkeypatch.setattr(games, "SURE", 1.0 - 1e-9)


def made_with(weights=0.3, **fields):
    """An experiment, some weights that it might have arrived at, and one search per validation
    query."""
    fields = {
        "data": SMALL,
        "clients": 50,
        "rounds": 3,
        "learner": "PDGD(pairs='shown')",
        **fields,
    }
    e = Experiment(**fields)
    data = e.data.load("vali")
    start = e.ranker.init(data.width, stream(3, "init"))
    params = (
        start + weights * stream(3, "weights").normals(len(start)) / np.sqrt(len(start))
    ).astype(np.float32)
    return e, params, searches(e, params, e.users, data, 500)


@pytest.fixture
def made():
    return made_with
