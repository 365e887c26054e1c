"""Going back to an earlier model, and forgetting a node over the wire."""

import re
import signal

import numpy as np
import pytest
from in_process import rounds_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import (
    OWN,
    Thinned,
    at_gate,
    deployed,
    experiment,
    failures,
    missed,
    open_gate,
    same,
    start,
    without,
)

from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.protocol.frames import Frame
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.setup import population_of

pytestmark = pytest.mark.usefixtures("modules")
ALL = range(12)


@pytest.mark.faults
def test_going_back_to_an_earlier_model(tmp_path):
    """Rounds go on counting. The round that was under way is left out: devices may have answered
    in it, and would spend twice."""
    e = experiment(rounds=7)
    with deployed(tmp_path, e) as here:
        gates = {name.replace("-", "_"): "gate@5" for name in here.names}
        start(here, **gates)
        for name in here.names:
            at_gate(here, 5, name)
        here.kill("server", signal.SIGTERM)
        old = here.model(2)
        here.start("server", "--rollback", "99")
        assert here.processes["server"].wait(60) == 2
        assert "round 99 is not done yet: give --rollback 5" in words(here)
        here.start("server", "--rollback", "2")
        here.wait_logged("server", "the model after round 2 is now that of round 6")
        open_gate(here, 5)
        here.wait_done()
        assert [about["round"] for about in here.rounds()] == [0, 1, 2, 3, 4, 6]
        assert np.array_equal(here.model(2), old)
        assert not failures(here)
        expected = without(e, {2: ALL, 3: ALL, 4: ALL, 5: ALL})
        assert np.array_equal(here.model(), expected), here.everything()


def words(here):
    return " ".join(here.log("server").replace("│", " ").split())


def found_in(folder, models):
    """Files below a folder with two numbers of a model in a row, as float64 or float32."""
    found = set()
    for file in folder.rglob("*"):
        text = file.read_bytes() if file.is_file() else b""
        for t, params in models.items():
            for kind in (np.float64, np.float32):
                numbers = params.astype(kind)
                pairs = (numbers[i : i + 2].tobytes() for i in range(0, len(numbers) - 1, 2))
                if any(any(pair) and pair in text for pair in pairs):
                    found.add((file.relative_to(folder).as_posix(), t, kind.__name__))
    return found


def in_process(here, e, folder, missing, first):
    """The same phases without a network: unlearning begins with round `first`. In the round
    before, node-2 asks for it instead of its answer, or after its answer."""
    _, table = read_server(here.folder / "server.toml", Code())
    p, params = population_of(e, e.data.load("train")), start_of(e)
    engine = Thinned(missing)(e, p, params, Threads(1), e.seed)
    folder.mkdir()
    text = (here.folder / "roster.toml").read_text().replace("revoked = true\n", "")
    (folder / "roster.toml").write_text(text)
    honest, device = engine.grid.nodes[4], engine.grid.nodes[4].device

    def answer(text):
        if Frame.from_bytes(text).round != first - 1:
            return honest(text)
        if first - 1 in missing:
            device.forget_me()
            return honest(text)
        made = honest(text)
        rounds.engine.ask_to_forget("node-2", by_node=True)
        return made

    engine.grid.nodes[4] = answer
    rounds = rounds_of(engine, folder, table)
    return rounds.run(rounds.start()).params


def start_of(e):
    width = e.data.load("train").width
    return e.ranker.init(width, stream(e.seed, "init"))


@pytest.mark.loopback
def test_a_node_is_forgotten_over_the_wire(tmp_path):
    e = experiment(rounds=16, history=2)
    with deployed(tmp_path / "here", e) as here:
        state = here.folder / "state"
        start(here, node_0="gate@5,gate@9")
        at_gate(here, 5)
        here.kill("node-2", signal.SIGTERM)
        here.start("node-2", "--forget-me")
        here.wait_logged("node-2", "asking to be forgotten", 60)
        here.wait(lambda: here.log("node-2").count("connected to") == 2, 60, "node-2")
        models = {t: here.model(t) for t in range(1, 6)}
        assert {t for _, t, _ in found_in(state, models)} == set(models)  # it finds what is there
        open_gate(here, 5, 9)
        here.wait_logged("server", "forgetting node-2", 60)
        here.wait_done()
        assert "stored rounds are repeated without them" in here.log("server")
        assert "node-2 forgotten after round" in here.log("server")
        assert here.processes["node-2"].wait(20) == 0
        assert "forgotten: this node has left" in here.log("node-2")
        assert not found_in(state, models)
        first = first_of_unlearning(here)
        lost = {t: ids for t, ids in missed(here, "node-2").items() if t < first}
        same(here, in_process(here, e, tmp_path / "again", lost, first))
        assert rows(here.folder / "state-2" / "records.db") == (0, 0)
        assert not found_in(here.folder / "state-2", models)
        assert here.state.forgotten.since > first
        here.start("server", "--rollback", str(first))
        assert here.processes["server"].wait(60) == 2
        assert "in which a node was forgotten" in words(here)


