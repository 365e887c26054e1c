"""A federation of real processes whose nodes and server fail when they are told to."""

import os
import re
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from memory_search import Search, column, updates_of

from foltr.core import Answers, Cohort
from foltr.core.federation import Delivery, Server, federate
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.deployment.local import Deployment
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import Simulated
from foltr.simulation.runs.setup import population_of

HERE = str(Path(__file__).parent)
MORE = 30.0  # seconds that a round may take besides the deadline of one step


class Faulty(Deployment):
    """Rounds go on until the test is over."""

    def begin(self, there=True):
        os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *old_path()])  # of the processes
        self.reference = Reference(self.experiment)  # which compiles what the nodes need
        self.start_module("server", "faulty_server")
        self.wait_logged("server", "nodes connect to")
        for name in self.names:
            self.start_module(name, "faulty_node")
        if there:
            self.all_there()
        return self

    @property
    def deadline(self):
        return self.server["deadline"]

    @property
    def made(self):
        return {about["round"]: about for about in self.rounds()}

    def survivors(self, round):
        return self.state.participants()[round].tolist()

    def clients(self, *nodes):
        each = self.experiment.clients // self.nodes
        return {each * node + i for node in nodes for i in range(each)}

    def wait_made(self, round, seconds=120.0):
        self.wait(lambda: round in self.made, seconds, f"round {round}")
        return self.made[round]

    def wait_for(self, nodes):
        """Until these nodes were in the last round that was made."""
        wanted = self.clients(*nodes)
        self.wait(
            lambda: self.made and wanted <= set(self.survivors(max(self.made))),
            150.0,
            f"round with the nodes {list(nodes)}",
        )

    def all_there(self):
        self.wait_for(range(self.nodes))

    def plan(self, nodes, step, fault):
        """These nodes fail in a round to come: its number."""
        round = max(self.made, default=-1) + 2
        for node in nodes:
            part = self.folder / f"node-{node}.part"
            part.write_text(f"{round} {step} {fault}")
            part.rename(self.folder / f"node-{node}.fault")
        return round

    def fails(self, nodes, step, fault):
        """The round in which they have failed, and what the server tells of it. Nodes that were
        killed are started again."""
        round = self.plan(nodes, step, fault)
        about = self.wait_made(round)
        for node in nodes:
            name = f"node-{node}"
            assert f"fault in {round}: {step} {fault}" in self.log(name), self.everything()
            if fault in ("before", "made", "after"):
                assert self.processes[name].wait(20) == -signal.SIGKILL
                self.start_module(name, "faulty_node")
        return round, about

    def plan_server(self, step, when, signum):
        part = self.folder / "server.part"
        part.write_text(f"{step} {when} {signum}")
        part.rename(self.folder / "server.fault")

    def check_bits(self, round):
        """The model after a round is that of a simulation in which the survivors took part."""
        expected = self.reference.after(self.model(round), round, self.survivors(round))
        np.testing.assert_array_equal(self.model(round + 1), expected)

    def unmasked(self):
        """round -> the sums that any node has helped to open."""
        found = {}
        for name in self.names:
            for round, terms in re.findall(r"^unmasked (\d+) (\w+)$", self.log(name), re.M):
                found.setdefault(int(round), set()).add(terms)
        return found

    def search(self):
        n, agreed = (
            self.experiment.cohort,
            self.experiment.channel or Experiment(channel="SecureSum()").channel,
        )
        return Search(lambda update, weight: agreed.protocol.words(update, weight, n))

    def updates(self):
        """What each client sent last: (client, round) -> numbers, weight."""
        found = {}
        for i in range(self.nodes):
            found |= updates_of(self.folder / f"state-{i}" / "records.db")
        return found

    def released(self):
        """The rounds of which clients have last helped to open a sum, by the nodes' records."""
        files = [self.folder / f"state-{i}" / "records.db" for i in range(self.nodes)]
        return {round for file in files for round in column(file, "released")}

    @property
    def link(self):
        """The process of the SuperLink."""
        server = self.processes["server"].pid
        children = Path(f"/proc/{server}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text().split()]
        (found,) = [
            pid for pid in pids if b"superlink" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return found

    @contextmanager
    def stopped(self, step, when):
        """The server and its SuperLink, stopped at a step: their process ids."""
        server = self.processes["server"]
        self.plan_server(step, when, "SIGSTOP")
        self.wait(lambda: state_of(server.pid) == "T", 60.0, "stop")
        link = self.link
        os.kill(link, signal.SIGSTOP)
        try:
            yield {"server": server.pid, "SuperLink": link}
        finally:
            os.kill(link, signal.SIGCONT)
            server.send_signal(signal.SIGCONT)


def old_path():
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != HERE]


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Reference:
    """Single rounds of the experiment in this process."""

    def __init__(self, e):
        self.e, self.server = e, Server(e.device_learner, e.aggregator, e.optimizer)
        data = e.data.load("train")
        params = e.ranker.init(data.width, stream(e.seed, "init")).astype(np.float64)
        self.engine = Simulated()(e, population_of(e, data), params, Threads(1), e.seed)
        self.after(params, 0, range(e.clients))

    def after(self, params, round, survivors):
        """The model after a round in which these clients took part."""
        asked, kept = np.arange(self.e.clients), np.array(sorted(survivors), np.int64)

        class Only:
            memory = self.engine.memory

            def collect(_, ask, clients):
                got = Cohort.empty(len(params))
                if len(kept):
                    got = self.engine.collect(ask, kept).arrived
                return Answers(clients, got, None)

        state = replace(self.server.init(params), t=round)
        delivery = Delivery(channel=self.e.channel)
        parts = self.server, Only(), state, round + 1, lambda t: asked, self.e.seed
        return federate(*parts, lambda *_: None, delivery).params
