"""The engine of a device in a federation: what it sends from its log, and what it keeps."""

from dataclasses import replace

import numpy as np
import pytest
from pretend_gateway import Owner, PretendGateway, pretend_agreement

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.privatizers.gaussian import Gaussian
from foltr.core import Ask
from foltr.core.federation import Client
from foltr.core.seeds import Stream, stream
from foltr.core.stepwise import ReplayedUser
from foltr.device.joining import first_memory
from foltr.device.membership import NOTHING, LogEngine

SHARES = Gaussian(noise=1.0, clip=0.5, where="shares")


@pytest.fixture
def owner(tmp_path, monkeypatch):
    return Owner(tmp_path / "device", PretendGateway(pretend_agreement()), monkeypatch).join()


def owner_with_shares(tmp_path, monkeypatch, **changes):
    given = {"privacy": SHARES, "channel": SecureSum(), "fewest": 3, **changes}
    return Owner(tmp_path / "p", PretendGateway(pretend_agreement(**given)), monkeypatch).join()


def log_engine_of(owner, **more):
    return LogEngine(owner.ranker, owner.gateway.agreed, **more)


def ask_at(owner, t=0, moved=0.0):
    return Ask((owner.gateway.params + np.float32(moved)).astype(np.float32), t, 3)


def message_of(engine, ask):
    return engine.collect(ask, np.array([0])).arrived


def replayed_message(owner, ask, searches, memory, noise=None):
    """What a client sends that replays these searches."""
    agreed, empty = owner.gateway.agreed, Stream(0)
    parts = agreed.device_learner, agreed.ranker, agreed.privacy, empty, noise or empty
    return Client(0, *parts).step(ask, memory, ReplayedUser(searches))


def test_a_message_is_what_a_client_that_replays_the_log_sends(owner):
    owner.search(3)
    searches = [each.session for each in owner.log.of_epoch(owner.ranker.epoch.epoch)]
    engine, ask = log_engine_of(owner), ask_at(owner)
    before = owner.ranker.epoch.memory
    got = message_of(engine, ask)
    update, after = replayed_message(owner, ask, searches, before)
    assert got.updates.tobytes() == update.payload.tobytes() and got.weights.tolist() == [3.0]
    assert engine.memory[0].tobytes() == after.tobytes()
    assert np.abs(got.updates).max() > 0.0


@pytest.mark.parametrize("searches", [0, 1, 3, 4])
def test_a_device_that_searched_less_often_is_padded_to_the_agreed_weight(
    tmp_path, monkeypatch, searches
):
    owner = owner_with_shares(tmp_path, monkeypatch).search(searches)
    logged = [each.session for each in owner.log.of_epoch(owner.ranker.epoch.epoch)]
    before, ask = owner.ranker.epoch.memory, ask_at(owner, t=2)
    got = message_of(log_engine_of(owner, noise=lambda: stream(5, "noise")), ask)
    assert got.weights.tolist() == [4.0]
    padded = logged + [NOTHING] * (4 - searches)
    update, _ = replayed_message(owner, ask, padded, before, stream(5, "noise"))
    assert got.updates.tobytes() == update.payload.tobytes()
    silent, _ = replayed_message(owner, ask, [NOTHING] * 4, before, stream(5, "noise"))
    same = got.updates.tobytes() == silent.payload.tobytes()
    assert same == (searches == 0)  # who has not searched sends noise alone
    assert np.abs(silent.payload).max() > 0.0


def test_noise_comes_from_the_operating_system_and_differs_each_time(tmp_path, monkeypatch):
    owner = owner_with_shares(tmp_path, monkeypatch).search(4)
    engine, before = log_engine_of(owner), log_engine_of(owner)
    first = message_of(engine, ask_at(owner)).updates
    engine.memory, engine.positions = before.memory, before.positions
    assert not np.array_equal(message_of(engine, ask_at(owner)).updates, first)


def test_more_searches_than_a_message_may_have_go_into_the_next_in_order(owner):
    owner.search(11)
    engine, found = log_engine_of(owner), []
    ids = [each.id for each in reversed(owner.log.last(100))]
    for t in range(4):
        epoch = int(engine.positions[0])
        got = message_of(engine, ask_at(owner, t))
        if len(got):
            found.append([each.id for each in owner.log.of_epoch(epoch)])
            assert got.weights.tolist() == [float(len(found[-1]))]
    assert found == [ids[:4], ids[4:8], ids[8:]]


def test_without_searches_nothing_is_sent_and_no_epoch_is_closed(owner):
    epoch = owner.ranker.epoch.epoch
    engine = log_engine_of(owner)
    assert not len(message_of(engine, ask_at(owner)))
    assert owner.ranker.epoch.epoch == epoch
    owner.search(2)
    assert message_of(engine, ask_at(owner, 1)).weights.tolist() == [2.0]


