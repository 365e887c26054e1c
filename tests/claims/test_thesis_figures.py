"""Figures 3.8 and 3.9 of the thesis in kind: what it finds there holds on MQ2008, from the file in
reproduce/."""

import numpy as np
import pytest

from foltr.report.curves import curves
from foltr.report.study import study

pytestmark = pytest.mark.claims


@pytest.fixture(scope="module")
def levels(made):
    """Mean offline nDCG@10 over all evaluations, by method and clicks: the linear part, two of
    five seeds."""

    def linear(point):
        return point.experiment.seed <= 2 and type(point.experiment.ranker).__name__ == "Linear"

    runs = made("thesis-3.8-3.9", linear)
    assert len(runs) == 6 * 5 * 3 * 2
    found = study(runs)
    means = {
        place: float(np.mean(curve.mean)) for place, curve in curves(found, "ndcg@10").items()
    }
    by_name = {
        (found.methods[i].label, found.conditions[j].label): round(mean, 4)
        for (i, j), mean in sorted(means.items())
    }
    print("\n" + "\n".join(f"{name}: {mean}" for name, mean in by_name.items()))
    return by_name


@pytest.mark.parametrize("kind", ["perfect", "navigational", "informational"])
def test_a_larger_batch_is_better_and_more_clients_are_little_better(levels, kind):
    """On the mean over the curve: in the end, as the thesis says, batch sizes converge."""

    def level(clients, batch):
        return levels[f"FPDGD, {clients} clients, B = {batch}", kind]

    assert level(1000, 2) < level(1000, 4) < level(1000, 8)
    assert level(10, 4) < level(1000, 4) + 0.002 and abs(level(100, 4) - level(1000, 4)) < 0.005
    # as many interactions, far more updates
    assert levels["PDGD, centralised", kind] > level(1000, 4)
