"""Nodes that leave, with the whole exchange of messages in this process."""

import threading

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from federation_in_process import InProcess
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.deployment.keys.keys import make_node
from foltr.deployment.keys.roster_file import add_node, revoke_node
from foltr.deployment.protocol.frames import Frame, Kind, refusal
from foltr.deployment.server.federation import Federation
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.rounds import Rounds, board_of
from foltr.deployment.server.state import Forgotten
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.settings import ServerTable
from foltr.experiment import Experiment
from foltr.simulation.runs.setup import population_of

LAST = 4  # the id of node-2


class Known(LiveRoster):
    """A roster whose nodes are connected until they are shut out."""

    def __init__(self, file, nodes, shut_out):
        super().__init__(file, Everybody(), print)
        self.nodes, self.shut_out = nodes, shut_out

    def reachable(self, fresh=False):
        return self.nodes

    def name_of(self, node):
        return f"node-{node - 2}"


class Everybody:
    """A session that knows no keys."""

    def register(self, public_key):
        pass

    def unregister(self, public_keys):
        return []


def federation(engine, roster_file, state, table, shut_out, tell=print):
    """The engine of a server for the nodes of an engine in this process."""
    nodes = dict(engine.reachable())
    live = Known(roster_file, nodes, shut_out)
    board = board_of(engine.agreement, table)
    parts = engine.grid, engine.agreement, live, table, state, board, tell
    stopping = threading.Event()
    found = Federation(*parts, stopping=stopping, message=engine.grid.create_message)
    found.patience = 0.0
    return found


class Here:
    """A server and three nodes of two clients; `kinds` are the asks that node-2 gets."""

    def __init__(self, folder, rounds, **more):
        given = {"data": "Synthetic(queries=20)", "learner": "PDGD(sessions=2)", "seed": 3}
        e = Experiment(**given, clients=6, rounds=rounds, **more)
        loaded = e.data.load("train")
        parts = population_of(e, loaded), e.ranker.init(loaded.width, stream(3, "init"))
        engine = InProcess(nodes=3)(e, *parts, Threads(1), 3)
        for i in range(3):
            seat, _ = make_node(folder / f"keys-{i}", f"node-{i}", 2)
            add_node(folder / "roster.toml", seat)
        self.state = open_state(folder / "state", print)
        self.state.check_agreement(engine.agreement)
        self.out, self.told, self.kinds = [], [], []
        table = ServerTable("roster.toml", "state", seed=3)
        file, tell = folder / "roster.toml", self.told.append
        self.engine = federation(engine, file, self.state, table, self.shut_out, tell)
        self.there = self.engine.live.nodes
        self.rounds = Rounds(self.engine)
        self.honest = self.engine.grid.nodes[LAST]
        self.engine.grid.nodes[LAST] = self.answer

    def shut_out(self, name):
        self.out.append(name)
        self.there.pop(LAST, None)

    def answer(self, text):
        self.kinds.append(Frame.from_bytes(text).kind)
        return self.honest(text)

    def run(self):
        return self.rounds.run(self.rounds.start())


def leaving(here):
    here.honest.__self__.forget_me()
    return here


def test_a_node_that_asks_is_forgotten_told_and_shut_out(tmp_path):
    here = leaving(Here(tmp_path, 6))
    assert here.run().t == 6
    assert here.out == ["node-2"] and Kind.LEARN not in here.kinds
    assert here.kinds[-1] == Kind.FORGOTTEN
    assert here.state.forgotten.nodes == ("node-2",)


def test_a_node_that_refuses_the_farewell_is_shut_out_and_hangs_nobody(tmp_path):
    here = leaving(Here(tmp_path, 6))
    honest = here.honest

    def stubborn(text):
        ask = Frame.from_bytes(text)
        if ask.kind != Kind.FORGOTTEN:
            return honest(text)
        return ask.answer(Kind.REFUSED, (), refusal("forget", "not like this")).to_bytes()

    here.honest = stubborn
    assert here.run().t == 6
    assert here.out == ["node-2"] and here.kinds.count(Kind.FORGOTTEN) == 1


def test_a_node_that_is_away_is_told_when_it_comes_back(tmp_path):
    here = leaving(Here(tmp_path, 6))
    away = here.there.pop(LAST)
    here.state.set_forgotten(Forgotten(pending=("node-2",), wished=("node-2",)))
    state = here.rounds.start()
    here.rounds.table = ServerTable("roster.toml", "state", seed=3, training_rounds=3)
    state = here.rounds.run(state)
    assert here.out == [] and any("node-2 does not answer" in text for text in here.told)
    here.there[LAST] = away
    here.rounds.table = ServerTable("roster.toml", "state", seed=3)
    assert here.rounds.run(state).t == 6
    assert here.out == ["node-2"] and here.kinds[-1] == Kind.FORGOTTEN


def test_who_was_forgotten_learns_no_more_even_if_it_is_still_connected(tmp_path):
    here = Here(tmp_path, 3)  # with another state folder it knows nothing of its wish
    here.state.set_forgotten(Forgotten(nodes=("node-2",)))
    assert here.run().t == 3
    assert here.kinds == [Kind.HELLO]


def test_the_wish_of_a_node_is_kept_if_the_operator_was_first(tmp_path):
    here = Here(tmp_path, 3)
    for by_node in (False, True, True, False):
        here.engine.ask_to_forget("node-2", by_node)
    about = here.state.forgotten
    assert about.pending == ("node-2",) and about.wished == ("node-2",)
    here.engine.ask_to_forget("nobody", by_node=True)
    assert here.state.forgotten == about


def test_a_node_that_was_added_meanwhile_is_forgotten_like_others(tmp_path):
    here = Here(tmp_path, 12, history=2)
    here.rounds.table = ServerTable("roster.toml", "state", seed=3, training_rounds=4)
    state = here.run()
    seat, _ = make_node(tmp_path / "keys-3", "node-3", 2)
    add_node(tmp_path / "roster.toml", seat)
    here.state.set_forgotten(Forgotten(pending=("node-3",)))
    assert here.rounds.run(state).params.any()
    told = " ".join(here.told)
    assert "does not fit" not in told and "2 stored rounds are repeated" in told
    assert here.out == ["node-3"]


def test_a_state_from_before_a_forgetting_forgets_again(tmp_path):
    """The state was restored from an older backup; the roster says that the node was
    forgotten."""
    here = Here(tmp_path, rounds=6, history=2)
    revoke_node(tmp_path / "roster.toml", "node-2", forgotten=True)
    revoke_node(tmp_path / "roster.toml", "node-1")
    here.engine.forget_again()
    here.engine.forget_again()
    assert here.state.forgotten.pending == ("node-2",)  # not one that was only revoked
    here.there.pop(LAST)
    start = here.rounds.start()
    here.rounds.run(start)
    assert here.state.forgotten.nodes == ("node-2",) and not here.state.forgotten.pending
    told = "\n".join(here.told)
    assert "node-2 was forgotten before, and this state has not forgotten it" in told
    here.engine.forget_again()
    assert not here.state.forgotten.pending
