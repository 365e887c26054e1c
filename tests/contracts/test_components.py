"""What every component must be true of. A new file is tested here without being mentioned."""

import re
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from plain_things import each, plain

from asking import asked_of
from chance import plausible
from foltr.cli.components import described
from foltr.components.sources.synthetic import Synthetic
from foltr.core import Cohort, Withheld, kinds
from foltr.core.errors import Mistake
from foltr.core.events import Setting
from foltr.core.scoring import Layered, forward, layers_of
from foltr.core.seeds import stream
from foltr.core.spec import (
    FAMILIES,
    aggregators,
    baselines,
    channels,
    click_models,
    learners,
    optimizers,
    privatizers,
    rankers,
    sources,
)

EVERY = [pytest.param(family, name, id=name) for family in FAMILIES for name in family.members()]


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_a_spec_round_trips(family, name):
    thing = plain(family.members()[name])
    assert family.build(repr(thing)) == thing
    assert repr(family.build(repr(thing))) == repr(thing)
    assert hash(thing) == hash(family.build(repr(thing)))


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_is_frozen_and_explained(family, name):
    thing = plain(family.members()[name])
    for field in fields(thing):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, field.name, None)
    # not the one dataclass writes
    assert type(thing).__doc__ and not type(thing).__doc__.startswith(f"{name}(")
    ours = type(thing).__module__.startswith("foltr.")
    for written, meaning in described(type(thing)):
        assert re.match(r"\w+: \S.*( = \S| \(required\))", written)
        assert meaning or not ours


def cohort(n=11, d=5):
    updates = stream(0, "test", n, d).normals((n + 1) * d).reshape(n + 1, d).astype(np.float32)
    return Cohort(np.arange(n), updates[:n], np.ones(n), trusted=updates[n])


def combined(rule, c):
    return rule(c, rule.init(c.updates.shape[1]), stream(0, "rule"))[0]


@each(aggregators)
def test_an_aggregator_gives_one_direction(thing):
    assert thing.looks_at in ("mean", "rows") and thing.trusted_queries >= 0
    direction = combined(thing, cohort())
    assert direction.shape == (5,) and direction.dtype == np.float64


@each(aggregators)
def test_an_aggregator_says_how_many_clients_it_needs(thing):
    """What `fits` lets pass can be computed; of what it refuses, a round in which fewer arrive is
    withheld."""
    for n in range(1, 12):
        try:
            notes = thing.fits(n)
        except Mistake as mistake:
            assert str(n) in str(mistake)
            with pytest.raises(Withheld):
                combined(thing, cohort(n))
        else:
            assert isinstance(notes, tuple) and all(
                isinstance(note, str) and note for note in notes
            )
            assert np.isfinite(combined(thing, cohort(n))).all()


@each(aggregators)
def test_the_order_of_clients_does_not_matter(thing):
    c, order = cohort(), [3, 0, 6, 2, 10, 5, 8, 1, 9, 4, 7]
    np.testing.assert_allclose(combined(thing, c), combined(thing, c.only(order)), rtol=1e-12)


@each(aggregators)
def test_agreement_is_kept_or_the_rule_says_otherwise(thing):
    same = np.tile(np.arange(5, dtype=np.float32), (11, 1))
    direction = combined(thing, cohort().sending(same))
    if thing.keeps_agreement:
        np.testing.assert_allclose(direction, np.arange(5.0), rtol=1e-12)
    else:
        assert not np.allclose(direction, np.arange(5.0))


@each(aggregators)
def test_an_aggregator_carries_arrays_and_nothing_else(thing):
    """Two rounds from the same memory are one and the same, and memory keeps its kind: checkpoints
    rely on it."""
    c, memory = cohort(), thing.init(5)
    direction, after = thing(c, memory, stream(0, "rule"))
    for before, now in zip(memory, after, strict=True):
        assert (
            isinstance(now, np.ndarray) and now.ndim == before.ndim and now.dtype == before.dtype
        )
    for part in after:
        part.setflags(write=False)
    once, _ = thing(c, after, stream(1, "rule"))
    again, _ = thing(c, after, stream(1, "rule"))
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(direction, combined(thing, c))


@each(aggregators)
def test_the_cohort_is_not_written(thing):
    c = cohort()
    before = c.updates.copy()
    for part in (c.clients, c.updates, c.weights, c.trusted):
        part.setflags(write=False)
    combined(thing, c)
    np.testing.assert_array_equal(c.updates, before)


