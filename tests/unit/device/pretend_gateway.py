"""A server and its gateway in one object. Devices reach it without a network."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.privatizers.laplace import Laplace
from foltr.components.rankers.linear import Linear
from foltr.core.seeds import stream
from foltr.deployment.gateway.client import Excluded, Unavailable
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import Frame, Kind, Model, read_updates
from foltr.device import joining, membership
from foltr.device.budget import epsilon_after
from foltr.device.content import Text
from foltr.device.home import Home, Terms
from foltr.device.running import Running
from foltr.device.searching import NAMES
from foltr.secure_sum.terms import model_digest

URL = "https://pretend.example:1"
SEARCHES = 4  # of a message
FRUIT = "apple pear plum cherry grape melon berry peach lemon fig".split()
_nonces = count(1)


def pretend_agreement(**changes):
    inner = PDGD(lr=0.2, sessions=SEARCHES, explore=False)
    usual = {
        "ranker": Linear(start=(5.0,)), "learner": Personal(inner, pull=0.2), "features": NAMES,
        "asked": 3, "fewest": 1, "sessions": SEARCHES, "rounds": 6,
    }  # fmt: skip
    return Agreement(**{**usual, **changes})


@dataclass
class PretendGateway:
    """It has at most one open ask. `fault` is called at each request, and may raise."""

    agreed: Agreement
    open: Frame | None = None
    got: list = field(default_factory=list)  # the answers, as frames
    standings: dict = field(default_factory=dict)  # client -> "active", ...
    keys: dict = field(default_factory=dict)  # public key -> client
    requests: list = field(default_factory=list)  # names of all requests
    fault: object = lambda name: None
    lost: bool = False  # whether answers are lost on their way
    round: int = 0

    def __post_init__(self):
        self.params = self.agreed.ranker.init(len(NAMES), stream(0)).astype(np.float32)

    def frame(self, kind=Kind.LEARN, how=(0, -1), **other):
        fields = {
            "kind": kind, "federation": self.agreed.id, "round": self.round,
            "model_round": self.round, "model": model_digest(self.params),
            "features": self.agreed.feature_hash, "nonce": next(_nonces).to_bytes(16, "little"),
            "n": self.agreed.asked, "clients": (0,),
            "payload": Model(self.params, *how).to_bytes(),
        }  # fmt: skip
        return Frame(**{**fields, **other})

    def ask(self, moved=0.0, **other):
        """Begin another round, with parameters that have moved."""
        self.params = (self.params + np.float32(moved)).astype(np.float32)
        self.open = self.frame(**other)
        return self.open

    def next_round(self, moved=0.01, **other):
        self.round += 1
        return self.ask(moved, **other)

    @property
    def updates(self):
        """The updates and weights that have come, in order."""
        found = [each for each in self.got if each.kind == Kind.LEARNED]
        return [read_updates(each.payload, 1) for each in found]

    def client(self, url, requests, tls=None, **more):
        return PretendClient(self, url, requests, **more)


class PretendClient:
    def __init__(self, gateway, url, requests, tell=lambda text: None):
        self.gateway, self.url, self.requests, self.tell = gateway, url, requests, tell

    def _begin(self, name, signed=True):
        self.gateway.requests.append(name)
        self.gateway.fault(name)
        key = self.requests.key.public_key().public_bytes_raw()
        if signed and self.gateway.keys.get(key) != self.requests.client:
            raise Excluded("the signature is false")
        standing = self.gateway.standings.get(self.requests.client)
        if signed and standing in ("revoked", "gone"):
            raise Excluded(f"this device is {standing}")

    def about(self):
        self._begin("about", signed=False)
        return {"agreement": self.gateway.agreed.text, "gateway_sees": "every update"}

    def enrol(self, invitation):
        self._begin("enrol", signed=False)
        key = self.requests.key.public_key().public_bytes_raw()
        known = self.gateway.keys.setdefault(key, len(self.gateway.keys))
        standing = self.gateway.standings.setdefault(known, "active")
        if standing != "active":
            raise Excluded(f"the device with this key is {standing}")
        self.requests.client = known
        return known, self.gateway.agreed.text

    def model(self, known=""):
        self._begin("model")
        frame = self.gateway.frame(clients=())
        tag = frame.model.hex()
        return None if tag == known else (tag, frame.to_bytes())

    def leave(self):
        self._begin("leave")
        self.gateway.standings[self.requests.client] = "left"

    def forget(self):
        self._begin("forget")
        if self.gateway.standings[self.requests.client] in ("active", "left"):
            self.gateway.standings[self.requests.client] = "to be forgotten"

    def once(self, answer, answered=""):
        self._begin("ask")
        gateway, ask = self.gateway, self.gateway.open
        if gateway.standings[self.requests.client] == "forgotten":
            ask = gateway.frame(Kind.FORGOTTEN, payload=b"")
        if ask is None or ask.nonce.hex() == answered:
            return answered, 0.0
        made = Frame.from_bytes(answer(ask.to_bytes()))
        if gateway.lost:
            raise Unavailable("the connection is lost")
        gateway.got.append(made)
        if ask.kind == Kind.FORGOTTEN and made.kind == Kind.WELCOME:
            gateway.standings[self.requests.client] = "gone"
        return ask.nonce.hex(), 0.0

    def close(self):
        pass


class Owner:
    """A person with a device: documents about fruit, and a taste of their own."""

    def __init__(self, folder, gateway, monkeypatch=None):
        self.home, self.gateway, self.told = Home(folder), gateway, []
        if monkeypatch is not None:
            monkeypatch.setattr(joining, "GatewayClient", gateway.client)
            monkeypatch.setattr(membership, "GatewayClient", gateway.client)
        if not self.home.index_file.exists():
            self._index()

    def _index(self):
        index, draws = self.home.index(), stream(7, "documents")
        with index.batch():
            for i in range(30):
                body = " ".join(FRUIT[draws.integer(10)] for _ in range(5 + draws.integer(40)))
                title = f"{FRUIT[draws.integer(10)]} {FRUIT[draws.integer(10)]}"
                index.put(f"/fruit/{i}.txt", 1, 10**18, [Text("text", title, "", body, 1.0)])
        index.close()

    def run(self):
        self.running = Running(self.home, tell=self.told.append)
        return self

    def join(self, **terms):
        given = Terms(URL, **{"searches": SEARCHES, "epsilon": None, **terms})
        ranker = Running(self.home).service.ranker
        joining.join(self.home, ranker, self.gateway.agreed, given, None)
        return self.run()

    @property
    def membership(self):
        return self.running.membership

    @property
    def ranker(self):
        return self.running.service.ranker

    @property
    def log(self):
        return self.running.log

    def search(self, many, first=0):
        """Search for pairs of words, and click what has the largest title among the first five."""
        service = self.running.service
        for i in range(first, first + many):
            draws = stream(8, "searches", i)
            found = service.search(f"{FRUIT[draws.integer(10)]} {FRUIT[draws.integer(10)]}")
            service.look(found["list"])
            wanted = max(found["results"][:5], key=lambda each: (each["title"][0][0], each["id"]))
            service.open(found["list"], wanted["id"], "preview")
        service.close_open()
        return self

    def once(self, **how):
        """Answer the open ask, if there is one."""
        return self.membership.once(**how)

    def sent(self):
        """Round -> the numbers of the searches in its message."""
        found = {}
        for each in reversed(self.log.last(1000)):
            found.setdefault(each.sent, []).append(each.id)
        return found


def told_by(home, name):
    return json.loads((home.folder / name).read_text())


def answer_round(owner, first=0, moved=0.01):
    """A round, with four new searches."""
    owner.search(4, first)
    if owner.gateway.open is None:
        owner.gateway.ask()
    else:
        owner.gateway.next_round(moved)
    owner.once()
    return owner


LAPLACE = Laplace(epsilon=0.5, clip=1.0)


def private_owner(folder, monkeypatch, messages, **terms):
    """An owner whose budget buys so many messages in a period."""
    agreed = pretend_agreement(privacy=LAPLACE)
    found = Owner(folder, PretendGateway(agreed), monkeypatch)
    return found.join(epsilon=epsilon_after(agreed.text, messages), **terms)


class Stopped(BaseException):
    """The process ends here."""


@contextmanager
def stopped_at(monkeypatch, where, name, after=False):
    """Within it, the process ends when it calls a function: before or after that has worked."""
    usual = getattr(where, name)

    def dying(*given, **named):
        if after:
            usual(*given, **named)
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(where, name, dying)
        yield


def unreachable(name):
    """A fault: no request arrives."""
    raise Unavailable("no connection")


def reachable(name):
    pass
