"""Federations in this process, and nodes in them that answer something else."""

import threading
from dataclasses import dataclass

import numpy as np

from federation_in_process import InProcess
from foltr.core.seeds import stream
from foltr.deployment.keys.roster_file import revoke_node
from foltr.deployment.protocol.frames import Frame
from foltr.deployment.server.federation import Federation
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.rounds import Rounds, board_of
from foltr.deployment.server.state_folder import open_state
from foltr.experiment import Experiment

DATA = "Synthetic(queries=40)"
SHARES = "GammaShares(epsilon=5.0, sensitivity=2.0)"


def experiment(**changes):
    usual = {"data": DATA, "clients": 10, "rounds": 4, "learner": "PDGD(sessions=3)", "seed": 5}
    return Experiment(**{**usual, **changes})


def equal(one, other):
    np.testing.assert_array_equal(one.params, other.params)
    for name in ("ndcg@10", "mrr@10"):
        np.testing.assert_array_equal(one.curve(name), other.curve(name))


def start_of(e):
    width = e.data.load("train").width
    return e.ranker.init(width, stream(e.seed, "init")).astype(np.float64)


@dataclass(frozen=True)
class Tampered:
    """A federation in which `change` (engine) has replaced something."""

    change: object
    nodes: int = 4
    noise: str = "address"
    checkpoint_seconds: float | None = 0.0
    name = "in-process"

    def __call__(self, *parts):
        engine = InProcess(nodes=self.nodes, noise=self.noise)(*parts)
        self.change(engine)
        return engine


def run_with(e, change, nodes=4):
    """The result, and the counts of what was left out."""
    engines = []

    def changed(engine):
        engine.greeted = set(engine.reachable())  # before it is disturbed
        change(engine)
        engines.append(engine)

    return e.run(engine=Tampered(changed, nodes)), engines[0].failures


class Staying(LiveRoster):
    """A roster whose nodes are connected until they are shut out."""

    def register(self, public_key):
        pass

    def unregister(self, public_keys):
        return []

    def reachable(self, fresh=False):
        return self.nodes

    def name_of(self, node):
        return f"node-{node - 2}"

    def shut_out(self, name):
        revoke_node(self.path, name)
        self.nodes = {node: own for node, own in self.nodes.items() if self.name_of(node) != name}


def rounds_of(engine, folder, table):
    """The rounds of a server for the nodes of an engine in this process, with a roster and a state
    in a folder."""
    state = open_state(folder / "state", print)
    state.check_agreement(engine.agreement)
    live = Staying(folder / "roster.toml", None, print)
    live._session, live.nodes = live, dict(engine.reachable())
    board = board_of(engine.agreement, table)
    parts = engine.grid, engine.agreement, live, table, state, board, print
    made = Federation(*parts, stopping=threading.Event(), message=engine.grid.create_message)
    made.patience = 0.0
    return Rounds(made)


def answering(node, how):
    """Change what a node answers: `how` (ask, answer) -> bytes; both are frames."""

    def change(engine):
        honest = engine.grid.nodes[node]

        def answer(text):
            return how(Frame.from_bytes(text), Frame.from_bytes(honest(text)))

        engine.grid.nodes[node] = answer

    return change


def fails(ask, answer):
    raise RuntimeError("a node that never answers")
