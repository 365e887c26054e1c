"""What tests of faults share: a small federation, and what a simulation makes of its losses."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from federation_in_process import InProcess
from foltr.deployment.local import Deployment
from foltr.deployment.protocol.frames import Frame, Kind, read_updates, write_updates
from foltr.experiment import Experiment

CLIENTS, NODES = 12, 3
OWN = {f"node-{i}": range(4 * i, 4 * i + 4) for i in range(NODES)}


def experiment(**changes):
    usual = {"data": "Synthetic(queries=40)", "learner": "PDGD(sessions=3)", "seed": 5}
    return Experiment(**{**usual, "clients": CLIENTS, "rounds": 8, **changes})


def deployed(folder, e, agreed=None, **server):
    return Deployment(folder, e, NODES, {"wait": 60.0, **server}, agreed or {})


@dataclass(frozen=True)
class Thinned:
    """A federation in this process in which some clients do not answer: round -> clients."""

    missing: dict
    checkpoint_seconds: float | None = 0.0
    name = "in-process"

    def __call__(self, *parts):
        engine = InProcess(nodes=NODES)(*parts)
        for node, honest in engine.grid.nodes.items():
            engine.grid.nodes[node] = self.thinned(honest)
        return engine

    def thinned(self, honest):
        def answer(text):
            ask, made = Frame.from_bytes(text), Frame.from_bytes(honest(text))
            gone = self.missing.get(ask.round, ())
            if made.kind != Kind.LEARNED or not gone:
                return made.to_bytes()
            updates, weights = read_updates(made.payload, len(made.clients))
            rows = [i for i, id in enumerate(made.clients) if id not in gone]
            if not rows:
                raise RuntimeError("nobody of this node answers")
            ids, payload = [made.clients[i] for i in rows], (updates[rows], weights[rows])
            return replace(made, clients=tuple(ids), payload=write_updates(*payload)).to_bytes()

        answer.device = honest.__self__
        return answer


def without(e, missing):
    """The parameters of a simulation in which clients do not answer in some rounds."""
    return e.run(engine=Thinned(missing)).params


def missed(here, name):
    """Which clients did not answer, by round, if it was this node that failed."""
    short = [about["round"] for about in here.rounds() if about["answered"] < CLIENTS]
    return {t: OWN[name] for t in short}


def failures(here):
    return sum((Counter(about["failures"]) for about in here.rounds()), Counter())


def same(here, params):
    assert np.array_equal(here.model(), params), here.everything()
    told = [about["round"] for about in here.rounds()]
    assert sorted(set(told)) == list(range(len(set(told)))), told  # no round is lost
    for name in ("server", *here.names):
        assert "Traceback" not in here.log(name), here.everything()


def link_of(here):
    """The process id of the SuperLink."""
    pid = here.processes["server"].pid
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in (int(word) for word in words):
        if b"foltr.deployment.flower.superlink" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    # it is started by the thread that supervises it, so that it is a child of that thread
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for word in (thread / "children").read_text().split():
            if b"foltr.deployment.flower.superlink" in Path(f"/proc/{word}/cmdline").read_bytes():
                return int(word)
    raise AssertionError("no SuperLink runs")


def kill_link(here):
    os.kill(link_of(here), signal.SIGKILL)


def at_gate(here, t, name="node-0", seconds=60.0):
    here.wait_logged(name, f"at the gate of round {t}", seconds)


def idle(here, name, t):
    """Wait until a node (of `lying_node`) has answered a round and waits for the next one."""
    here.wait_logged(name, f"sent the answer of round {t}")
    time.sleep(0.5)


def open_gate(here, *rounds):
    for t in rounds:
        (here.folder / f"gate-{t}").touch()


def start(here, **faults):
    """Start all; faults = {"node_0": "gate@2"}."""
    here.start("server")
    here.wait_logged("server", "nodes connect to")
    for name in here.names:
        words = faults.get(name.replace("-", "_"))
        if words is None:
            here.start(name)
        else:
            here.start_module(name, "lying_node", words)
    return here


def seconds_until(here, t, limit):
    """How long it takes until t rounds are made."""
    began = time.monotonic()
    here.wait_round(t, limit)
    return time.monotonic() - began