def test_a_message_that_was_closed_and_never_stored_is_sent_after_a_restart(owner):
    """The first message of a device has no record that says which epoch it is of."""
    owner.search(3)
    first = message_of(log_engine_of(owner), ask_at(owner)).updates
    owner.run()  # stopped before the records had the answer
    owner.search(1, 3)
    engine = log_engine_of(owner)
    assert message_of(engine, ask_at(owner)).updates.tobytes() == first.tobytes()
    assert message_of(engine, ask_at(owner, 1)).weights.tolist() == [1.0]


def test_an_epoch_that_its_user_wants_forgotten_is_skipped(owner):
    owner.search(3)
    message_of(log_engine_of(owner), ask_at(owner))  # closed, and not stored
    ids = [each.id for each in owner.log.last(10)]
    owner.search(2, 3)
    owner.running.service.forget(ids)
    got = message_of(log_engine_of(owner), ask_at(owner, 1))
    assert got.weights.tolist() == [2.0]


def test_a_message_that_may_not_be_sent_changes_nothing(owner):
    owner.search(4)
    before = owner.ranker.epoch
    engine = log_engine_of(owner, may_send=lambda: False)
    assert not len(message_of(engine, ask_at(owner, 3, moved=1.0)))
    assert owner.ranker.epoch is before
    assert len(owner.log.of_epoch(before.epoch)) == 4


def test_the_ranker_goes_on_with_the_model_of_the_ask(owner):
    owner.search(4)
    ask = ask_at(owner, 3, moved=0.25)
    message_of(log_engine_of(owner), ask)
    assert owner.ranker.epoch.round == 3
    assert owner.ranker.epoch.params.tobytes() == ask.params.tobytes()
    owner.run()
    assert owner.ranker.epoch.params.tobytes() == ask.params.tobytes()


def test_an_older_model_does_not_replace_a_newer_one(owner):
    newer = (owner.gateway.params + np.float32(1.0)).astype(np.float32)
    owner.ranker.use_model(7, newer)
    owner.search(2)
    message_of(log_engine_of(owner), ask_at(owner, 5))
    assert owner.ranker.epoch.round == 7
    assert owner.ranker.epoch.params.tobytes() == newer.tobytes()


def test_searches_are_replayed_on_the_model_of_the_ask(owner):
    """It may be newer than the one that showed them."""
    owner.search(4)
    searches = [each.session for each in owner.log.of_epoch(owner.ranker.epoch.epoch)]
    before, newer = owner.ranker.epoch.memory, ask_at(owner, 9, moved=0.5)
    old, _ = replayed_message(owner, ask_at(owner, 9), searches, before)
    new, _ = replayed_message(owner, newer, searches, before)
    got = message_of(log_engine_of(owner), newer)
    assert got.updates.tobytes() == new.payload.tobytes() != old.payload.tobytes()


def test_a_round_of_unlearning_has_as_many_searches_as_it_asks_for(owner):
    owner.search(4)
    engine = log_engine_of(owner, sessions=2)
    assert engine.most == 2
    assert message_of(engine, ask_at(owner)).weights.tolist() == [2.0]
    assert len(owner.log.of_epoch(owner.ranker.epoch.epoch)) == 2  # the rest is sent later


def test_in_a_round_of_unlearning_a_device_is_padded_to_that_many(tmp_path, monkeypatch):
    agreed = pretend_agreement(privacy=replace(SHARES, where="server"), channel=None)
    owner = Owner(tmp_path / "u", PretendGateway(agreed), monkeypatch).join().search(1)
    assert message_of(log_engine_of(owner, sessions=2), ask_at(owner)).weights.tolist() == [2.0]


def test_what_was_forgotten_is_not_in_the_next_message(owner):
    """What the device keeps is that of its log, which was computed again, and not that of its last
    answer."""
    owner.gateway.ask()
    owner.search(4).once()
    owner.search(4, 4)
    sent = [each.id for each in owner.log.last(100) if each.sent == 0]
    owner.running.service.forget(sent)
    assert not owner.ranker.epoch.memory.any()
    present = [each.session for each in owner.log.of_epoch(owner.ranker.epoch.epoch)]
    ask = owner.gateway.next_round(0.0)
    owner.once()
    payload, _ = owner.gateway.updates[-1]
    nothing = np.zeros_like(owner.ranker.epoch.memory)
    expected, after = replayed_message(
        owner, Ask(owner.gateway.params, ask.round, 3), present, nothing
    )
    assert payload[0].tobytes() == expected.payload.tobytes()
    assert owner.ranker.epoch.memory.tobytes() == after.tobytes()


def test_a_newcomer_keeps_nothing_and_an_experienced_device_a_share():
    agreed = pretend_agreement()
    params = agreed.ranker.init(len(agreed.features), stream(0)).astype(np.float32)
    own = params + np.float32(1.0)
    assert not first_memory(agreed, own, params, 0).any()
    assert np.allclose(first_memory(agreed, own, params, 4), 0.5)
    shared = replace(agreed, learner=PDGD(sessions=4))
    assert len(first_memory(shared, own, params, 100)) == 0
    assert isinstance(agreed.learner, Personal)
