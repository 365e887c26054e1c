"""Real devices behind a gateway, in the test's process: each has an index, a log and a folder."""

import threading
import time

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Cohort
from foltr.core.errors import Mistake
from foltr.core.federation import Client, Server, federate
from foltr.core.seeds import Stream, stream
from foltr.core.stepwise import ReplayedUser
from foltr.core.system.private import replace_private
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.local import GatewayDeployment
from foltr.device import joining
from foltr.device.content import Text
from foltr.device.home import CA, Home, Terms
from foltr.device.running import Running
from foltr.device.searching import NAMES
from foltr.experiment import Experiment

SESSIONS = 4
WORDS = "apple pear plum cherry grape melon berry peach lemon fig".split()
LEARNER = f"Personal(learner=PDGD(lr=0.2, sessions={SESSIONS}, explore=False), pull=0.2)"


def federation(folder, devices, grace=60.0, **agreed):
    """A server and a gateway. Devices enrol by the test. Within the grace, a round that has begun
    waits for those who have joined or left, so that no round is without answers."""
    e = Experiment(
        data="Synthetic(queries=20)", learner=LEARNER, ranker="Linear(start=(5.0,))",
        clients=devices, rounds=6, seed=3,
    )  # fmt: skip
    given = {"features": list(NAMES), "fewest": devices, "noise": "system", **agreed}
    server = {"wait": 20.0, "deadline": 20.0}
    return GatewayDeployment(folder, e, 1, server, given, gateway={"grace": grace})


def begin(here):
    here.start("server")
    here.wait_logged("server", "nodes connect to")
    here.start("gateway-0")
    here.wait_logged("gateway-0", "devices connect to")
    return here


class Person:
    """A person with a device: documents about fruit, and a taste of their own."""

    def __init__(self, here, number, folder=None):
        self.here, self.number = here, number
        self.home = Home(folder or here.folder / f"person-{number}")
        self.told = []
        if not self.home.index_file.exists():
            self._index()

    def _index(self):
        index, draws = self.home.index(), stream(self.number, "documents")
        with index.batch():
            for i in range(30):
                body = " ".join(WORDS[draws.integer(10)] for _ in range(5 + draws.integer(40)))
                title = f"{WORDS[draws.integer(10)]} {WORDS[draws.integer(10)]}"
                index.put(f"/fruit/{i}.txt", 1, 10**18, [Text("text", title, "", body, 1.0)])
        index.close()

    def join(self, **terms):
        url = f"https://localhost:{self.here.ports[0]}"
        ca = self.here.folder / "gateway-tls" / "ca.pem"
        replace_private(self.home.made().folder / CA, ca.read_bytes())
        agreed, _ = joining.offered(url, trusting(ca))
        token = (self.here.folder / "invitations-0.txt").read_text().split()[self.number]
        ranker = Running(self.home).service.ranker
        given = Terms(url, **{"searches": SESSIONS, "epsilon": None, **terms})
        until = time.monotonic() + 30.0
        while True:
            try:
                joining.join(self.home, ranker, agreed, given, token)
                return self.run()
            except Mistake as mistake:  # the gateway has only just started
                early = "has not reached its server" in str(mistake)
                if not early or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def run(self):
        self.running = Running(self.home, tell=self.told.append)
        return self

    def search(self, many, first=0):
        """Search for pairs of words, and click what has the longest title among the first five."""
        service = self.running.service
        for i in range(first, first + many):
            draws = stream(self.number, "searches", i)
            text = f"{WORDS[draws.integer(10)]} {WORDS[draws.integer(10)]}"
            found = service.search(text)
            service.look(found["list"])
            wanted = max(found["results"][:5], key=lambda each: (each["title"][0][0], each["id"]))
            service.open(found["list"], wanted["id"], "preview")
        service.close_open()

    def answer(self):
        """Answer one ask."""
        before = len(self.running.log.messages())
        until = time.monotonic() + 120.0
        while time.monotonic() < until:
            self.running.membership.once()
            if len(self.running.log.messages()) > before:
                return
        raise AssertionError(f"no ask for {self.number}: {self.told}")


def all_answer(people):
    threads = [threading.Thread(target=person.answer) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)


class Replaying:
    """An engine of a simulation, whose clients replay the logs of devices: in round t, the
    searches that they sent in round t."""

    notes = ()

    def __init__(self, agreed, people, noise):
        self.agreed, self.people, self.noise = agreed, people, noise
        d = agreed.parameters
        self.memory = np.zeros((len(people), d), np.float32)

    def collect(self, ask, clients):
        agreed, updates, empty = self.agreed, [], Stream(0)
        for id in clients.tolist():
            log = self.people[id].running.log
            found = [s for s in reversed(log.last(1000)) if s.sent == ask.t]
            searches = [s.session for s in found]
            client = Client(id, agreed.device_learner, agreed.ranker, None, empty, empty)
            update, after = client.step(ask, self.memory[id], ReplayedUser(searches))
            self.memory[id] = after
            updates.append(update)
        return Answers(clients, Cohort.stack(updates), None)


def simulated(agreed, people, rounds):
    """The parameters of a simulation of the same logs, and what its devices keep."""
    server = Server(agreed.learner, Mean(), SGD())
    state = server.init(agreed.ranker.init(len(NAMES), stream(0)))
    engine = Replaying(agreed, people, None)
    ids = np.arange(len(people))
    end = federate(server, engine, state, rounds, lambda t: ids, 0, lambda *_: None)
    return end.params, engine.memory