@each(optimizers)
def test_an_optimizer_goes_uphill_and_keeps_its_input(thing):
    params, direction = np.zeros(3), np.array([1.0, -2.0, 0.0])
    params.setflags(write=False)
    direction.setflags(write=False)
    stepped, memory = thing(params, direction, thing.init(3))
    assert np.sign(stepped).tolist() == [1.0, -1.0, 0.0]
    assert len(memory) == len(thing.init(3)) and all(
        isinstance(part, np.ndarray) for part in memory
    )


@each(optimizers)
def test_an_optimizer_steps_alike_from_the_same_memory(thing):
    """Checkpoints rely on it: what it carries is arrays of one kind, and nothing else counts."""
    params, direction, memory = np.arange(3.0), np.array([1.0, -2.0, 0.5]), thing.init(3)
    for _ in range(3):
        for part in memory:
            part.setflags(write=False)
        stepped, after = thing(params, direction, memory)
        again, _ = thing(params, direction, memory)
        np.testing.assert_array_equal(stepped, again)
        assert stepped.shape == (3,) and stepped.dtype == np.float64
        for before, now in zip(memory, after, strict=True):
            assert now.shape == before.shape and now.dtype == before.dtype
        params, memory = stepped, after


@each(rankers)
def test_a_pullback_is_the_gradient(thing):
    """Along its own direction, and along others; as closely as numbers of four bytes tell."""
    docs = stream(1, "docs").normals(6 * 4).reshape(6, 4).astype(np.float32)
    params = thing.init(4, stream(1, "init"))
    params = params + stream(1, "more").normals(len(params)).astype(np.float32)
    dscores = stream(1, "dscores").normals(6).astype(np.float32)
    params.setflags(write=False)
    gradient = thing.pullback(params, docs, dscores)
    length, step = np.sqrt(np.square(gradient).sum()), np.float32(0.01)
    for i in range(5):
        way = stream(1, "way", i).normals(len(params)) if i else gradient
        way = (way / np.sqrt(np.square(way).sum())).astype(np.float32)
        more, less = (thing.scores(params + s * way, docs) @ dscores for s in (step, -step))
        slope = (more - less) / (2 * step)
        assert abs(slope - gradient @ way) < 0.05 * length, f"way {i}"
    assert 0 <= thing.head < len(params)


@each(rankers)
def test_a_ranker_scores_row_by_row(thing):
    docs = stream(1, "docs").uniforms(6 * 4).reshape(6, 4).astype(np.float32)
    params = thing.init(4, stream(1, "init"))
    params = params + stream(1, "more").normals(len(params)).astype(np.float32)
    scores = thing.scores(params, docs)
    assert scores.shape == (6,) and scores.dtype == np.float32
    np.testing.assert_allclose(scores[[4, 1]], thing.scores(params, docs[[4, 1]]), rtol=1e-5)
    assert thing.pullback(params, docs, np.ones(6, np.float32)).shape == params.shape
    np.testing.assert_array_equal(
        thing.pullback(params, docs, np.zeros(6, np.float32)), np.zeros(len(params))
    )


@each(rankers)
def test_the_layers_of_a_ranker_give_its_scores(thing):
    """A ranker need not have layers. If it has, exports are made of them."""
    docs = stream(1, "docs").uniforms(6 * 4).reshape(6, 4).astype(np.float32)
    params = thing.init(4, stream(1, "init"))
    params = params + stream(1, "more").normals(len(params)).astype(np.float32)
    if not isinstance(thing, Layered):
        assert not type(thing).__module__.startswith("foltr.")
        return
    scores = forward(layers_of(thing, params, 4), docs)
    np.testing.assert_allclose(thing.scores(params, docs), scores, rtol=1e-5)


@each(click_models)
@pytest.mark.parametrize("grades", [2, 3, 5])
def test_click_tables_are_probabilities_and_clicks_follow_them(thing, grades):
    tables = thing.tables(grades, 10)
    if tables is None:  # a model without tables runs as plain Python, and says so in this way
        assert type(thing).tables is not kinds.TableClickModel.tables
        return
    click, stop = tables
    assert click.shape == stop.shape == (10, grades)
    assert (0 <= click).all() and (click <= 1).all() and (0 <= stop).all() and (stop <= 1).all()
    shown = np.array([grades - 1, 0, grades - 1])
    first = sum(thing.clicks(shown, grades, stream(2, "clicks", i))[0] for i in range(2000))
    assert plausible(first, 2000, click[0, grades - 1])


