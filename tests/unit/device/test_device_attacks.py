"""What a server, a gateway, a wrong clock or a kill could make of a device's promises."""

import threading
import time

import numpy as np
import pytest
from pretend_gateway import (
    LAPLACE,
    Owner,
    PretendGateway,
    answer_round,
    pretend_agreement,
    private_owner,
    stopped_at,
)

from foltr.components.learners.es import ES
from foltr.deployment.gateway.client import Excluded, Unavailable
from foltr.deployment.protocol.frames import Kind
from foltr.device import membership
from foltr.device.budget import DAY, epsilon_after
from foltr.device.click_log import AGREEMENT
from foltr.device.learning import LARGEST
from foltr.device.searching import NAMES
from waiting import wait_until

HUGE = np.full(len(NAMES), 3e38, np.float32)


@pytest.fixture
def member(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement(rounds=50))
    return Owner(tmp_path / "device", gateway, monkeypatch).join()


def looked_at(owner, text="apple pear"):
    """A search without a click."""
    found = owner.running.service.search(text)
    owner.running.service.look(found["list"])
    return found


# --- models ---


def test_a_huge_model_is_refused_and_search_goes_on(member):
    member.search(4)
    before = member.ranker.weights.tobytes()
    member.gateway.params, member.gateway.round = HUGE, 1
    with pytest.raises(Unavailable, match="parameter of 3e\\+38"):
        member.membership.refresh()
    member.gateway.ask()
    member.once()
    assert not member.gateway.updates and member.ranker.weights.tobytes() == before
    member.running.leave(False)
    assert len(member.running.service.search("apple pear")["results"]) == 10
    assert np.abs(member.run().ranker.weights).max() < LARGEST


def test_who_leaves_with_unusable_weights_begins_anew(member):
    member.ranker.sofar = member.ranker.sofar._replace(
        sofar=member.ranker.sofar.sofar._replace(weights=HUGE)
    )
    member.running.leave(False)
    first = member.ranker.ranker.init(len(NAMES), None)
    assert np.array_equal(member.ranker.weights, first)


# --- what is sent, and how often ---


def test_the_budget_is_that_of_all_federations(tmp_path, monkeypatch):
    """A server that changes one word of its agreement must not get a new budget."""
    agreed = pretend_agreement(privacy=LAPLACE)
    two = epsilon_after(agreed.text, 2)
    owner = Owner(tmp_path / "d", PretendGateway(agreed), monkeypatch).join(epsilon=two)
    answer_round(owner)
    answer_round(owner, 4)
    owner.running.leave(False)
    other = PretendGateway(pretend_agreement(privacy=LAPLACE, rounds=7))
    again = Owner(tmp_path / "d", other, monkeypatch).join(epsilon=two)
    spent = again.membership.spent
    assert spent.over and spent.epsilon == pytest.approx(two) and spent.within_budget == 0
    answer_round(again, 8)
    assert not other.updates


def test_nothing_is_made_while_paused(member):
    """Also if the user pauses while the device waits for an ask."""
    member.search(4)
    member.gateway.ask()
    service = member.running.service
    member.gateway.fault = lambda name: service.pause(True) if name == "ask" else None
    stop = threading.Event()
    given = stop, lambda: service.paused
    thread = threading.Thread(target=member.membership.run, args=given)
    thread.start()
    requests = member.gateway.requests
    wait_until(lambda: "ask" in requests and "model" in requests[requests.index("ask") :])
    stop.set()
    member.membership.wake.set()
    thread.join(20.0)
    assert not thread.is_alive() and [each.kind for each in member.gateway.got] == [Kind.REFUSED]
    assert service.paused and not member.gateway.updates and not member.log.messages()


def test_the_weight_does_not_tell_how_many_searches_there_were(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 3, searches=2)
    owner.search(3)
    owner.gateway.ask()
    owner.once(only_due=True)
    assert [weights.tolist() for _, weights in owner.gateway.updates] == [[4.0]]


def test_a_clock_that_was_set_back_does_not_free_the_budget(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 2)
    now = time.time()
    answer_round(owner)
    monkeypatch.setattr(membership.time, "time", lambda: now - 800 * DAY)
    answer_round(owner, 4)
    monkeypatch.setattr(membership.time, "time", lambda: now + 1.0)
    assert owner.membership.spent.messages == 2 and owner.membership.spent.over


def test_a_clock_that_was_ahead_keeps_nothing_from_being_sent_again(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 4)
    now = time.time()
    monkeypatch.setattr(membership.time, "time", lambda: now + 3000 * DAY)
    answer_round(owner)
    monkeypatch.setattr(membership.time, "time", lambda: now)
    owner.search(4, 4)
    owner.gateway.next_round()
    owner.gateway.lost = True
    with pytest.raises(Unavailable):
        owner.once()
    assert owner.membership.finishing() and owner.membership._by() < now + 8 * DAY
    assert owner.membership.spent.messages == 2


