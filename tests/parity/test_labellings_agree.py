"""Evaluation by several labellings, and of what a client holds: kernel against definition, pair by
pair."""

from itertools import pairwise

import numpy as np
import pytest
from engine_cases import weights
from populations import FEATURES, dataset, lengths_between, varied

from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.metrics import mean_over_queries, measure_queries
from foltr.core.seeds import Stream, key, stream
from foltr.core.system.process import Threads
from foltr.simulation.evaluation import Evaluator

DATA = dataset(lengths_between(1, 30, queries=120), grades=3, labellings=4, relevant=0.04)
SHARES = (0.7, Cascade().tables(3, 10)[0]), (0.3, PositionBased(eta=0.5).tables(3, 10)[0])
SEED = 7


def evaluator(empty="skip", plain=False, ranker=None, threads=None):
    return Evaluator(ranker or Linear(), DATA, SHARES, empty, SEED, threads or Threads(1), plain)


def by_definition(scores, labels, empty):
    """Each pair of a query and a labelling by itself."""  # (labellings, N) -> the five measures
    ties = key(SEED, "ties")
    # (labellings, models, q, 3)
    pairs = np.stack(
        [
            [
                measure_queries(scores, row, DATA.offsets, click, Stream(ties))
                for _, click in SHARES
            ]
            for row in labels
        ]
    )
    expected = sum(share * pairs[:, i, :, 2] for i, (share, _) in enumerate(SHARES)).mean()
    return *(
        mean_over_queries(pairs[:, 0, :, column].ravel(), empty) for column in (0, 1)
    ), expected


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
@pytest.mark.parametrize("tied", [False, True])
def test_means_are_over_all_pairs(empty, tied):
    params = np.zeros(FEATURES) if tied else weights().astype(np.float64)
    scores = (DATA.features @ params).astype(np.float32)
    undefined = [
        not DATA.labels[i, a:b].any() for i in range(4) for a, b in pairwise(DATA.offsets)
    ]
    assert 0.1 < np.mean(undefined) < 0.9  # so that the rule for them matters
    each, merged = (
        by_definition(scores, labels, empty)
        for labels in (DATA.labels, DATA.labels.max(axis=0)[None])
    )
    for plain in (True, False):
        found = evaluator(empty, plain)(params)
        assert list(found.values()) == pytest.approx(
            [*each, *merged[:2]], rel=1e-6 if not tied else 1e-12
        )


def test_any_number_of_threads_measures_alike():
    with Threads(3).running() as threads:
        shared = evaluator(threads=threads).per_query(weights())
    np.testing.assert_array_equal(shared, evaluator().per_query(weights()))


@pytest.mark.parametrize("ranker", [Linear(), MLP(hidden=5)], ids=repr)
def test_a_client_is_measured_alike_by_both(ranker):
    params = weights() if ranker == Linear() else ranker.init(FEATURES, stream(1, "init"))
    p = varied(DATA, (Cascade(), PositionBased()), clients=30)
    plain, fast = (evaluator(plain=plain, ranker=ranker) for plain in (True, False))
    for c in range(p.clients):
        values = []
        for block in range(p.first[c], p.last[c]):
            rows = p.rows[p.starts[block] : p.stops[block]]
            labels, scores = (
                DATA.labels[p.labelling[block], rows],
                ranker.scores(params, DATA.features[rows]),
            )
            best = np.sort(labels)[::-1]
            shown = labels[np.argsort(-scores)]
            discount = 1.0 / np.log2(np.arange(2, 12))[: len(rows)]
            if labels.any():
                values.append(
                    (2.0 ** shown[:10] - 1) @ discount / ((2.0 ** best[:10] - 1) @ discount)
                )
        expected = np.mean(values) if values else np.nan
        for each in (plain, fast):
            assert each.of_client(params, p, c) == pytest.approx(expected, rel=1e-9, nan_ok=True)
