"""Uneven populations and data with several labellings, in numbers that a hand can check."""

from math import log2

import numpy as np
import pytest

from asking import collected
from foltr.components.learners.pdgd import PDGD
from foltr.components.partitions.by_intent import ByIntent
from foltr.components.partitions.by_label import ByLabel
from foltr.components.partitions.sharing import Sharing
from foltr.components.rankers.linear import Linear
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core.metrics import online_performance
from foltr.core.seeds import GOLDEN, key, mix
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.population import holding
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local
from foltr.simulation.evaluation import MEASURES, Evaluator


def made(labels, lengths, grades):
    """Documents whose one feature says in which order a ranker with the weight 1 shows them: as
    they stand here."""
    labels = np.array(labels, np.int8)
    storage = np.zeros((labels.shape[1], padded(1)), np.float32)
    storage[:, 0] = -np.arange(labels.shape[1])
    offsets = np.append(0, np.cumsum(lengths))
    return Dataset(
        storage, 1, labels, offsets, grades, np.arange(len(lengths)).astype("S"), content="by hand"
    )


@pytest.mark.parametrize("kind", ["perfect", "navigational", "informational"])
@pytest.mark.parametrize(
    ("shape", "grades", "total"), [("MSLR", 5, 1589.23), ("MQ2008", 3, 1324.36)]
)
def test_online_performance_with_one_label_per_client_saturates(shape, grades, total, kind):
    """Every list of a client with a label above 0 is ideal, and those of the client with label 0
    count 0: per round the mean over clients is (grades - 1) / grades, whatever the ranker does and
    the users click."""
    data, clients, learner = (
        Synthetic(shape=shape, queries=30).load("train"),
        np.arange(grades),
        PDGD(sessions=5),
    )
    p = ByLabel().population(data, Cascade(kind=kind), grades, 5, 1)
    shown = [float(p.held(c)[1].any()) for c in clients]
    parts = learner, Linear(), p, 1, np.empty((grades, 0), np.float32)
    local, debug, params, means = (
        Local(*parts, threads=Threads(1)),
        Debug(*parts),
        np.zeros(data.width, np.float32),
        [],
    )
    for t in range(30):
        sent, observed = collected(local, params, t, clients)
        # exactly 1 or 0: DCG and its ideal are summed in one order
        assert observed.ndcg.tolist() == shown
        if t < 5:  # plain sums have an order of their own
            np.testing.assert_allclose(
                collected(debug, params, t, clients)[1].ndcg, shown, rtol=1e-14
            )
        means.append(float(observed.ndcg.sum()) / grades)
        params = params + sent.updates.mean(axis=0)
    assert np.abs(params).max() > 0.01 and means == [(grades - 1) / grades] * 30
    assert round(online_performance(np.full(10_000, means[0])), 2) == total


def test_measures_of_two_labellings():
    """Two queries; by the first labelling the second has no relevant document."""
    data = made([[1, 0, 0, 0, 0], [0, 1, 0, 0, 1]], [3, 2], 2)
    second = 1 / log2(3)  # a relevant document in the second place, where the first would be ideal
    ndcg = {
        "skip": (1 + 2 * second) / 3,
        "zero": (1 + 2 * second) / 4,
        "one": (1 + 2 * second + 1) / 4,
    }
    mrr = {"skip": 2 / 3, "zero": 2 / 4, "one": 3 / 4}
    clicks = ((1.0, Cascade().tables(2, 10)[0]),)  # relevant documents and no others
    for plain in (True, False):
        for empty in ("skip", "zero", "one"):
            evaluator = Evaluator(Linear(), data, clicks, empty, 1, Threads(1), plain)
            found = evaluator(np.ones(1))
            assert (
                tuple(found)
                == evaluator.measures
                == (*MEASURES, "merged_ndcg@10", "merged_mrr@10")
            )
            expected = [
                ndcg[empty],
                mrr[empty],
                (1 + 0.5 + 0 + 0.5) / 4,
                (1 + second) / 2,
                (1 + 0.5) / 2,
            ]
            assert list(found.values()) == pytest.approx(expected, rel=1e-12)
        queries = [[(1 + second) / 2, 0.75, 0.75, 1.0, 1.0], [second, 0.5, 0.25, second, 0.5]]
        np.testing.assert_allclose(
            evaluator.per_query(np.ones(1, np.float32)), queries, rtol=1e-12
        )


def test_a_query_that_is_relevant_for_nobody():
    data = made([[0, 0, 1], [0, 0, 0]], [2, 1], 2)
    evaluator = Evaluator(Linear(), data, (), "skip", 1, Threads(1))
    found = evaluator.per_query(np.ones(1, np.float32))
    assert np.isnan(found[0, [0, 1, 3, 4]]).all() and found[1, [0, 1, 3, 4]].tolist() == [1.0] * 4
    assert np.isnan(found[:, 2]).all()  # users who are no table
    assert evaluator(np.ones(1))["ndcg@10"] == 1.0
    nothing = Evaluator(Linear(), made(np.zeros((2, 3)), [2, 1], 2), (), "skip", 1, Threads(1))(
        np.ones(1)
    )
    assert all(np.isnan(value) for value in nothing.values())


