"""What every learner must be true of: a client's round with a user who clicks by a fixed pattern.
A new file is tested here without being mentioned."""

import numpy as np
import pytest
from plain_things import each

from foltr.core.errors import Mistake
from foltr.core.guards import check_list, learned, sending_rewards
from foltr.core.seeds import stream
from foltr.core.spec import learners, rankers

RANKER = rankers.build("MLP(hidden=2)")  # it has an output layer, which some learners keep
FEATURES, T = 4, 3


class PatternUser:
    """Every third document shown is clicked, another one first in each session. What it gives may
    not be written to."""

    def __init__(self, sessions):
        self.sessions, self.made = sessions, 0

    def session(self, show):
        m = 7 + self.made % 3
        docs = stream(2, "docs", self.made).normals(m * FEATURES).reshape(m, FEATURES)
        docs = docs.astype(np.float32)
        docs.setflags(write=False)
        ranking = show(docs)
        check_list(show, ranking, m)
        clicks = (np.arange(len(ranking)) + self.made) % 3 == 1
        self.made += 1
        return docs, ranking, clicks


class Round:
    """One round of one client, from parameters and a memory that may not be written to."""

    def __init__(self, thing, seed=1):
        self.params = RANKER.init(FEATURES, stream(1, "init"))
        self.params = self.params + np.float32(0.5)
        self.memory = np.asarray(thing.remembered(RANKER, self.params)) + np.float32(0.25)
        self.params.setflags(write=False)
        self.memory.setflags(write=False)
        self.user = PatternUser(thing.sessions)
        send = sending_rewards(thing, None, thing.sessions, stream(seed, "privacy"))
        rng = stream(seed, "ranking", 0, T)
        made = thing.learn(RANKER, self.params, self.memory, self.user, rng, T, send)
        self.payload, self.weight, self.kept = learned(thing, made)


each_one = each(learners)


@each_one
def test_a_message_is_finite_numbers_of_four_bytes(thing):
    made = Round(thing)
    assert isinstance(made.payload, np.ndarray) and made.payload.ndim == 1
    assert made.payload.dtype.itemsize == 4
    if thing.reward_levels == 0:  # an update of the parameters
        assert made.payload.dtype == np.float32
        assert made.payload.shape == made.params.shape
    assert np.isfinite(made.payload).all()
    assert made.weight > 0.0


@each_one
def test_all_sessions_are_asked_for_and_no_other(thing):
    made = Round(thing)
    assert made.user.made == made.user.sessions


@each_one
def test_what_a_device_keeps_has_its_shape_and_kind(thing):
    made = Round(thing)
    assert made.kept.shape == made.memory.shape and made.kept.dtype == made.memory.dtype
    assert np.isfinite(made.kept).all()


@each_one
def test_the_same_streams_give_the_same_message(thing):
    one, again = Round(thing), Round(thing)
    np.testing.assert_array_equal(one.payload, again.payload)
    np.testing.assert_array_equal(one.kept, again.kept)
    assert one.weight == again.weight


@each_one
def test_the_server_decodes_messages_to_directions(thing):
    made = [Round(thing, seed) for seed in (1, 2, 3)]
    payloads, params = np.stack([each.payload for each in made]), made[0].params
    payloads.setflags(write=False)
    directions = thing.decode(payloads, params)
    assert directions.shape == (3, len(params)) and directions.dtype.kind == "f"
    assert np.isfinite(directions).all()
    alone = thing.decode(payloads[1:2], params)
    np.testing.assert_allclose(alone[0], directions[1], rtol=1e-6)
    if thing.reward_levels == 0:  # a channel may give the mean of the payloads
        mean = thing.decode(payloads.mean(axis=0, keepdims=True), params)
        np.testing.assert_allclose(mean[0], directions.mean(axis=0), rtol=1e-4, atol=1e-6)


def floats_of(payload):
    """The payload as float32, where all bits of a number of four bytes may be set."""
    return payload.copy().view(np.float32)


def with_last(payload, value):
    changed = floats_of(payload)
    changed[-1] = value
    return changed.view(payload.dtype)


@each_one
def test_a_message_that_a_device_made_is_accepted(thing):
    for seed in (1, 2, 3):
        made = Round(thing, seed)
        assert thing.check_message(made.payload, made.weight, made.params) is None


@each_one
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_message_that_is_not_finite_is_refused(thing, value):
    made = Round(thing)
    with pytest.raises(Mistake):
        thing.check_message(with_last(made.payload, value), made.weight, made.params)


@each_one
def test_a_message_of_another_length_is_refused(thing):
    made = Round(thing)
    for payload in (
        made.payload[:-1],
        np.append(made.payload, made.payload[-1:]),
        made.payload[:0],
        np.tile(made.payload, 3),
        made.payload[:1],
    ):
        with pytest.raises(Mistake):
            thing.check_message(payload, made.weight, made.params)


@each_one
def test_a_message_of_other_numbers_is_refused(thing):
    made = Round(thing)
    other = np.uint32 if made.payload.dtype == np.float32 else np.float32
    for kind in (other, np.int32, np.complex64):
        with pytest.raises(Mistake):
            thing.check_message(made.payload.astype(kind), made.weight, made.params)


@each(learners, lambda thing: thing.reward_levels > 0)
def test_rewards_that_no_search_has_are_refused(thing):
    made = Round(thing)
    for reward in (-0.001, 1e6, 3.4e38, -1.0):
        with pytest.raises(Mistake):
            thing.check_message(with_last(made.payload, reward), made.weight, made.params)


@each_one
@pytest.mark.parametrize("weight", [np.nan, np.inf, 0.5, 1e300])
def test_a_strange_weight_raises_nothing_but_a_mistake(thing, weight):
    """The guards refuse it. Of learners, only those that send rewards look at a weight."""
    made = Round(thing)
    try:
        assert thing.check_message(made.payload, weight, made.params) is None
    except Mistake:
        assert thing.reward_levels > 0
