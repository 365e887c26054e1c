import numpy as np
import pytest

from foltr.audits.searches import searches
from foltr.experiment import Experiment
from foltr.seeds import stream

SMALL = "Synthetic(queries=90)"


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