def test_one_labelling_is_measured_by_the_three_measures():
    data = made([[0, 1, 0, 0]], [2, 2], 2)
    evaluator = Evaluator(Linear(), data, (), "skip", 1, Threads(1))
    assert evaluator.measures == MEASURES and evaluator.per_query(
        np.ones(1, np.float32)
    ).shape == (2, 3)


@pytest.mark.parametrize("plain", [True, False])
def test_a_ranker_on_what_a_client_holds(plain):
    data = made([[0, 1, 2, 0, 0, 0, 2]], [3, 2, 2], 3)
    p = holding(data, Cascade(), [np.array([1, 2, 3, 5, 6]), np.array([0, 3]), np.array([2])], 5)
    evaluator = Evaluator(Linear(), data, (), "skip", 1, Threads(1), plain)
    # the grades 1 and 2, where 2 and 1 would be ideal; nothing relevant; 0 and 2
    first, third = (1 + 3 / log2(3)) / (3 + 1 / log2(3)), 1 / log2(3)
    assert evaluator.of_client(np.ones(1), p, 0) == pytest.approx((first + third) / 2, rel=1e-12)
    assert evaluator.of_client(-np.ones(1), p, 0) == 1.0
    assert np.isnan(evaluator.of_client(np.ones(1), p, 1))
    assert evaluator.of_client(np.ones(1), p, 2) == 1.0


@pytest.mark.parametrize("plain", [True, False])
def test_a_ranker_judged_by_intents(plain):
    """One query whose only relevant document is another one for each client: the ranker that shows
    it first suits one of them. In the twin any of them will do."""
    data = made(np.eye(3), [3], 2)
    evaluator = Evaluator(Linear(), data, (), "skip", 1, Threads(1), plain)
    p, twin = (ByIntent(iid=iid).population(data, Cascade(), 3, 5, 1) for iid in (False, True))
    own = sorted(evaluator.of_client(np.ones(1), p, c) for c in range(3))
    assert own == pytest.approx([1 / log2(4), 1 / log2(3), 1.0], rel=1e-12)
    assert [evaluator.of_client(np.ones(1), twin, c) for c in range(3)] == [1.0] * 3


def shuffled(things, *address):
    """In the order of the words at an address of seed 1."""
    words = [mix(key(1, *address) + i * GOLDEN) for i in range(len(things))]
    return [thing for _, thing in sorted(zip(words, things, strict=True))]


def test_which_documents_are_dealt_to_whom():
    """Four clients, two of which own each grade: the shuffled documents of a grade go to them in
    turn."""
    data = made([[0, 1, 0, 0, 1, 0, 0, 1, 0]], [4, 5], 2)
    p = ByLabel().population(data, Cascade(), 4, 5, 1)
    owned = [i % 2 for i in shuffled(range(4), "labels")]
    expected = [[], [], [], []]
    for grade, documents in enumerate([[0, 2, 3, 5, 6, 8], [1, 4, 7]]):
        owners = [c for c in range(4) if owned[c] == grade]
        for turn, row in enumerate(shuffled(documents, "deal", grade)):
            expected[owners[turn % 2]].append(row)
    held = [p.held(c)[0].tolist() for c in range(4)]
    assert held == [sorted(rows) for rows in expected] == [[0, 6, 8], [1, 4], [7], [2, 3, 5]]


def test_which_intents_are_dealt_to_whom():
    data = made(np.zeros((3, 4)), [1, 3], 2)
    p = ByIntent().population(data, Cascade(), 3, 5, 1)
    words = [mix(key(1, "intents") + i * GOLDEN) for i in range(6)]
    orders = [
        sorted(range(3), key=words[:3].__getitem__),
        sorted(range(3), key=words[3:].__getitem__),
    ]
    assert p.labelling.reshape(3, 2).T.tolist() == orders == [[0, 1, 2], [1, 0, 2]]


def test_sharing_one_of_two_queries():
    """Each client holds one grade of the other query, and all of the shared one."""
    data = made([[0, 1, 0, 1]], [2, 2], 2)
    p = Sharing(share=0.5, warmup=3).population(data, Cascade(), 2, 5, 1)
    shared = p.held(2)[0].tolist()
    other = sorted({0, 1, 2, 3} - set(shared))
    assert shared in ([0, 1], [2, 3]) and p.warmup == 3
    assert sorted(p.held(c)[0].tolist() for c in range(2)) == [[row, *shared] for row in other]
    # two queries each: every second search is shared
    assert [p.held(c)[2].tolist() for c in range(2)] == [[0, 1, 3]] * 2
