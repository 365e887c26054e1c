"""The ranker of a device: live, replayed and restarted are the same bits; what is forgotten is
gone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.mlp import MLP
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.stepwise import ReplayedUser
from foltr.device.click_log import ClickLog, Epoch, LoggedSearch
from foltr.device.guard import Guard
from foltr.device.learning import (
    ALONE,
    PRIOR,
    EpochStream,
    LocalRanker,
    as_it_is,
    choose_start,
    chosen_start,
)
from foltr.device.running import guard_text
from foltr.device.searching import NAMES
from property_settings import examples

F = len(NAMES)


def made_up(number, m=15):
    """The features of a search's candidates."""
    draws = stream(11, "made up", number)
    return draws.uniforms(m * F).reshape(m, F).astype(np.float32)


def searched(ranker, number, clicked=(1,), m=15):
    """A search by a user who clicks some ranks of the list, logged but not learned from."""
    features = made_up(number, m)
    order = ranker.order(features)
    clicks = np.zeros(len(order.ranking), bool)
    clicks[[rank for rank in clicked if rank < len(clicks)]] = True
    search = LoggedSearch(
        0, float(number), f"query {number}", ranker.epoch.epoch, order.shown_by,
        np.arange(m) + 100, features, order.ranking, order.teams, clicks,
    )  # fmt: skip
    return ranker.log.add(search)


def taught(ranker, numbers, clicked=(1, 3)):
    for number in numbers:
        ranker.learn(searched(ranker, number, clicked))