def first_of_unlearning(here):
    """The first round in which stored rounds are repeated. The request may arrive instead of an
    answer, or between two rounds."""
    stored = re.search(r"forgetting node-2: (\d+) stored rounds", here.log("server"))
    end = re.search(r"node-2 forgotten after round (\d+)", here.log("server"))
    return int(end[1]) - int(stored[1])


def rows(file):
    import sqlite3

    with sqlite3.connect(file) as base:
        return tuple(
            base.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("client", "norm")
        )


@pytest.mark.faults
@pytest.mark.parametrize("database", [True, False])
def test_forgetting_is_interrupted(tmp_path, database):
    """The server is killed while stored rounds are made again; the operator forgets a node that
    is gone (`--forget`)."""
    e = experiment(rounds=16, history=2)
    with deployed(tmp_path / "here", e, database=database) as here:
        state = here.folder / "state"
        start(here, node_0="gate@5,gate@6", node_1="gate@5")
        for name in ("node-0", "node-1"):
            at_gate(here, 5, name)
        here.kill("node-2", signal.SIGTERM)
        here.kill("server")
        models = {t: here.model(t) for t in range(1, 6)}
        file = here.folder / "server.toml"  # no long wait for the node that is gone
        file.write_text(file.read_text().replace("wait = 60.0", "wait = 5.0"))
        here.start("server", "--forget", "node-2")
        here.wait_logged("server", "forgetting node-2", 60)
        # also not in the SuperLink's database and its log, which go on
        here.wait(lambda: not found_in(state, models), 10, "end of what was learned before")
        open_gate(here, 5)
        at_gate(here, 6)
        here.kill("server")
        here.start("server")
        open_gate(here, 6)
        here.wait_done()
        assert "node-2 forgotten after round" in here.log("server")
        assert not found_in(state, models)
        answered = [about["answered"] for about in here.rounds()]
        # round 5 is left out: it was asked before, with a model that is forgotten
        assert answered == [12] * 5 + [8] * 10, here.everything()
        ids = {id for name in ("node-0", "node-1") for id in OWN[name]}
        assert all(set(who.tolist()) <= ids for who in here.state.participants().values())


@pytest.mark.faults
def test_a_node_that_is_away_when_it_is_forgotten_is_told_later(tmp_path):
    e = experiment(rounds=20, history=2)
    with deployed(tmp_path, e, deadline=5.0) as here:
        start(here, node_0="gate@5,gate@12")
        at_gate(here, 5)
        here.kill("node-2", signal.SIGTERM)
        here.start("node-2", "--forget-me")
        here.wait(lambda: here.log("node-2").count("connected to") == 2, 60, "node-2")
        open_gate(here, 5)
        here.wait_logged("server", "node-2 asks to be forgotten", 60)
        here.kill("node-2")
        here.wait_logged("server", "node-2 does not answer", 60)
        assert not read_roster(here.folder / "roster.toml").seat("node-2").revoked
        at_gate(here, 12)
        here.start("node-2", "--forget-me")
        here.wait(lambda: here.log("node-2").count("connected to") == 3, 60, "node-2")
        here.kill("server")
        open_gate(here, 12)
        here.start("server")
        here.wait_done()
        assert here.processes["node-2"].wait(20) == 0, here.everything()
        assert "forgotten: this node has left" in here.log("node-2")
        assert rows(here.folder / "state-2" / "records.db") == (0, 0)
        assert read_roster(here.folder / "roster.toml").seat("node-2").revoked
