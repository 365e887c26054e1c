"""What a device sends to its federation, at a gateway in the test's process."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from pretend_gateway import (
    LAPLACE,
    URL,
    Owner,
    PretendGateway,
    answer_round,
    pretend_agreement,
    private_owner,
    reachable,
    stopped_at,
)

from foltr.core.errors import Mistake
from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway.client import Unavailable
from foltr.deployment.protocol.frames import Kind, Model, read_refusal
from foltr.device import membership
from foltr.device.budget import DAY, epsilon_after
from foltr.device.home import Terms
from foltr.device.joining import model_in, terms_text
from old_records import content_of, store_as_before
from waiting import wait_until


@pytest.fixture
def owner(tmp_path, monkeypatch):
    return Owner(tmp_path / "device", PretendGateway(pretend_agreement()), monkeypatch).join()


# --- sending ---


def test_a_device_is_due_after_its_searches(owner):
    owner.search(3)
    assert not owner.membership.due()
    owner.search(1, 3)
    assert owner.membership.due()


def test_a_device_is_due_after_some_days_with_fewer_searches(owner, monkeypatch):
    later = time.time() + 8 * DAY
    monkeypatch.setattr(membership.time, "time", lambda: later)
    assert not owner.membership.due()  # there is nothing to send
    owner.search(1)
    assert owner.membership.due()


def test_a_search_is_in_one_message_and_none_is_lost(owner):
    for t in range(3):
        answer_round(owner, 4 * t)
    ids = [each.id for each in reversed(owner.log.last(100))]
    assert owner.sent() == {0: ids[:4], 1: ids[4:8], 2: ids[8:]}
    assert [weights.tolist() for _, weights in owner.gateway.updates] == [[4.0]] * 3


def test_a_round_that_is_asked_again_gets_the_same_bytes_and_no_new_search(owner):
    answer_round(owner)
    first = owner.gateway.got[-1].payload
    owner.search(4, 4)
    owner.gateway.open = owner.gateway.frame()  # the same model, another nonce
    owner.once()
    assert owner.gateway.got[-1].payload == first
    owner.run()
    owner.gateway.open = owner.gateway.frame()
    owner.once()
    assert owner.gateway.got[-1].payload == first
    assert len(owner.log.messages()) == 1 and len(owner.sent()[None]) == 4


def test_another_model_in_the_same_round_gets_no_second_message(owner):
    """A server could otherwise ask for the same searches as often as it likes."""
    answer_round(owner)
    owner.search(4, 4)
    owner.gateway.ask(moved=0.5)  # the same round
    owner.once()
    assert len(owner.gateway.updates) == 1 and len(owner.log.messages()) == 1
    assert owner.membership.spent.ever == 1 and owner.membership.due()
    answer_round(owner, 1)  # the next round has the new searches
    assert owner.sent() == {0: [1, 2, 3, 4], 1: [5, 6, 7, 8], None: [9, 10, 11, 12]}


def test_an_answer_that_was_lost_is_sent_again_without_new_searches(owner):
    """The device stays connected until the gateway has its answer."""
    owner.search(4)
    owner.gateway.ask()
    owner.gateway.lost = True
    with pytest.raises(Unavailable):
        owner.once()
    assert not owner.membership.due() and owner.membership.finishing()
    owner.run()
    assert owner.membership.finishing()
    owner.gateway.lost = False
    owner.once(only_due=True)
    assert len(owner.gateway.updates) == 1
    assert not owner.membership.finishing()
    assert len(owner.log.messages()) == 1


def test_a_device_stops_waiting_for_a_round_that_is_long_over(owner, monkeypatch):
    owner.search(4)
    owner.gateway.ask()
    owner.gateway.lost = True
    with pytest.raises(Unavailable):
        owner.once()
    later = time.time() + membership.AWAITED + 1.0
    monkeypatch.setattr(membership.time, "time", lambda: later)
    assert not owner.membership.finishing()


def test_while_an_answer_is_on_its_way_no_other_message_is_made_before_its_time(owner):
    owner.search(4)
    owner.gateway.ask()
    owner.gateway.lost = True
    with pytest.raises(Unavailable):
        owner.once()
    owner.gateway.lost = False
    owner.search(1, 4)
    owner.gateway.next_round()
    owner.once(only_due=True)
    code, _ = read_refusal(owner.gateway.got[-1].payload)
    assert code == "failed" and len(owner.log.messages()) == 1
    assert len(owner.sent()[None]) == 1


def run_until(owner, ready):
    """Run the thread that takes part until something has happened."""
    stop = threading.Event()
    owner.membership.soon_seconds = 0.01
    thread = threading.Thread(target=owner.membership.run, args=(stop,))
    thread.start()
    try:
        wait_until(ready)
    finally:
        stop.set()
        owner.membership.wake.set()
        thread.join(20)
    assert not thread.is_alive()


def test_the_page_s_thread_answers_once_and_then_only_looks_for_models(owner):
    """An ask that was answered is not answered again and again."""
    owner.search(4)
    owner.gateway.ask()
    run_until(owner, lambda: owner.gateway.requests.count("model") >= 4)
    assert owner.gateway.requests.count("ask") == 1 and len(owner.gateway.updates) == 1


def test_the_page_s_thread_sends_an_answer_again_that_was_lost(owner, monkeypatch):
    monkeypatch.setattr(membership, "LOOK", 0.01)

    def losing(name):
        owner.gateway.lost = owner.gateway.requests.count("ask") <= 2

    owner.gateway.fault = losing
    owner.search(4)
    owner.gateway.ask()
    run_until(owner, lambda: owner.gateway.updates)
    assert owner.gateway.requests.count("ask") == 3 and len(owner.log.messages()) == 1


def test_an_ask_that_was_answered_is_not_answered_again(owner):
    answer_round(owner)
    owner.once()
    assert owner.gateway.requests.count("ask") == 2 and len(owner.gateway.got) == 1


@pytest.mark.parametrize(
    "fault", [Unavailable("no connection"), Mistake("the certificate has expired")]
)
def test_the_page_s_thread_goes_on_after_a_fault(owner, monkeypatch, fault):
    monkeypatch.setattr(membership, "LOOK", 0.01)
    faults = [fault, fault]

    def failing(name):
        if faults:
            raise faults.pop()

    owner.gateway.fault = failing
    owner.search(4)
    owner.gateway.ask()
    run_until(owner, lambda: owner.gateway.updates)
    assert sum(str(fault) in text for text in owner.told) == 2


def test_a_device_that_the_gateway_excludes_says_so_and_does_not_ask_again_at_once(owner):
    owner.gateway.standings[0] = "revoked"
    owner.search(4)
    run_until(owner, lambda: owner.told)
    assert owner.gateway.requests.count("ask") == 1
    text = owner.running.status()["federation"]["pending"]
    assert URL in text and "is revoked" in text and "foltr device leave" in text
    before = owner.ranker.weights
    owner.search(1, 4)
    assert not np.array_equal(owner.ranker.weights, before)  # it goes on learning
    assert "takes part no more" in owner.running.leave(False)
    assert owner.running.membership is None


def test_leaving_while_the_thread_waits_ends_it(owner):
    owner.gateway.standings[0] = "revoked"
    owner.search(4)
    with owner.running.started():
        wait_until(lambda: owner.told)
        old, ended = owner.membership, threading.Event()
        old.gateway.close = ended.set
        owner.running.leave(False)
        asked = len(owner.gateway.requests)
        assert ended.wait(20.0)
        assert old.over and len(owner.gateway.requests) == asked
        epoch = owner.ranker.epoch.epoch
    assert owner.ranker.epoch.epoch == epoch and owner.membership is None


# --- the budget ---


def test_when_the_budget_is_spent_nothing_is_sent_and_all_else_goes_on(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 2)
    for t in range(2):
        answer_round(owner, 4 * t)
    owner.search(4, 8)
    assert owner.membership.spent.over and not owner.membership.due()
    text = owner.running.status()["federation"]["budget"]["text"]
    assert "The budget is spent (2 of 2 messages in 365 days)" in text
    owner.gateway.next_round(0.5)
    owner.once()  # even if it is asked
    assert len(owner.gateway.updates) == 2
    assert read_refusal(owner.gateway.got[-1].payload)[0] == "failed"
    weights = owner.ranker.weights
    owner.search(1, 12)
    assert not np.array_equal(owner.ranker.weights, weights)
    assert owner.membership.refresh()
    assert owner.ranker.epoch.round == 2
    assert owner.ranker.epoch.params.tobytes() == owner.gateway.params.tobytes()
    assert len(owner.sent()[None]) == 5


def test_after_the_period_the_budget_is_there_again(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 1, period=30.0)
    answer_round(owner)
    owner.search(4, 4)
    assert not owner.membership.due()
    later = time.time() + 30.5 * DAY
    monkeypatch.setattr(membership.time, "time", lambda: later)
    assert owner.membership.due()
    owner.gateway.next_round()
    owner.once()
    assert len(owner.gateway.updates) == 2 and not owner.membership.due()


def test_the_agreement_s_rounds_end_the_sending_for_good(tmp_path, monkeypatch):
    agreed = pretend_agreement(rounds=2)
    owner = Owner(tmp_path / "d", PretendGateway(agreed), monkeypatch).join(period=1.0)
    for t in range(2):
        answer_round(owner, 4 * t)
    owner.search(4, 8)
    later = time.time() + 400 * DAY
    monkeypatch.setattr(membership.time, "time", lambda: later)
    assert not owner.membership.due()
    text = owner.running.status()["federation"]["budget"]["text"]
    assert text == "This device has sent all 2 messages that the agreement allows."


def test_a_server_that_asks_one_round_with_many_models_gets_one_message(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 2)
    owner.search(4)
    for _ in range(5):
        owner.gateway.ask(moved=0.1)
        owner.once()
    assert len(owner.gateway.updates) == 1 and len(owner.log.messages()) == 1


def test_a_budget_that_buys_nothing_is_said_before_joining():
    agreed = pretend_agreement(privacy=LAPLACE)
    poor = terms_text(agreed, "every update", Terms(URL, epsilon=0.1))
    assert "which buys 0 messages" in poor[-2] and "too little for one message" in poor[-1]
    rich = terms_text(agreed, "every update", Terms(URL, epsilon=epsilon_after(agreed.text, 3)))
    assert "which buys 3 messages" in rich[-1]


# --- stopped at any moment ---

MOMENTS = {
    "before the answer is stored": ("records", "keep", False),
    "after the answer is stored": ("records", "keep", True),
    "before the message is noted": ("log", "note_message", False),
    "after the message is noted": ("log", "note_message", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_device_that_is_stopped_sends_what_it_would_have_sent(
    tmp_path, monkeypatch, moment, first
):
    gateway = PretendGateway(pretend_agreement())
    owner = Owner(tmp_path / "a", gateway, monkeypatch).join()
    if not first:
        answer_round(owner)
    owner.search(6, 4)
    secret = owner.log.about("secret")
    part, name, after = MOMENTS[moment]
    where = owner.membership.records if part == "records" else owner.log
    gateway.ask() if first else gateway.next_round()
    with stopped_at(monkeypatch, where, name, after):
        owner.once()
    owner.run()
    owner.once()
    sent, kept = gateway.updates[-1][0].tobytes(), owner.ranker.epoch.memory.tobytes()
    messages = [round for round, _ in owner.log.messages()]
    assert messages == ([0] if first else [0, 1])
    assert len(owner.sent()[None]) == 2  # they are beyond those of one message

    again = PretendGateway(pretend_agreement())
    other = Owner(tmp_path / "b", again, monkeypatch).join()
    other.log.set_about("secret", secret)
    other.run()
    if not first:
        answer_round(other)
    other.search(6, 4)
    again.ask() if first else again.next_round()
    other.once()
    assert again.updates[-1][0].tobytes() == sent
    assert other.ranker.epoch.memory.tobytes() == kept
    assert other.ranker.weights.tobytes() == owner.ranker.weights.tobytes()


def test_a_full_disk_stops_the_message_and_loses_nothing(owner):
    owner.search(4)
    records = owner.membership.records
    pages = records._db.execute("pragma page_count").fetchone()[0]
    records._db.execute(f"pragma max_page_count = {pages}")
    keep = records.keep

    def keep_after_others(*given):
        """The last pages are taken by others: an answer is small, and may find room in them."""
        with records._transaction():
            records._db.execute("create table taken as select zeroblob(1000000)")
        keep(*given)

    records.keep = keep_after_others
    owner.gateway.ask()
    owner.once()
    assert read_refusal(owner.gateway.got[-1].payload)[0] == "disk"
    assert any("disk is full" in text and "free some space" in text for text in owner.told)
    assert not owner.log.messages() and owner.membership.due()
    records.keep = keep
    records._db.execute("pragma max_page_count = 1073741823")
    owner.search(1, 4)
    owner.gateway.next_round()
    owner.once()
    assert owner.gateway.updates[0][1].tolist() == [4.0]
    assert owner.sent() == {1: [1, 2, 3, 4], None: [5]}


def test_a_disk_that_is_full_when_the_message_is_noted_stops_it_too(owner, monkeypatch):
    """The answer is stored: it is sent when there is room again, bit for bit."""
    owner.search(4)
    owner.gateway.ask()

    def full(*given, **named):
        raise Unusable("the index cannot be used (database or disk is full)")

    with monkeypatch.context() as patch, pytest.raises(Unusable):
        patch.setattr(owner.log, "note_message", full)
        owner.once()
    assert not owner.gateway.got and owner.membership.due()
    stored = owner.membership.records.of([0])[0].payload.tobytes()
    owner.once()
    assert owner.gateway.updates[0][0].tobytes() == stored
    assert owner.sent() == {0: [1, 2, 3, 4]}


# --- models ---


def test_a_device_that_was_away_for_many_rounds_goes_on_with_the_newest_model(owner):
    answer_round(owner)
    for _ in range(40):
        owner.gateway.next_round(0.01)
    owner.search(4, 4)
    owner.once()
    assert owner.log.messages()[-1][0] == 40
    assert owner.ranker.epoch.round == 40
    assert owner.ranker.epoch.params.tobytes() == owner.gateway.params.tobytes()


def test_a_model_whose_hash_does_not_fit_is_refused():
    gateway = PretendGateway(pretend_agreement())
    good = gateway.frame(clients=())
    assert np.array_equal(model_in(good.to_bytes(), gateway.agreed)[1], gateway.params)
    payload = Model(gateway.params + np.float32(1.0)).to_bytes()
    for bad in (
        replace(good, payload=payload).to_bytes(),
        replace(good, payload=payload[:-4]).to_bytes(),
        replace(good, federation=bytes(16)).to_bytes(),
        replace(good, features=bytes(len(good.features))).to_bytes(),
        good.to_bytes()[:20],
        b"",
    ):
        with pytest.raises(Unavailable, match="the gateway's model"):
            model_in(bad, gateway.agreed)


def test_a_bad_model_changes_nothing_on_the_device(owner):
    owner.search(2)
    weights = owner.ranker.weights.tobytes()
    usual = owner.gateway.frame
    owner.gateway.round = 5

    def lying(*given, **other):
        wrong = Model(owner.gateway.params + np.float32(1.0)).to_bytes()
        return replace(usual(*given, **other), payload=wrong)

    owner.gateway.frame = lying
    with pytest.raises(Unavailable, match="hash does not fit"):
        owner.membership.refresh()
    owner.gateway.open = lying(Kind.LEARN)
    owner.once()
    assert read_refusal(owner.gateway.got[-1].payload)[0] == "model"
    assert owner.ranker.weights.tobytes() == weights
    assert owner.ranker.epoch.round == 0 and len(owner.sent()[None]) == 2


def test_a_look_for_a_model_that_failed_is_repeated(owner):
    owner.gateway.round, owner.gateway.params = 3, owner.gateway.params + np.float32(0.1)

    def failing(name):
        raise Unavailable("no connection")

    owner.gateway.fault = failing
    with pytest.raises(Unavailable):
        owner.membership.refresh()
    owner.gateway.fault = reachable
    assert owner.membership.refresh()
    assert not owner.membership.refresh()  # it looked just now
    assert owner.ranker.epoch.round == 3


# --- the upload window is an integer of its own ---


def window_of(owner):
    return owner.membership.records.of([0])[0].position_after


def test_a_home_of_an_earlier_version_goes_on_with_the_next_window(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement())
    owner = answer_round(answer_round(Owner(tmp_path / "a", gateway, monkeypatch).join()), 4)
    before = owner.membership.records.of([0])[0]
    store_as_before(owner.home.index_file)
    owner.run()
    after = owner.membership.records.of([0])[0]
    assert after.before.tobytes() == before.before.tobytes()
    assert after.after.tobytes() == before.after.tobytes()
    assert (after.position_before, after.position_after) == (2, 3)
    answer_round(owner, 8)
    assert owner.sent() == {0: [1, 2, 3, 4], 1: [5, 6, 7, 8], 2: [9, 10, 11, 12]}
    store_as_before(owner.home.index_file)
    owner.run().running.service.forget(None)  # nothing of a forgotten search stays in a copy
    assert not any("before_positions" in line for line in content_of(owner.home.index_file))


@pytest.mark.parametrize("earlier", [False, True])
def test_windows_beyond_2_to_the_24_are_told_apart(tmp_path, monkeypatch, earlier):
    gateway = PretendGateway(pretend_agreement())
    owner = Owner(tmp_path / "a", gateway, monkeypatch)
    owner.run()
    first = 2**24 - 2
    owner.log.set_epochs([owner.ranker.epoch._replace(epoch=first)])
    owner.join()
    for t in range(4):
        answer_round(owner, 4 * t)
        assert window_of(owner) == first + 2 + t
        if earlier:  # from 2**24 on that version could not store every window
            store_as_before(owner.home.index_file)
            owner.run()
            assert window_of(owner) == first + 2 + t
    assert owner.sent() == {t: [4 * t + i for i in (1, 2, 3, 4)] for t in range(4)}
