"""A device joins a federation, leaves it, and is forgotten, at a gateway in the test's process."""

from dataclasses import replace

import numpy as np
import pytest
from pretend_gateway import (
    URL,
    Owner,
    PretendGateway,
    answer_round,
    pretend_agreement,
    private_owner,
    reachable,
    stopped_at,
    unreachable,
)

from foltr.components.channels.secure_sum import SecureSum
from foltr.core.errors import Mistake
from foltr.deployment.gateway.client import Unavailable
from foltr.deployment.gateway.device_folder import KEY
from foltr.deployment.protocol.frames import Model, read_refusal
from foltr.deployment.protocol.participant import MASKED
from foltr.device import membership
from foltr.device.budget import epsilon_after
from foltr.device.click_log import ClickLog
from foltr.device.home import DeviceRecords, FederationFiles, Home
from foltr.device.joining import check_fits, offered
from foltr.device.learning import LocalRanker
from foltr.device.searching import NAMES
from waiting import wait_until


@pytest.fixture
def owner(tmp_path, monkeypatch):
    return Owner(tmp_path / "device", PretendGateway(pretend_agreement()), monkeypatch).join()


# --- joining ---


def test_other_features_are_refused_before_joining_and_one_is_named():
    agreed = pretend_agreement()
    for features, named in (
        ((*NAMES[:-1], "colour"), "colour"),
        (NAMES[:-1], NAMES[-1]),
        ((*NAMES, "colour"), "colour"),
        (NAMES[::-1], "in their order"),
    ):
        with pytest.raises(Mistake, match=named):
            check_fits(replace(agreed, features=features), URL)
    check_fits(agreed, URL)


def test_a_federation_that_needs_the_keys_of_all_devices_is_refused():
    pinned = pretend_agreement(channel=SecureSum(consistency=True), fewest=3)
    with pytest.raises(Mistake, match="needs the keys of all devices"):
        check_fits(pinned, URL)
    check_fits(pretend_agreement(channel=SecureSum(), fewest=3), URL)


@pytest.mark.parametrize("url", ["https://localhost:port", "localhost:1", "http://a.example:1"])
def test_an_address_that_is_none_is_a_mistake(url):
    with pytest.raises(Mistake, match="https://HOST:PORT"):
        offered(url, None)


def test_what_is_no_gateway_is_a_mistake(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement())
    Owner(tmp_path, gateway, monkeypatch)
    gateway.agreed = replace(gateway.agreed, rounds=7)
    assert offered(URL, None)[0].rounds == 7
    for about in ({}, {"agreement": 3}, {"agreement": "nonsense"}, {"agreement": "[]"}):
        monkeypatch.setattr("pretend_gateway.PretendClient.about", lambda self, a=about: a)
        with pytest.raises(Mistake, match=r"gateway of foltr|text of an agreement"):
            offered(URL, None)


def test_a_device_that_was_stopped_while_joining_joins_again_with_the_same_number(
    tmp_path, monkeypatch
):
    gateway = PretendGateway(pretend_agreement())
    owner = Owner(tmp_path / "d", gateway, monkeypatch).run().search(5)
    weights = owner.ranker.weights.tobytes()

    for where, name in (
        (DeviceRecords, "renumber"),
        (Home, "set_terms"),
        (DeviceRecords, "restart"),
        (ClickLog, "begin_period"),
    ):
        with stopped_at(monkeypatch, where, name):
            owner.join()
        owner.run()
        assert owner.membership is None, name  # it searches as before
        assert owner.ranker.weights.tobytes() == weights
        owner.running.service.search("apple")
    owner.join()
    assert owner.membership.client == 0 and len(gateway.keys) == 1
    assert not np.array_equal(owner.ranker.weights, np.frombuffer(weights, np.float32))


def test_a_gateway_whose_model_is_false_is_not_joined(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement())
    owner = Owner(tmp_path / "d", gateway, monkeypatch).run()
    good = gateway.frame(clients=())
    bad = replace(good, payload=Model(gateway.params + np.float32(1.0)).to_bytes()).to_bytes()
    monkeypatch.setattr("pretend_gateway.PretendClient.model", lambda self: ("", bad))
    with pytest.raises(Mistake, match=r"hash does not fit.*not joined"):
        owner.join()
    assert owner.run().membership is None


def test_an_open_search_belongs_to_the_federation_that_is_joined(tmp_path, monkeypatch):
    """It is learned from later: it is in a message of its time."""
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(2)
    found = owner.running.service.search("apple pear")
    owner.running.service.look(found["list"])
    owner.join()
    owner.search(3, 2)
    assert owner.membership.due()
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live
    owner.gateway.ask()
    owner.once()
    assert owner.sent() == {None: [1, 2], 0: [3, 4, 5, 6]}


def test_searches_from_before_joining_are_never_sent(tmp_path, monkeypatch):
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(3)
    owner.join()
    assert not owner.membership.due() and owner.running.status()["federation"]["next"] == {
        "searches": 0, "of": 4, "by": owner.membership._by(),
    }  # fmt: skip
    answer_round(owner, 3)
    assert owner.sent() == {None: [1, 2, 3], 0: [4, 5, 6, 7]}


