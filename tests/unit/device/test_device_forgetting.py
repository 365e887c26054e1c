"""What a user of a device in a federation wants forgotten on the device, and its files."""

import numpy as np
import pytest
from pretend_gateway import (
    Owner,
    PretendGateway,
    answer_round,
    pretend_agreement,
    stopped_at,
    told_by,
)

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.mlp import MLP
from foltr.core.errors import Mistake
from foltr.deployment.gateway.device_folder import JOINED, KEY
from foltr.deployment.protocol.frames import read_refusal
from foltr.device.home import INDEX, TERMS
from foltr.device.running import Running
from foltr.device.searching import NAMES


@pytest.fixture
def owner(tmp_path, monkeypatch):
    return Owner(tmp_path / "device", PretendGateway(pretend_agreement()), monkeypatch).join()


# --- what a user wants forgotten on the device ---


def test_a_search_from_before_joining_can_be_forgotten(tmp_path, monkeypatch):
    """Nothing that was learned before joining stays, because it cannot be computed again."""
    owner = Owner(tmp_path / "d", PretendGateway(pretend_agreement()), monkeypatch).run()
    owner.search(5)
    owner.join()
    assert owner.ranker.epoch.memory.any()
    owner.running.service.forget([2])
    assert not owner.ranker.epoch.memory.any()
    assert np.array_equal(owner.ranker.weights, owner.gateway.params)
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live


def test_a_search_that_was_sent_in_the_first_round_can_be_forgotten(owner):
    """The server's parameters stay the server's, also before its first round is over."""
    answer_round(owner)
    owner.search(2, 4)
    params = owner.ranker.epoch.params.tobytes()
    owner.running.service.forget([1])
    assert owner.ranker.epoch.params.tobytes() == params
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live


def test_what_was_forgotten_stays_forgotten_after_a_restart(owner):
    answer_round(owner)
    kept = owner.ranker.epoch.memory.tobytes()
    owner.running.service.forget(None)
    assert not owner.ranker.epoch.memory.any()
    record = owner.membership.records.of([0])[0]
    assert not record.after[:-1].any() and not record.before[:-1].any()
    owner.run()
    assert not owner.ranker.epoch.memory.any()
    assert owner.ranker.epoch.memory.tobytes() != kept
    assert len(owner.log.messages()) == 1


def test_all_can_be_cleared_before_the_first_round_of_a_federation(tmp_path, monkeypatch):
    """Its ranker may be of another kind than that of the device alone."""

    agreed = pretend_agreement(ranker=MLP(hidden=2), learner=PDGD(sessions=4))
    owner = Owner(tmp_path / "d", PretendGateway(agreed), monkeypatch).run().search(2)
    owner.join()
    owner.search(2, 2)
    owner.running.service.forget(None)
    assert len(owner.ranker.weights) == agreed.parameters
    weights = owner.ranker.weights
    assert "takes part no more" in owner.running.leave(False)
    assert len(owner.ranker.weights) == len(NAMES) != len(weights)


def test_a_search_from_the_time_in_a_federation_can_be_forgotten_after_leaving(owner):
    answer_round(owner)
    owner.running.leave(False)
    owner.search(2, 4)
    owner.running.service.forget([1])
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live
    start = owner.ranker.ranker.init(len(NAMES), None)
    assert np.array_equal(owner.ranker.epoch.params, start)


# --- its files ---


def test_terms_that_are_damaged_or_lost_are_said(owner):
    file = owner.home.folder / TERMS
    for text in ("nonsense", "[]", '{"gateway": 3}', '{"colour": 1}', '{"gateway": "a", "x": 1}'):
        file.write_text(text)
        with pytest.raises(Mistake, match=r"terms\.json"):
            owner.run()
    file.unlink()
    with pytest.raises(Mistake, match=r"terms\.json"):
        owner.run()
    assert told_by(owner.home, JOINED)["client"] == 0


def test_a_device_whose_place_is_lost_goes_on_alone(owner):
    """Somebody has deleted the file that says where it has joined."""
    answer_round(owner)
    (owner.home.folder / JOINED).unlink()
    owner.run()
    assert owner.membership is None and not owner.log.period.federation
    owner.search(2, 4)
    live = owner.ranker.weights.tobytes()
    assert owner.run().ranker.weights.tobytes() == live
    owner.join()
    assert owner.membership.client == 0


def test_the_files_of_a_device_are_private(owner):
    for name in (INDEX, JOINED, TERMS, KEY):
        mode = (owner.home.folder / name).stat().st_mode & 0o777
        assert mode & 0o077 == 0 or name == JOINED, (name, oct(mode))
    assert owner.home.folder.stat().st_mode & 0o077 == 0


def test_a_reader_beside_the_page_changes_nothing(owner):
    """`foltr device status` opens the same folder while the page runs."""
    answer_round(owner)
    owner.search(2, 4)
    before = owner.ranker.weights.tobytes(), owner.ranker.epoch.epoch, owner.sent()
    found = owner.running.service.search("apple pear")
    owner.running.service.look(found["list"])
    owner.log._db.execute("update search set time = 0 where learned = 0")  # it is open for long
    status = Running(owner.home, read_only=True).status()
    assert status["federation"]["messages_sent"] == 1
    assert len(owner.log.unfinished()) == 1
    owner.search(1, 6)
    live = owner.ranker.weights.tobytes()
    owner.run()
    assert owner.ranker.weights.tobytes() == live != before[0]
    assert owner.ranker.epoch.epoch == before[1]


def test_a_reader_does_not_note_a_message_that_the_page_has_just_stored(owner, monkeypatch):
    owner.search(4)
    owner.gateway.ask()
    with stopped_at(monkeypatch, owner.log, "note_message"):
        owner.once()
    Running(owner.home, read_only=True).status()
    assert not owner.log.messages()
    assert len(owner.run().log.messages()) == 1


def test_asks_of_another_federation_or_of_another_client_are_refused(owner):
    owner.search(4)
    for other, code in (
        ({"federation": bytes(16)}, "agreement"),
        ({"features": bytes(32)}, "features"),
        ({"n": 7}, "n"),
        ({"clients": (1,)}, "clients"),
    ):
        fits = {k: v[: len(getattr(owner.gateway.frame(), k))] for k, v in other.items()
                if isinstance(v, bytes)}  # fmt: skip
        owner.gateway.ask(**{**other, **fits})
        owner.once()
        assert read_refusal(owner.gateway.got[-1].payload)[0] == code
    assert not owner.log.messages() and owner.membership.due()


def test_who_left_keeps_no_memory_of_the_federation(owner):
    """It was learned from searches that their user may want forgotten."""
    answer_round(owner)
    records = owner.membership.records
    assert records.of([0])[0].after.any()
    owner.running.leave(False)
    left = records.of([0])[0]
    assert len(left.before) == len(left.after) == 0 and left.spent == 1
    client = owner.join().membership.client
    again = owner.membership.records.of([client])[client]
    assert again.after.shape == owner.ranker.epoch.memory.shape and again.spent == 1
