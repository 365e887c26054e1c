"""Learning one search at a time computes what a whole round computes."""

import numpy as np
import pytest

from foltr.components.learners.es import ES
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import rankers
from foltr.core.stepwise import Start, stepwise

FEATURES, T = 5, 2


def searches(seed, many):
    """Documents and, for a list, clicks."""
    found = []
    for s in range(many):
        draws = stream(seed, "documents", s)
        m = 3 + draws.integer(12)
        docs = draws.normals(m * FEATURES).reshape(m, FEATURES).astype(np.float32)
        found.append((docs, stream(seed, "clicks", s).uniforms(m) < 0.4))
    return found


class Clicking:
    """A user who clicks documents that are fixed for each search."""

    def __init__(self, found):
        self.found, self.sessions, self.made = found, len(found), 0

    def session(self, show):
        docs, liked = self.found[self.made]
        self.made += 1
        ranking = show(docs)
        return docs, ranking, liked[ranking]


def as_it_is(which, values, session):
    return which


LEARNERS = [
    PDGD(),
    PDGD(explore=False, lr=0.5),
    PDGD(update="round", max_norm=0.3),
    PDGD(mu=0.1, decay=0.9, max_norm=0.7, pairs="shown"),
    ES(),
    ES(antithetic=False, objective="dcg", k=4),
    Personal(learner=PDGD(explore=False), pull=0.2),
    FedPer(),
]


PAIRS = [
    (learner, ranker)
    for learner in LEARNERS
    for ranker in (Linear(), Linear(start=(10.0,)), MLP(hidden=3))
    if ranker.head or not isinstance(learner, FedPer)  # FedPer needs an output layer
]


@pytest.mark.parametrize(("learner", "ranker"), PAIRS, ids=repr)
def test_searches_one_by_one_give_the_bits_of_a_whole_round(learner, ranker):
    params = ranker.init(FEATURES, stream(1, "init"))
    memory = learner.remembered(ranker, params) + np.float32(0.125)
    rng, found = stream(7, "ranking", 0, T), searches(3, 6)
    whole = learner.learn(ranker, params, memory, Clicking(found), rng, T, as_it_is)

    one = stepwise(learner)
    start = Start(ranker, params, memory, len(found), rng, T, as_it_is)
    sofar = one.begin(start)
    for docs, liked in found:
        ranking = one.show(start, sofar, docs)
        assert np.array_equal(ranking, one.show(start, sofar, docs))  # looking changes nothing
        sofar = one.step(start, sofar, docs, ranking, liked[ranking])
    payload, weight, kept = one.finish(start, sofar)
    assert payload.tobytes() == whole[0].tobytes() and payload.dtype == whole[0].dtype
    assert weight == whole[1]
    assert kept.tobytes() == whole[2].tobytes()


def test_an_earlier_state_is_not_changed_by_a_step():
    learner, ranker = Personal(), Linear(start=(1.0,))
    params = ranker.init(FEATURES, stream(1))
    memory = learner.remembered(ranker, params)
    start = Start(ranker, params, memory, 2, stream(1, "ranking"), 0, as_it_is)
    first = learner.begin(start)
    before = learner.current(start, first).copy()
    (docs, liked), _ = searches(5, 2)
    ranking = learner.show(start, first, docs)
    after = learner.step(start, first, docs, ranking, liked[ranking])
    assert liked[ranking].any()
    assert np.array_equal(learner.current(start, first), before)
    assert not np.array_equal(learner.current(start, after), before)


def test_the_parameters_that_score_the_next_search_are_the_learned_ones():
    ranker, found = Linear(), searches(3, 3)
    learner = PDGD(explore=False)
    params = ranker.init(FEATURES, stream(1))
    start = Start(ranker, params, np.empty(0), 3, stream(1, "ranking"), 0, as_it_is)
    sofar = learner.begin(start)
    for docs, liked in found:
        ranking = learner.show(start, sofar, docs)
        scores = ranker.scores(learner.current(start, sofar), docs)[ranking]
        assert (np.diff(scores) <= 0.0).all()
        sofar = learner.step(start, sofar, docs, ranking, liked[ranking])
    update, _, _ = learner.finish(start, sofar)
    assert np.array_equal(params + update, learner.current(start, sofar))


def test_es_cannot_finish_before_its_last_search():
    ranker = Linear()
    params = ranker.init(FEATURES, stream(1))
    start = Start(ranker, params, np.empty(0), 4, stream(1, "ranking"), 0, as_it_is)
    with pytest.raises(Mistake, match="all 4 searches of a round, and 0 were made"):
        ES().finish(start, ES().begin(start))


def test_a_learner_of_whole_rounds_says_what_it_lacks():
    class Whole:
        pass

    with pytest.raises(Mistake, match=r"Whole learns whole rounds only: .*begin, current, show"):
        stepwise(Whole())


def test_a_start_is_the_first_weights():
    assert Linear(start=(10.0, -1)).init(4, stream(0)).tolist() == [10.0, -1.0, 0.0, 0.0]
    assert Linear().init(3, stream(0)).tolist() == [0.0, 0.0, 0.0]


def test_no_start_is_not_in_the_config():
    assert repr(Linear()) == "Linear()" and rankers.build("Linear()") == Linear()
    assert repr(Linear(start=(10,))) == "Linear(start=(10.0,))"
    assert rankers.build("Linear(start=(10.0, 2))").start == (10.0, 2.0)


def test_a_start_that_does_not_fit_is_refused():
    with pytest.raises(Mistake, match="3 weights, and there are 2 features"):
        Linear(start=(1, 2, 3)).init(2, stream(0))
    with pytest.raises(Mistake, match="start has no weights"):
        Linear(start=())