LEARNERS = [
    ALONE,
    Personal(PDGD(lr=0.2, explore=False, sessions=50), pull=0.2),
    PDGD(lr=0.1, sessions=50),
    ES(sessions=50),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_restart_between_searches_changes_nothing(tmp_path, learner):
    path = tmp_path / "index.db"
    live = LocalRanker(ClickLog(path), learner)
    lists = []
    for number in range(12):
        live.learn(searched(live, number))
        lists.append(live.order(made_up(99)).ranking.tolist())
        live.log.close()
        again = LocalRanker(ClickLog(path), learner)
        assert again.weights.tobytes() == live.weights.tobytes()
        assert again.evidence == live.evidence
        assert again.order(made_up(99)).ranking.tolist() == lists[-1]
        live = again
    uninterrupted = LocalRanker(ClickLog(None), learner)
    uninterrupted.seed = live.seed
    uninterrupted.replay()
    taught(uninterrupted, range(12), clicked=(1,))
    assert uninterrupted.weights.tobytes() == live.weights.tobytes()


@pytest.mark.parametrize("learner", LEARNERS[:3], ids=repr)
def test_replayed_through_a_client_is_live(learner):
    """`learn` over the log gives the parameters that the device ranks with."""
    live = LocalRanker(ClickLog(None), learner, guard=Guard(on=False))
    taught(live, range(20))
    log = live.log.of_epoch(0)
    user = ReplayedUser([search.session for search in log])
    draws = EpochStream(live.start.rng.key)
    epoch = live.epoch
    payload, weight, kept = learner.learn(
        live.ranker, epoch.params, epoch.memory, user, draws.at(17), 17, as_it_is
    )
    sent, made, memory = learner.finish(live.start, live.sofar)
    assert payload.tobytes() == sent.tobytes() and weight == made == 20.0
    assert kept.tobytes() == memory.tobytes()
    assert np.abs(sent).max() > 0.0


def test_a_list_that_is_replayed_is_the_one_that_was_shown():
    """Exploration draws the same list when it is shown and when it is replayed."""
    live = LocalRanker(ClickLog(None), PDGD(sessions=50), guard=Guard(on=False))
    for number in range(5):
        search = searched(live, number)
        assert (
            search.ranking.tolist()
            == live.learner.show(live.start, live.sofar, search.features).tolist()
        )
        live.learn(search)


def test_the_first_lists_are_those_of_bm25():
    ranker = LocalRanker(ClickLog(None))
    features = made_up(3)
    best = np.argsort(-features[:, 0])[:10].tolist()
    assert ranker.order(features).ranking.tolist() == best
    assert ranker.order(features).plain.tolist() == best
    taught(ranker, range(1), clicked=())  # a search without a click teaches nothing
    assert ranker.order(features).ranking.tolist() == best


def test_a_start_from_public_manuals():
    """Its lists are mixed with BM25's from the first search on, and forgetting goes back to it."""
    log = ClickLog(None)
    LocalRanker(log, ranker=chosen_start(log))  # BM25, which is stored
    choose_start(log, "manuals")
    ranker = LocalRanker(log, ranker=chosen_start(log))
    assert ranker.weights.tolist() == np.float32(PRIOR.start).tolist()
    assert len(PRIOR.start) == F and all(name.endswith(" v1") for name in NAMES)
    order = ranker.order(made_up(3))
    assert order.shown_by == "mixed" and order.teams.any()
    taught(ranker, range(3))
    assert ranker.weights.tolist() != np.float32(PRIOR.start).tolist()
    with pytest.raises(Mistake, match="before the first search: run foltr device clear"):
        choose_start(log, "bm25")
    ranker.forget(None)
    assert ranker.weights.tolist() == np.float32(PRIOR.start).tolist()


def test_while_paused_lists_are_not_mixed():
    ranker = LocalRanker(ClickLog(None))
    taught(ranker, range(2))
    assert (ranker.shows(False), ranker.shows(True)) == ("mixed", "bm25")
    assert guard_text(ranker).endswith("lists mix the two.")
    assert guard_text(ranker, paused=True).endswith("lists are those of BM25.")
    ranker.evidence = 5.0
    ranker.made = ranker.guard.mix_learned - 1
    assert (ranker.shows(False), ranker.shows(True)) == ("mixed", "learned")


def test_equal_documents_are_in_one_order_in_both_lists():
    """Else a ranker that has learned nothing would seem to have moved results."""
    ranker = LocalRanker(ClickLog(None))
    features = np.repeat(made_up(3)[:4], 5, axis=0)  # ties inside of the list, and at its end
    order = ranker.order(features)
    assert order.ranking.tolist() == order.plain.tolist()
    assert not order.teams.any()  # nobody's choice


def test_clicks_change_the_ranking_towards_what_was_clicked():
    ranker = LocalRanker(ClickLog(None), guard=Guard(on=False))
    for number in range(40):  # the user wants a large feature 7
        features = made_up(number)
        order = ranker.order(features)
        clicks = features[order.ranking, 7] > 0.8
        ids = np.arange(len(features))
        search = LoggedSearch(
            0, 0.0, "q", 0, order.shown_by, ids, features, order.ranking, order.teams, clicks
        )
        ranker.learn(ranker.log.add(search))
    assert ranker.weights[7] == ranker.weights[1:].max() and ranker.weights[7] > 0.5


def test_a_device_alone_begins_an_epoch_after_all_its_searches():
    learner = PDGD(lr=0.2, explore=False, sessions=3)
    ranker = LocalRanker(ClickLog(None), learner)
    taught(ranker, range(2))
    assert not ranker.begin_epoch_if_full()
    taught(ranker, range(2, 5))
    before = ranker.weights.copy()
    assert ranker.begin_epoch_if_full() and ranker.epoch.epoch == 1
    assert len(ranker.log.of_epoch(0)) == 3 and len(ranker.log.of_epoch(1)) == 2
    assert np.allclose(ranker.weights, before, atol=1e-6)  # the same steps, added up elsewhere
    whole = LocalRanker(ClickLog(None), PDGD(lr=0.2, explore=False, sessions=50))
    assert whole.epoch.epoch == 0


@pytest.mark.parametrize("gone", [0, 2, 4, 6])
def test_a_forgotten_search_has_taught_nothing(gone):
    """What is left is what the other searches teach, whichever epoch it was in."""
    learner, seed = PDGD(lr=0.2, explore=False, sessions=3), 5
    logs = [], [gone]
    found = []
    for left_out in logs:
        ranker = LocalRanker(ClickLog(None), learner, guard=Guard(on=False))
        ranker.seed = seed
        ranker.replay()
        for number in range(8):
            features = made_up(number)
            order = ranker.order(features).plain  # the same lists, whatever is learned
            clicks = np.arange(len(order)) == 2
            ids = np.arange(len(features))
            search = LoggedSearch(
                0, 0.0, f"q{number}", ranker.epoch.epoch, "bm25", ids, features, order,
                np.zeros(len(order), np.uint8), clicks,
            )  # fmt: skip
            if number not in left_out:
                ranker.learn(ranker.log.add(search))
        found.append(ranker)
    everything, without = found
    search = next(s for s in everything.log.last(100) if s.query == f"q{gone}")
    everything.forget([search.id])
    assert np.allclose(everything.weights, without.weights, atol=1e-6)
    assert all(s.query != f"q{gone}" for s in everything.log.last(100))


def test_a_forgotten_search_of_an_earlier_epoch_is_forgotten():
    learner = PDGD(lr=0.2, explore=False, sessions=3)
    ranker = LocalRanker(ClickLog(None), learner)
    for number in range(7):
        taught(ranker, [number])
        ranker.begin_epoch_if_full()
    assert ranker.epoch.epoch == 2
    before = ranker.weights.copy()
    ids = [search.id for search in ranker.log.last(100)]
    ranker.forget(ids[:-1])
    assert not np.array_equal(ranker.weights, before)
    only = LocalRanker(ClickLog(None), learner)
    only.seed = ranker.seed
    only.replay()
    taught(only, [0])
    assert np.allclose(only.weights, ranker.weights, atol=1e-6)


def test_clearing_the_log_clears_what_was_learned():
    ranker = LocalRanker(ClickLog(None))
    fresh = ranker.weights.copy()
    taught(ranker, range(5))
    ranker.forget(None)
    assert np.array_equal(ranker.weights, fresh) and ranker.log.counts() == (0, 0)
    assert ranker.evidence == 0.0


def test_clearing_keeps_the_models_that_came_from_a_server():
    learner = Personal(PDGD(lr=0.2, explore=False, sessions=50), pull=0.2)
    ranker = LocalRanker(ClickLog(None), learner)
    params = np.arange(F, dtype=np.float32)
    ranker.log.set_epochs([Epoch(3, 8, params, np.ones(F, np.float32))])
    ranker.replay()
    assert ranker.weights.tolist() == (params + 1).tolist()
    ranker.forget(None)
    assert ranker.weights.tolist() == params.tolist() and ranker.epoch.round == 8


def test_a_late_click_is_noted_but_not_learned_from():
    ranker = LocalRanker(ClickLog(None))
    search = searched(ranker, 1, clicked=())
    assert ranker.log.click(search.id, 100 + int(search.ranking[0]), 1.0, "preview")
    ranker.learn(search)
    before = ranker.weights.copy()
    assert not ranker.log.click(search.id, 100 + int(search.ranking[4]), 2.0, "preview")
    ranker.replay()
    assert np.array_equal(ranker.weights, before)
    assert len(ranker.log.opened(search.id)) == 2
    assert ranker.log.one(search.id).clicks.sum() == 1


def test_a_click_on_what_was_not_shown_is_refused():
    ranker = LocalRanker(ClickLog(None))
    search = searched(ranker, 1)
    with pytest.raises(Mistake, match="document 7 is not in the list"):
        ranker.log.click(search.id, 7, 1.0, "preview")
    with pytest.raises(Mistake, match="no search 99"):
        ranker.log.click(99, 7, 1.0, "preview")


def test_a_model_of_other_features_is_refused():
    log = ClickLog(None)
    log.set_epochs([Epoch(0, 0, np.zeros(5, np.float32), np.zeros(0, np.float32))])
    with pytest.raises(Mistake, match="the stored model has 5 parameters"):
        LocalRanker(log)


def test_another_ranker_learns_too():
    ranker = LocalRanker(ClickLog(None), PDGD(lr=0.1, sessions=50), MLP(hidden=4))
    before = ranker.weights.copy()
    taught(ranker, range(10), clicked=(4, 7))
    assert not np.array_equal(ranker.weights, before)


@examples(20)
@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8), st.booleans())
def test_any_log_replays_to_the_same_bits(clicks, on):
    live = LocalRanker(ClickLog(None), guard=Guard(on=on))
    for number, clicked in enumerate(clicks):
        live.learn(searched(live, number, clicked, m=2 + number))
    weights, evidence = live.weights.copy(), live.evidence
    live.replay()
    assert live.weights.tobytes() == weights.tobytes() and live.evidence == evidence


def test_the_last_click_in_time_decides_who_won():
    ranker = LocalRanker(ClickLog(None))
    features, ids = made_up(1), np.arange(15)
    teams, none = np.array([1, 2] * 5), np.zeros(10, bool)
    lists = features, np.arange(10), teams, none
    search = ranker.log.add(LoggedSearch(0, 0.0, "q", 0, "mixed", ids, *lists))
    for document in (3, 4, 1, 4):  # 4 is opened again at last: a choice of the learned ranker
        ranker.log.click(search.id, document, 0.0, "preview")
    assert np.flatnonzero(ranker.log.one(search.id).clicks).tolist() == [1, 3, 4]
    ranker.learn(search)
    assert ranker.evidence == 1.0 and ranker.log.counts() == (1, 1)


def test_only_a_learner_that_draws_its_lists_explores():
    assert not LocalRanker(ClickLog(None)).explores
    assert LocalRanker(ClickLog(None), PDGD(sessions=50)).explores