# --- leaving ---


def leave_and_check(owner, text="takes part no more"):
    weights = owner.ranker.weights.tobytes()
    assert text in owner.running.leave(False)
    assert_alone(owner, weights)
    return weights


def assert_alone(owner, weights):
    assert owner.running.membership is None
    assert owner.ranker.weights.tobytes() == weights
    owner.run()
    assert owner.running.membership is None
    assert owner.ranker.weights.tobytes() == weights
    assert owner.home.federation.joined is None and owner.home.terms is None


def test_after_leaving_the_ranker_is_the_same_and_learns_on(owner):
    answer_round(owner)
    owner.search(3, 4)
    weights = leave_and_check(owner)
    assert owner.gateway.standings == {0: "left"}
    owner.search(2, 7)
    assert owner.ranker.weights.tobytes() != weights
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live


def test_a_device_that_leaves_while_it_waits_for_an_ask_does_not_answer_it(owner):
    owner.search(4)
    before = owner.membership

    def leaving(name):
        if name == "ask":  # the user leaves on the page, in another thread
            owner.gateway.fault = unreachable
            owner.running.leave(False)

    owner.gateway.ask()
    owner.gateway.fault = leaving
    with pytest.raises(Unavailable, match="has left"):
        before.once()
    assert not owner.gateway.got and not owner.log.messages()


def test_a_device_leaves_while_its_gateway_is_away(owner):
    """Nobody can be held in a federation by a gateway that is gone."""
    owner.search(2)

    owner.gateway.fault = unreachable
    leave_and_check(owner, "The gateway could not be told")
    owner.gateway.fault = reachable
    owner.join()  # with the same key, and so the same number
    assert owner.membership.client == 0


def test_a_device_that_has_left_joins_again_under_another_number(owner):
    answer_round(owner)
    leave_and_check(owner)
    with pytest.raises(Mistake, match="has not joined"):
        owner.running.leave(False)
    owner.search(2, 4)
    owner.join()
    assert owner.membership.client == 1
    assert len(owner.membership._messages()) == 1  # its budget stays spent
    owner.gateway.round = 1
    owner.gateway.open = owner.gateway.frame(clients=(1,))
    owner.search(4, 6)
    owner.once()
    assert len(owner.gateway.updates) == 2
    assert owner.sent() == {0: [1, 2, 3, 4], None: [5, 6], 1: [7, 8, 9, 10]}


def test_a_budget_that_is_spent_stays_spent_when_the_device_joins_again(tmp_path, monkeypatch):
    owner = private_owner(tmp_path / "d", monkeypatch, 1)
    answer_round(owner)
    leave_and_check(owner)
    owner.join(epsilon=owner.gateway and epsilon_after(owner.gateway.agreed.text, 1))
    owner.search(4, 4)
    assert owner.membership.spent.over and not owner.membership.due()


def test_a_device_joins_another_federation_after_the_first(tmp_path, monkeypatch):
    """Its rounds begin again, and have nothing to do with those of the first."""
    one, two = PretendGateway(pretend_agreement()), PretendGateway(pretend_agreement(rounds=9))
    owner = Owner(tmp_path / "d", one, monkeypatch).join()
    for t in range(3):
        answer_round(owner, 4 * t)
    owner.membership.records.set_about(MASKED, (99).to_bytes(8, "little") + bytes(32))
    leave_and_check(owner)
    owner = Owner(tmp_path / "d", two, monkeypatch).join()
    assert owner.membership.spent.messages == 0 and owner.membership.spent.ever == 0
    assert owner.log.about(MASKED) is None
    answer_round(owner, 12)
    assert len(two.updates) == 1 and owner.membership.spent.ever == 1
    assert len(owner.log.messages()) == 4
    leave_and_check(owner)
    owner = Owner(tmp_path / "d", one, monkeypatch).join()
    assert owner.membership.spent.ever == 3  # of the first federation


