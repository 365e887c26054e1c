"""Random histories of a device in a federation: whatever happens, a restart changes nothing, a
search is in one message at most, and an ask has one answer."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend_gateway import LAPLACE, Owner, PretendGateway, pretend_agreement

from foltr.deployment.gateway.client import Unavailable
from foltr.deployment.protocol.frames import Kind
from property_settings import examples

NAMES = "search search3 look ask other_model lost refresh forget clear pause restart rejoin"
STEPS = st.lists(st.sampled_from(NAMES.split()), min_size=4, max_size=14)


class History:
    def __init__(self, folder, monkeypatch, privacy):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.gateway = PretendGateway(pretend_agreement(rounds=500, privacy=privacy))
        self.owner = Owner(folder / "d", self.gateway, monkeypatch).join()
        self.messages = Counter()  # how many messages each search is in

    def sent(self):
        return {s.id: s.sent for s in self.owner.log.last(1000) if s.sent is not None}

    def step(self, name, number):
        owner, service = self.owner, self.owner.running.service
        before = self.sent()
        match name:
            case "search" | "search3":
                owner.search(3 if name == "search3" else 1, number)
            case "look":
                service.look(service.search("apple pear")["list"])
            case "ask" | "other_model" | "lost":
                self.asked(name)
            case "refresh":
                self.gateway.params = self.gateway.params + self.gateway.params.dtype.type(0.01)
                owner.membership._refreshed = float("-inf")
                owner.membership.refresh()
            case "forget":
                service.forget([each.id for each in owner.log.last(1)])
            case "clear":
                service.forget(None)
            case "pause":
                service.pause(not service.paused)
            case "rejoin":
                owner.running.leave(False)
                self.gateway.standings.clear()
                self.owner = Owner(self.folder / "d", self.gateway, self.monkeypatch).join()
            case "restart":
                pass
        now = self.sent()
        assert all(now.get(id, round) == round for id, round in before.items())
        self.messages.update(now.keys() - before.keys())

    def asked(self, name):
        client = (self.owner.membership.client,)
        if name == "other_model":  # of the same round
            self.gateway.ask(moved=0.1, clients=client)
        else:
            self.gateway.next_round(clients=client)
        self.gateway.lost = name == "lost"
        try:
            self.owner.once()
        except Unavailable:
            assert name == "lost"
        self.gateway.lost = False

    def restarted(self):
        """Compare the device with itself after a restart."""
        ranker = self.owner.ranker
        live = ranker.weights.tobytes(), ranker.evidence, ranker.made, ranker.epoch.epoch
        ranker = self.owner.run().ranker
        again = ranker.weights.tobytes(), ranker.evidence, ranker.made, ranker.epoch.epoch
        assert again == live


@given(STEPS, st.sampled_from([None, LAPLACE]))
@examples(8)
def test_any_history(steps, privacy):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        history = History(Path(folder), monkeypatch, privacy)
        for number, name in enumerate(steps):
            history.step(name, 10 * number)
            history.restarted()
        assert max(history.messages.values(), default=0) <= 1
        answers = {}
        for frame in history.gateway.got:
            if frame.kind == Kind.LEARNED:
                key = frame.round, frame.model, frame.clients
                assert answers.setdefault(key, frame.payload) == frame.payload