def test_messages_before_a_clock_was_set_right_count_in_another_federation(tmp_path, monkeypatch):
    """Its first message is not older than the last one to anybody."""
    agreed = pretend_agreement(privacy=LAPLACE)
    one = epsilon_after(agreed.text, 1)
    owner = Owner(tmp_path / "d", PretendGateway(agreed), monkeypatch).join(epsilon=one)
    answer_round(owner)
    owner.running.leave(False)
    now = time.time()
    monkeypatch.setattr(membership.time, "time", lambda: now - 800 * DAY)
    other = PretendGateway(pretend_agreement(privacy=LAPLACE, rounds=7))
    again = Owner(tmp_path / "d", other, monkeypatch).join(epsilon=3.0 * one)
    answer_round(again, 8)
    monkeypatch.setattr(membership.time, "time", lambda: now + 1.0)
    assert again.membership.spent.messages == 1
    assert again.membership.spent.epsilon == pytest.approx(2.0 * one)


def test_an_agreement_that_cannot_be_read_any_more_counts_as_the_whole_budget(
    tmp_path, monkeypatch
):
    agreed = pretend_agreement(privacy=LAPLACE)
    owner = Owner(tmp_path / "d", PretendGateway(agreed), monkeypatch).join(epsilon=100.0)
    answer_round(owner)
    owner.running.leave(False)
    owner.log.set_about(AGREEMENT + agreed.id.hex(), b"of a version that is gone")
    other = PretendGateway(pretend_agreement(privacy=LAPLACE, rounds=7))
    again = Owner(tmp_path / "d", other, monkeypatch).join(epsilon=100.0)
    assert again.membership.spent.over and "other federations" in spent_words(again)


def spent_words(owner):
    return owner.running.status()["federation"]["budget"]["text"]


def test_rounds_stay_apart_for_a_device_that_joins_again(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement(rounds=50, separation=5))
    owner = Owner(tmp_path / "device", gateway, monkeypatch).join()
    answer_round(owner)
    owner.running.leave(True)
    gateway.standings[0] = "forgotten"
    owner.once()
    owner.running._go_on()
    again = Owner(tmp_path / "device", gateway, monkeypatch).join()
    own = (again.membership.client,)
    again.search(4, 4)
    for t in range(1, 6):
        gateway.next_round(clients=own)
        again.once()
        assert len(gateway.updates) == (1 if gateway.round < 5 else 2), t


@pytest.mark.parametrize("tried", [False, True], ids=["at once", "after another federation"])
def test_a_round_has_one_message_whoever_leaves_and_joins_again(
    member, tmp_path, monkeypatch, tried
):
    """Its records may be gone, if it was forgotten or has tried to join another federation."""
    member.search(4)
    member.gateway.ask()
    member.once()
    if tried:
        member.running.leave(False)
        other = PretendGateway(pretend_agreement(rounds=49))

        def refused(name):
            if name == "enrol":
                raise Excluded("no invitation")

        other.fault = refused
        with pytest.raises(Exception, match="no invitation"):
            Owner(tmp_path / "device", other, monkeypatch).join()
        member.gateway.standings.clear()
    else:
        member.running.leave(True)
        member.gateway.standings[0] = "forgotten"
        member.once()
        member.running._go_on()
    again = Owner(tmp_path / "device", member.gateway, monkeypatch).join()
    again.search(4, 4)
    own = (again.membership.client,)
    again.gateway.open = again.gateway.frame(clients=own)  # the round that it has answered
    again.once()
    assert len(again.gateway.updates) == 1 and len(again.log.messages()) == 1
    again.gateway.next_round(clients=own)
    again.once()
    assert len(again.gateway.updates) == 2 and len(again.log.messages()) == 2


def test_a_round_of_unlearning_takes_some_searches_and_the_rest_stays(member, monkeypatch):
    """Of an epoch that was closed for a message that was never made."""
    member.search(4)
    member.gateway.ask()
    with stopped_at(monkeypatch, member.membership.records, "keep"):
        member.once()
    member.run()
    member.gateway.ask(how=(1, -1))
    member.once()
    assert [weights.tolist() for _, weights in member.gateway.updates] == [[1.0]]
    assert member.sent() == {0: [1], None: [2, 3, 4]}
    weights = member.ranker.weights.tobytes()
    assert member.run().ranker.weights.tobytes() == weights


# --- forgetting ---