@pytest.mark.parametrize(
    "where, name",
    [
        (FederationFiles, "delete_keys"),
        (LocalRanker, "end_membership"),
        (FederationFiles, "clear"),
    ],
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_device_that_is_stopped_while_leaving_can_leave_and_join(
    owner, monkeypatch, where, name, after
):

    answer_round(owner)
    owner.search(3, 4)
    weights = owner.ranker.weights.tobytes()
    with stopped_at(monkeypatch, where, name, after):
        owner.running.leave(False)
    owner.run()
    assert owner.ranker.weights.tobytes() == weights
    if owner.membership is not None:
        owner.running.leave(False)
    assert owner.ranker.weights.tobytes() == weights
    owner.join()
    assert owner.membership.client == 1
    owner.gateway.round = 1
    owner.gateway.open = owner.gateway.frame(clients=(1,))
    owner.search(4, 7)
    owner.once()
    assert len(owner.gateway.updates) == 2


# --- being forgotten ---


def tell_it_is_forgotten(owner):
    """Let the server unlearn the device, and tell it."""
    assert owner.gateway.standings[owner.membership.client] == "to be forgotten"
    owner.gateway.standings[owner.membership.client] = "forgotten"
    assert owner.running.wait_forgotten(5.0)


def no_records_of(owner):
    with owner.log._told():
        rows = [owner.log._db.execute(f"select count(*) from {t}") for t in ("client", "norm")]
        return [row.fetchone()[0] for row in rows] == [0, 0]


def test_a_device_is_forgotten_and_deletes_what_it_kept_for_that(tmp_path, monkeypatch):
    gateway = PretendGateway(pretend_agreement(history=1))
    owner = Owner(tmp_path / "d", gateway, monkeypatch).join()
    answer_round(owner)
    assert not no_records_of(owner)
    owner.search(3, 4)
    weights = owner.ranker.weights.tobytes()
    assert "The gateway has the request" in owner.running.leave(True)
    assert owner.membership.leaving and (owner.home.folder / KEY).exists()
    owner.gateway.next_round()
    owner.once()
    assert read_refusal(owner.gateway.got[-1].payload)[0] == "forget"
    tell_it_is_forgotten(owner)
    assert owner.gateway.standings == {0: "gone"}
    assert no_records_of(owner) and not (owner.home.folder / KEY).exists()
    assert_alone(owner, weights)
    assert len(owner.log.messages()) == 1  # what was sent was sent: the budget stays spent


def test_a_device_that_was_forgotten_joins_again(owner):
    answer_round(owner)
    owner.running.leave(True)
    tell_it_is_forgotten(owner)
    owner.search(1, 4)
    owner.join()
    assert owner.membership.client == 1 and not owner.membership.leaving
    owner.gateway.round = 1
    owner.gateway.open = owner.gateway.frame(clients=(1,))
    owner.search(4, 5)
    owner.once()
    assert len(owner.gateway.updates) == 2 and owner.membership.spent.ever == 2


def test_a_wish_to_be_forgotten_is_stored_and_repeated_until_the_gateway_has_it(owner):
    owner.gateway.fault = unreachable
    text = owner.running.leave(True)
    assert "is stored, and not confirmed yet" in text and "no connection" in text
    assert not owner.running.wait_forgotten(0.0)
    owner.run()
    assert owner.membership.leaving
    assert "not confirmed yet" in owner.running.status()["federation"]["pending"]
    with pytest.raises(Unavailable):
        owner.once()
    owner.gateway.fault = reachable
    owner.once()
    assert owner.gateway.standings == {0: "to be forgotten"}
    assert "The gateway has the request" in owner.running.leave(True)  # twice is as once
    tell_it_is_forgotten(owner)
    with pytest.raises(Mistake, match="has not joined"):
        owner.running.leave(True)


def test_the_page_s_thread_asks_to_be_forgotten_until_it_is(owner, monkeypatch):
    monkeypatch.setattr(membership, "LOOK", 0.01)
    faults = [Unavailable("no connection")] * 3

    def failing(name):
        if faults:
            raise faults.pop()
        if owner.gateway.standings[0] == "to be forgotten":
            owner.gateway.standings[0] = "forgotten"

    owner.gateway.fault = failing
    answer = owner.running.leave(True)
    assert "not confirmed yet" in answer
    weights = owner.ranker.weights.tobytes()
    with owner.running.started():
        wait_until(lambda: owner.running.membership is None)
    assert_alone(owner, weights)
    assert any("has forgotten this device" in text for text in owner.told)


@pytest.mark.parametrize(
    "where, name, after",
    [
        (DeviceRecords, "forget", False),
        (DeviceRecords, "forget", True),
        (FederationFiles, "delete_keys", False),
        (FederationFiles, "delete_keys", True),
        (LocalRanker, "end_membership", True),
        (FederationFiles, "clear", True),
    ],
)
def test_a_device_that_is_stopped_while_it_is_forgotten_finishes(
    owner, monkeypatch, where, name, after
):

    answer_round(owner)
    owner.search(3, 4)
    weights = owner.ranker.weights.tobytes()
    owner.running.leave(True)
    owner.gateway.standings[0] = "forgotten"
    with stopped_at(monkeypatch, where, name, after):
        owner.once()
    owner.run()
    assert owner.ranker.weights.tobytes() == weights
    if owner.membership is not None:  # it has not heard it yet
        assert owner.membership.leaving
        forgotten_again = owner.running.wait_forgotten(5.0)
        assert forgotten_again
    assert not (owner.home.folder / KEY).exists() and no_records_of(owner)
    owner.join()
    assert owner.membership.client == 1 and not owner.membership.leaving
    assert owner.home.federation.joined is not None


def test_who_gives_up_waiting_to_be_forgotten_can_just_leave(owner):
    answer_round(owner)
    owner.gateway.fault = unreachable
    owner.running.leave(True)
    leave_and_check(owner)
    owner.gateway.fault = reachable
    owner.join()
    assert not owner.membership.leaving
    owner.gateway.next_round()
    owner.search(4, 4)
    owner.once()
    assert len(owner.gateway.updates) == 2
