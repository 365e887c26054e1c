"""Type 1: the same documents, other judgements."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import plausible
from foltr.components.partitions.by_intent import ByIntent
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.metrics import ideal_dcg
from property_settings import examples
from tiny_data import blocks, copies_nothing, made, query_of, tiny

SEEDS = st.integers(0, 2**63 - 1)


def judging(data, clients, seed=1, iid=False):
    return ByIntent(iid=iid).population(data, Cascade(), clients, 5, seed)


@examples(30)
@given(tiny(labellings=(2, 4)), SEEDS)
def test_per_query_each_client_has_another_intent(data, seed):
    intents = len(data.labels)
    p = judging(data, intents, seed)
    assert p.clients == intents and copies_nothing(p, data) and p.data is data
    assert (p.last - p.first == data.queries).all()
    labelling = p.labelling.reshape(intents, data.queries)
    # a permutation in every query
    assert (np.sort(labelling, axis=0) == np.arange(intents)[:, None]).all()
    for c in range(intents):
        for q, (rows, labels) in enumerate(blocks(p, c)):
            assert query_of(data, rows) == q and rows.tolist() == list(
                range(data.offsets[q], data.offsets[q + 1])
            )
            np.testing.assert_array_equal(labels, data.labels[labelling[c, q], rows])
            assert p.ideals[p.first[c] + q] == ideal_dcg(labels, np.array([0, len(labels)]))[0]


@examples(30)
@given(tiny(labellings=(2, 4)), SEEDS)
def test_in_the_twin_a_document_is_as_relevant_as_for_any_intent(data, seed):
    p = judging(data, len(data.labels), seed, iid=True)
    merged = np.maximum.reduce(list(data.labels))
    assert copies_nothing(p, data) and p.data.documents == data.documents
    np.testing.assert_array_equal(p.data.labels[:-1], data.labels)  # as they were, and one more
    for c in range(p.clients):
        rows, labels, offsets = p.held(c)
        assert rows.tolist() == list(range(data.documents))
        np.testing.assert_array_equal(labels, merged)
        np.testing.assert_array_equal(offsets, data.offsets)
    np.testing.assert_array_equal(p.ideals, ideal_dcg(merged, data.offsets))


def test_every_order_of_intents_is_equally_likely():
    data = made(np.zeros((3, 600)), [1] * 600, 2)
    dealt = np.concatenate(
        [judging(data, 3, seed).labelling.reshape(3, 600).T for seed in range(10)]
    )
    _, counts = np.unique(dealt, axis=0, return_counts=True)
    assert len(counts) == 6 and plausible(counts, 6000, 1 / 6)


def test_seeds_matter_and_repeat():
    data = made(np.zeros((4, 40)), [1] * 40, 2)
    one, same, other = (judging(data, 4, seed).labelling for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


@examples(30)
@given(tiny(labellings=(2, 4)), SEEDS)
def test_dealt_for_good_a_client_keeps_its_intent(data, seed):
    intents = len(data.labels)
    p = ByIntent(dealt="for good").population(data, Cascade(), intents, 5, seed)
    np.testing.assert_array_equal(p.labelling, np.repeat(np.arange(intents), data.queries))
    for c in range(intents):
        np.testing.assert_array_equal(
            p.ideals[p.first[c] : p.last[c]], ideal_dcg(data.labels[c], data.offsets)
        )


def test_what_has_no_intents_is_refused():
    data = made(np.eye(4, 8), [4, 4], 2)
    for iid in (False, True):
        with pytest.raises(
            Mistake, match="the data has 4 intents, and there are 10 clients: say clients=4"
        ):
            judging(data, 10, iid=iid)
        with pytest.raises(Mistake, match="an intent partition without intents"):
            judging(replace(data, labels=data.labels[:1]), 1, iid=iid)