@each(learners)
def test_a_learner_knows_how_often_it_learns(thing):
    assert thing.sessions >= 1
    assert thing.reward_levels >= 0
    ranker = rankers.build("MLP(hidden=2)")
    params = ranker.init(3, stream(1, "init"))
    kept = thing.remembered(ranker, params)
    assert kept.ndim == 1 and thing.personal(params, kept).shape == params.shape
    users, own = stream(1, "users"), stream(1, "own")
    assert thing.user_draws(users, own) is users  # what is published otherwise must be asked for


@each(privatizers)
@pytest.mark.parametrize(
    "update", [np.zeros(6), np.arange(6.0), np.full(6, 1e30)], ids=["zero", "small", "huge"]
)
def test_a_privatizer_takes_any_update_and_leaves_the_original(thing, update):
    update = update.astype(np.float32)
    update.setflags(write=False)
    sent = thing.on_client(update, 10, stream(3, "noise"))
    assert sent.shape == update.shape and sent.dtype == np.float32 and np.isfinite(sent).all()
    np.testing.assert_array_equal(sent, thing.on_client(update, 10, stream(3, "noise")))
    direction = thing.on_server(np.zeros(6), 10, stream(3, "noise"))
    assert direction.shape == (6,) and direction.dtype == np.float64


@each(privatizers)
def test_a_privatizer_that_clips_on_arrival_limits_the_longest_message(thing):
    rows = np.stack([np.arange(6.0), np.full(6, 1e6), np.full(6, 1e12)]).astype(np.float32)
    lengths = np.linalg.norm(thing.on_arrival(rows).astype(float), axis=1)
    if thing.clips_on_arrival:
        assert lengths[2] == pytest.approx(lengths[1]) and lengths[2] < 1e6
    else:
        np.testing.assert_array_equal(thing.on_arrival(rows), rows)


@each(privatizers)
def test_a_privatizer_sends_a_reward_that_exists(thing):
    assert {thing.on_reward(2, 4, stream(3, "noise", i)) for i in range(200)} <= {0, 1, 2, 3}


@each(privatizers)
def test_a_privatizer_describes_itself_to_the_ledger(thing):
    values = 11 if thing.acts_on == "rewards" else 0
    for event in thing.events(
        Setting(d=46, cohort=100, least_arriving=80, sessions=4, values=values)
    ):
        assert event.seen in ("message", "sum", "model")
    assert thing.nominal() and "\n" not in thing.nominal()


@each(channels)
def test_a_channel_gives_the_weighted_mean_or_nothing(thing):
    c = cohort(n=9)
    c = Cohort(c.clients, c.updates, np.arange(1.0, 10.0))
    got = thing.carry(c, asked_of(9), stream(0, "channel"))
    assert got.updates.shape == (1, 5) and got.weights.tolist() == [45.0]
    np.testing.assert_allclose(
        got.updates[0], np.average(c.updates, axis=0, weights=c.weights), atol=1e-6
    )
    few = thing.fewest(9) - 1
    with pytest.raises(Withheld):
        thing.carry(c.only(np.arange(few)), asked_of(9), stream(0, "channel"))


@each(channels)
def test_a_channel_says_what_it_hides_and_leaves_messages_alone(thing):
    withstands = thing.withstands(9)
    assert withstands is None or 0 <= withstands < 9
    assert thing.step >= 0.0 and 1 <= thing.fewest(9) <= 9
    c = cohort(n=9)
    c = Cohort(c.clients, c.updates, np.arange(1.0, 10.0))
    sent = c.updates.copy()
    rounding = thing.step / c.weights.sum() * len(c)  # of the weight times the update, each once
    first, again = (thing.carry(c.sealed(), asked_of(9), stream(0, "channel")) for _ in range(2))
    np.testing.assert_array_equal(c.updates, sent)
    np.testing.assert_array_equal(first.updates, again.updates)
    exact = np.average(c.updates.astype(float), axis=0, weights=c.weights)
    np.testing.assert_allclose(first.updates[0], exact, rtol=1e-6, atol=rounding)
    assert first.updates[0].dtype.kind == "f"


@each(baselines)
def test_a_baseline_ranks_the_better_documents_first(thing):
    data = Synthetic(queries=30).load("train")
    ranked = thing.fit(data, None, 1)
    scores = ranked.scores(data.features)
    assert scores.shape == (data.documents,) and np.isfinite(scores).all()
    assert np.corrcoef(scores, data.labels[0])[0, 1] > 0.3
    assert (ranked.params is None) == bool(ranked.model)
    if ranked.params is not None:
        np.testing.assert_allclose(
            scores, data.features @ ranked.params, rtol=1e-4, atol=1e-4 * np.ptp(scores)
        )


@each(sources)
def test_a_source_has_train_and_test(thing):
    assert {"train", "test"} <= set(thing.splits)
