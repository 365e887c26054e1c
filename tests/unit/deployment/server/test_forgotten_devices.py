"""Single devices behind a gateway that want to be forgotten, with the whole exchange of messages
in this process: node-2 is a gateway of clients 4 and 5."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from test_leaving_nodes import Here

from foltr.components.channels.secure_sum import SecureSum
from foltr.deployment.protocol.frames import Frame, Kind, Model, Welcome, refusal, write_ids
from foltr.deployment.settings import ServerTable

TRAINING = ServerTable("roster.toml", "state", seed=3, training_rounds=4)
MORE = ServerTable("roster.toml", "state", seed=3, training_rounds=12)


class WithGateway(Here):
    """`leaving`: the devices that want to be forgotten; `farewells`: those that were told."""

    def __init__(self, folder, **more):
        super().__init__(folder, 20, **more)
        self.leaving, self.gone = set(), set()
        self.farewells, self.learners, self.hows = [], [], []
        self.rounds.table = TRAINING

    def answer(self, text):
        ask = Frame.from_bytes(text)
        self.kinds.append(ask.kind)
        if ask.kind == Kind.HELLO:
            return ask.answer(Kind.WELCOME, ask.clients, Welcome(roll=True).to_bytes()).to_bytes()
        if ask.kind == Kind.ROLL:
            there = tuple(c for c in (4, 5) if c not in self.leaving | self.gone)
            wish = write_ids(np.array(sorted(self.leaving)))
            return ask.answer(Kind.PRESENT, there, wish).to_bytes()
        if ask.kind == Kind.FORGOTTEN:
            self.farewells.append(ask.clients)
            self.gone |= set(ask.clients)
            return ask.answer(Kind.WELCOME, ask.clients, b"").to_bytes()
        self.learners.append(ask.clients)
        self.hows.append(Model.from_bytes(ask.payload, self.engine.agreement.parameters).stored)
        return self.honest(text)

    def shut_out(self, name):
        self.out.append(name)
        self.there.pop(2 + int(name[-1]))

    def go_on(self, state, table=MORE):
        self.rounds.table = table
        return self.rounds.run(state)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr("foltr.deployment.protocol.exchange.FRESH", 0.0)


def test_the_stored_rounds_are_repeated_with_the_norms_of_the_others(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    assert state.t == 4 and here.learners == [(4, 5)] * 4
    here.leaving = {5}
    state = here.go_on(state)
    assert here.farewells == [(5,)] and here.out == []  # the gateway itself stays
    assert any("forgetting 1 device: 2 stored rounds are repeated" in text for text in here.told)
    assert here.state.forgotten.clients == (5,) and not here.state.forgotten.pending_clients
    assert set(here.learners[4:]) == {(4,)}
    assert [t for t in here.hows if t >= 0] == [0, 2]  # rescaled to the norms of these rounds
    for took_part in here.state.participants().values():
        assert 5 not in took_part and len(took_part) >= 1
    assert state.t == 12


def test_without_stored_norms_the_model_starts_again(tmp_path):
    here = WithGateway(tmp_path)
    state = here.run()
    here.leaving = {4}
    first = here.state.model(0)
    state = here.go_on(state)
    assert here.farewells == [(4,)] and set(here.learners[4:]) == {(5,)}
    assert any("the model starts again" in text for text in here.told)
    since = int(here.state.forgotten.since)
    np.testing.assert_array_equal(here.state.model(since), first)
    assert min(here.state.models()) >= since  # no model in which the device had a part


def test_a_gateway_that_was_away_is_told_when_it_names_the_device_again(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    here.leaving, away = {5}, here.engine.farewell
    here.engine.farewell = lambda node, clients: None  # it does not answer
    state = here.go_on(state, ServerTable("roster.toml", "state", seed=3, training_rounds=8))
    assert here.farewells == [] and here.state.forgotten.clients == (5,)
    assert any("told when their gateway reconnects" in text for text in here.told)
    here.engine.farewell = away
    here.go_on(state)
    assert (5,) in here.farewells and set(here.learners[4:]) == {(4,)}


def test_a_restored_server_forgets_again_whom_the_gateway_names(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    before = here.state.forgotten
    here.leaving = {5}
    state = here.go_on(state, ServerTable("roster.toml", "state", seed=3, training_rounds=9))
    assert here.farewells == [(5,)]
    here.state.set_forgotten(before)  # the state of a backup
    here.go_on(state, ServerTable("roster.toml", "state", seed=3, training_rounds=16))
    assert here.farewells == [(5,), (5,)] and here.state.forgotten.clients == (5,)


def test_an_interrupted_forgetting_is_continued(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    here.leaving = {5}
    rounds, broken = here.rounds.rounds, []

    def once(*args):
        if len(here.learners) > 4 and not broken:
            broken.append(1)
            raise KeyboardInterrupt
        return rounds(*args)

    here.rounds.rounds = once
    with pytest.raises(KeyboardInterrupt):
        here.go_on(state)
    assert here.state.forgotten.plan.clients == (5,)
    assert here.go_on(here.rounds.start()).t == 12
    assert here.farewells == [(5,)] and set(here.learners[4:]) == {(4,)}


def test_a_node_and_a_device_leave_together(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    here.leaving = {4}
    here.state.set_forgotten(replace(here.state.forgotten, pending=("node-0",)))
    state = here.go_on(state)
    assert here.out == ["node-0"] and here.farewells == [(4,)]
    assert state.t == 12


def test_separation_excludes_who_was_asked_lately(tmp_path):
    here = WithGateway(tmp_path)
    state = here.state
    state.add_asked(3, np.array([1, 2]), 2)
    state.add_asked(4, np.array([0, 5]), 3)
    assert state.asked_between(3, 5).tolist() == [0, 1, 2, 5]
    assert state.asked_between(4, 5).tolist() == [0, 5]
    assert state.asked_between(3, 4).tolist() == [1, 2]
    state.add_asked(5, np.array([3]), 4)
    assert state.asked_between(0, 9).tolist() == [0, 3, 5]  # older rounds are deleted


@pytest.mark.parametrize("kind", [Kind.LEARN, Kind.FORGOTTEN])
def test_a_gateway_is_not_forgotten_because_of_one_device(tmp_path, kind):
    """A gateway refuses with 'forget', for example because the device was revoked meanwhile."""
    here = WithGateway(tmp_path)
    answer = here.answer

    def refusing(text):
        ask = Frame.from_bytes(text)
        if ask.kind != kind:
            return answer(text)
        return ask.answer(Kind.REFUSED, (), refusal("forget", "client 5")).to_bytes()

    here.engine.grid.nodes[4] = refusing
    here.leaving = {5}
    here.go_on(here.run())
    assert here.out == [] and not here.state.forgotten.nodes
    assert not here.state.forgotten.pending


@pytest.mark.parametrize("gateway", [True, False])
def test_the_roster_says_who_is_a_gateway_before_it_was_greeted(tmp_path, gateway):
    """A server that was just started has no WELCOME. From a node, 'forget' is a wish."""
    here = WithGateway(tmp_path)
    roster = here.engine.live()
    marked = roster.with_seat(replace(roster.seat("node-2"), gateway=gateway))
    here.engine.live._roster = marked
    assert not here.engine.welcomes
    here.engine.on_failure(4, "forget", "client 5")
    assert here.state.forgotten.pending == (() if gateway else ("node-2",))


def test_a_server_that_was_killed_in_a_round_asks_the_same_clients_again(tmp_path):
    """Others could be too few: with six clients and `separation` 2, each is asked every second
    round."""
    here = WithGateway(tmp_path, participation=0.5)
    here.rounds.agreement = replace(here.engine.agreement, separation=2)  # nodes need not know
    here.rounds.start()
    first = here.rounds.choose(0)
    second = here.rounds.choose(1)
    assert sorted([*first, *second]) == [0, 1, 2, 3, 4, 5]
    here.engine.on_wait = lambda clients: pytest.fail(f"it waits, {clients} clients are left")
    assert here.rounds.choose(1).tolist() == second.tolist()


def test_who_cannot_sign_is_not_asked_for_a_signed_sum(tmp_path):
    here = WithGateway(tmp_path)
    usual = here.engine.agreement
    assert 5 in here.rounds.choose(0)
    signed = SecureSum(consistency=True)
    here.rounds.agreement = replace(usual, channel=signed, fewest=usual.asked)
    here.engine.live.known = lambda clients: {int(id): bytes(32) for id in clients if id != 5}
    here.engine.agreement = replace(usual, fewest=5)
    assert here.rounds.choose(0).tolist() == [0, 1, 2, 3, 4]


def test_who_asks_after_the_last_round_is_forgotten_when_the_server_is_started_again(tmp_path):
    here = WithGateway(tmp_path)
    state = here.run()
    here.leaving = {5}
    assert here.rounds.run(state).t == 9  # round 4 is skipped; then four rounds again
    assert here.farewells == [(5,)] and here.state.forgotten.clients == (5,)
    assert set(here.learners[4:]) == {(4,)} and here.state.load().params.any()


def test_training_again_ends_with_the_budget(tmp_path):
    here = WithGateway(tmp_path)
    here.rounds.table = ServerTable("roster.toml", "state", seed=3, training_rounds=18)
    state = here.run()
    here.leaving = {5}
    assert here.rounds.run(state).t == 20  # the agreed rounds


@pytest.mark.parametrize("history", [None, 2])
def test_a_device_that_never_contributed_costs_no_unlearning(tmp_path, history):
    """Else any device, or a gateway that lies, could make training start again and again."""
    here = WithGateway(tmp_path, history=history)
    here.gone = {5}  # it has enrolled, and was never there
    state = here.run()
    assert here.state.contributors().tolist() == [0, 1, 2, 3, 4]
    before, asked = here.state.load().params, len(here.learners)
    here.gone, here.leaving = set(), {5}
    after = here.rounds.run(state)
    assert here.farewells == [(5,)] and here.state.forgotten.clients == (5,)
    assert after.t == 4 and len(here.learners) == asked and not here.state.forgotten.plan
    np.testing.assert_array_equal(here.state.load().params, before)
    here.go_on(after)
    assert set(here.learners[4:]) == {(4,)} and here.state.forgotten.untold_clients == ()


def test_who_was_unlearned_has_no_part_in_the_model(tmp_path):
    here = WithGateway(tmp_path, history=2)
    state = here.run()
    assert here.state.contributors().tolist() == list(range(6))
    here.leaving = {5}
    here.go_on(state)
    assert here.state.contributors().tolist() == list(range(5))


def test_in_a_state_without_contributors_everybody_may_be_one(tmp_path):
    here = WithGateway(tmp_path)
    state = here.run()
    here.state.set_about("contributors", b"unknown")  # as in one of an earlier foltr
    assert here.state.contributors() is None
    here.leaving = {5}
    here.go_on(state)
    assert any("the model starts again" in text for text in here.told)
    assert here.state.contributors().tolist() == [0, 1, 2, 3, 4]


def test_a_device_is_forgotten_before_the_next_round(tmp_path):
    here = WithGateway(tmp_path)
    state = here.run()
    here.leaving, here.kinds = {5}, []
    here.go_on(state)
    assert Kind.LEARN not in here.kinds[: here.kinds.index(Kind.FORGOTTEN)]