def files_with(owner, text):
    found = [path for path in owner.home.folder.rglob("*") if path.is_file()]
    return [path.name for path in found if text in path.read_bytes()]


def test_a_forgotten_query_is_nowhere_on_the_disk(member):
    looked_at(member, "apple marmaladequery")
    looked_at(member, "apple porcelainquery")
    assert files_with(member, b"marmaladequery")
    member.running.service.forget([1])
    assert not files_with(member, b"marmaladequery") and files_with(member, b"porcelainquery")
    member.running.service.forget(None)
    assert not files_with(member, b"porcelainquery")


@pytest.mark.parametrize("ids", [list(range(1, 51)), None], ids=["some", "all"])
def test_forgetting_happens_as_a_whole_or_not_at_all(tmp_path, monkeypatch, ids):
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(60)
    assert owner.ranker.epoch.epoch == 1
    with stopped_at(monkeypatch, owner.log, "_store"):
        owner.running.service.forget(ids)
    assert owner.run().log.counts()[0] == 60
    with stopped_at(monkeypatch, owner.log, "forget", after=True):
        owner.running.service.forget(ids)
    first = owner.ranker.ranker.init(len(NAMES), None)
    owner.run()
    assert owner.log.counts()[0] == (0 if ids is None else 10)
    assert np.array_equal(owner.ranker.epoch.params, first)


def test_who_deletes_everything_leaves_no_epoch_that_learned(tmp_path, monkeypatch):
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(130)
    owner.running.clear(False)
    first = owner.ranker.ranker.init(len(NAMES), None)
    assert [np.array_equal(each.params, first) for each in owner.log.epochs(0)] == [True]


def test_epochs_before_the_federation_go_with_their_searches(tmp_path, monkeypatch):
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(55)
    owner.join()
    owner.running.service.forget([each.id for each in owner.log.last(1000)])
    first = owner.ranker.ranker.init(len(NAMES), None)
    assert all(np.array_equal(each.params, first) for each in owner.log.epochs(0))


def test_a_message_that_has_not_arrived_says_nothing_of_forgotten_searches(member):
    member.search(4)
    member.gateway.ask()
    member.gateway.lost = True
    with pytest.raises(Unavailable):
        member.once(only_due=True)
    assert np.abs(member.membership._record().payload).max() > 0.0
    member.running.service.forget(None)
    member.gateway.lost = False
    member.once(only_due=True)
    assert [np.abs(update).max() for update, _ in member.gateway.updates] == [0.0]
    assert len(member.log.messages()) == 1


def test_a_kill_while_forgetting_leaves_no_message_of_forgotten_searches(member, monkeypatch):
    member.search(4)
    member.gateway.ask()
    member.gateway.lost = True
    with pytest.raises(Unavailable):
        member.once(only_due=True)
    with stopped_at(monkeypatch, member.log, "forget", after=True):
        member.running.service.forget(None)
    member.gateway.lost = False
    member.run().once(only_due=True)
    assert [np.abs(update).max() for update, _ in member.gateway.updates] == [0.0]


def test_a_search_of_a_round_of_es_can_be_forgotten(tmp_path, monkeypatch):
    agreed = pretend_agreement(learner=ES(sessions=4), rounds=50)
    owner = Owner(tmp_path / "device", PretendGateway(agreed), monkeypatch).join()
    answer_round(owner)
    owner.search(2, 4)
    assert owner.sent() == {0: [1, 2, 3, 4], None: [5, 6]}
    owner.running.service.forget([2])
    assert owner.sent() == {0: [1, 3, 4], None: [5, 6]}


def test_forgetting_a_search_without_a_click_changes_nothing(member):
    looked_at(member)
    member.search(3)
    member.gateway.ask(moved=0.5)  # the message is made on another model than the lists
    member.once()
    member.search(2, 3)
    before = member.ranker.weights.copy()
    assert not member.log.one(1).clicks.any()
    member.running.service.forget([1])
    assert np.allclose(member.ranker.weights, before, atol=1e-6)


# --- live and restarted ---


def test_a_search_while_the_device_is_forgotten_is_learned_from_after_a_restart(member):
    """The answer is on its way, and the page has not gone on alone yet."""
    member.search(4)
    service = member.running.service
    member.membership.end(keys=True)
    assert member.running.status()["federation"] is None
    found = looked_at(member)
    service.open(found["list"], found["results"][1]["id"], "preview")
    member.running._go_on()
    member.search(2, 10)
    weights = member.ranker.weights.tobytes()
    assert member.run().ranker.weights.tobytes() == weights


def test_an_open_search_does_not_change_the_next_list(member):
    member.search(3)
    looked_at(member)
    made = member.ranker.made
    assert made == member.run().ranker.made == 3
