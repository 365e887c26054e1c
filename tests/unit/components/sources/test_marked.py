"""Marked: queries dealt out among users, a feature for each that nobody else's documents have."""

import numpy as np
import pytest

from chance import plausible
from foltr.components.sources.marked import Marked
from foltr.components.sources.synthetic import Synthetic
from foltr.core.errors import Mistake
from foltr.experiment import Experiment

INNER = Synthetic(queries=90)
MARKED = Marked(data=INNER, users=4, share=0.5)


def test_all_else_is_as_it_was():
    for split in ("train", "test"):
        plain, data = INNER.load(split), MARKED.load(split)
        np.testing.assert_array_equal(data.features[:, : plain.width], plain.features)
        np.testing.assert_array_equal(data.labels, plain.labels)
        assert data.width == plain.width + 4 and data.storage.shape[1] % 8 == 0
        assert not data.storage[:, data.width :].any()
        assert data.content != plain.content


def test_marks_are_on_half_of_the_relevant_documents_of_ones_own_queries():
    data = MARKED.load("train")
    marks, whose = data.features[:, -4:], np.repeat(data.users, np.diff(data.offsets))
    assert set(np.unique(marks)) == {0.0, 1.0}
    for user in range(4):
        rows = np.flatnonzero(marks[:, user])
        assert (whose[rows] == user).all() and (data.labels[0][rows] > 0).all()
        relevant = (whose == user) & (data.labels[0] > 0)
        assert plausible(len(rows), relevant.sum(), 0.5)


def test_queries_are_dealt_out_evenly_and_held_out_ones_have_no_marks():
    assert np.bincount(MARKED.load("train").users).tolist() == [23, 23, 22, 22]
    assert not MARKED.load("test").features[:, -4:].any()
    assert len(np.unique(MARKED.load("test").users)) == 4


def test_a_seed_deals_otherwise():
    assert MARKED.load("train").users.tolist() == MARKED.load("train").users.tolist()
    assert (
        MARKED.load("train").users.tolist()
        != Marked(data=INNER, users=4, seed=1).load("train").users.tolist()
    )


def test_a_ranker_learns_the_marks_of_those_who_are_there():
    e = Experiment(data=MARKED, partition="ByUser()", clients=4, rounds=50)
    assert (e.run().params[-4:] > 0.0).all()
    left = Experiment(
        data=MARKED,
        partition="ByUser()",
        clients=4,
        rounds=50,
        unlearning="Retrain()",
        leaving=((1,),),
    ).run()
    assert left.params[-3] == 0.0 and (left.params[[-4, -2, -1]] > 0.0).all()


def test_too_few_queries_are_refused():
    with pytest.raises(Mistake, match="2 queries of test cannot be dealt out among 5 users"):
        Marked(data=Synthetic(queries=6), users=5).load("test")
    for wrong in ({"users": 0}, {"share": 0.0}, {"share": 1.5}):
        with pytest.raises(Mistake, match="Marked"):
            Marked(**wrong)
