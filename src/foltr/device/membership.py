"""A device in a federation: joining it, sending, getting models, and leaving.

The device connects to its gateway only when it has something to send: after `Terms.searches`
searches, or after `Terms.days` days. Then it waits for an ask, and answers it by the federation's
own `Device`, which checks everything against the agreement that was pinned when it joined. Without
a network, or when the budget is spent, search and local learning go on."""

from __future__ import annotations

import math
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.device.budget import DAY, Spent, rounds_bought, spent_of
from foltr.device.click_log import Epoch
from foltr.device.features import NAMES
from foltr.device.home import Home, Terms
from foltr.device.learning import LocalRanker
from foltr.device.log_engine import LogEngine, first_memory, settled
from foltr.errors import Mistake, require
from foltr.federated.agreement import Agreement
from foltr.federated.device import FORGET, FORGOTTEN, Device
from foltr.federated.frames import Frame, Malformed, Model
from foltr.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.gateway.signing import Ed25519PrivateKey
from foltr.privacy.text import epsilon_text
from foltr.seeds import stream
from foltr.stepwise import stepwise

REFRESH = 3600.0  # seconds between two looks for a new model
SOON = 60.0  # the same in the first minutes after a message
AWAITED = 900.0  # seconds after a message in which its round may end
LOOK = 20.0  # seconds between two looks whether there is something to send
Tell = Callable[[str], None]


def offered(url: str, tls: ssl.SSLContext | None) -> tuple[Agreement, str]:
    """The agreement of a gateway's federation, and what the gateway sees. Raises a Mistake if this
    device cannot take part."""
    stranger = Requests(Ed25519PrivateKey.generate(), b"")
    try:
        about = GatewayClient(url, stranger, tls).about()
    except (Unavailable, Excluded) as error:
        raise Mistake(f"{error}: is the address right?") from None
    text = about.get("agreement")
    require(isinstance(text, str), f"{url} does not respond like a gateway of foltr")
    agreed = Agreement.from_text(str(text))
    check_fits(agreed, url)
    return agreed, str(about.get("gateway_sees", ""))


def check_fits(agreed: Agreement, url: str) -> None:
    """Refuse a federation whose models this device cannot use."""
    if agreed.features != NAMES:
        other = [name for name in agreed.features if name not in NAMES]
        some = f", for example {other[0]!r}" if other else ""
        raise Mistake(
            f"the models of {url} are for {len(agreed.features)} other features{some}: this"
            f" version of foltr has {len(NAMES)}. Use the version that the federation was made for"
        )
    stepwise(agreed.learner)


def terms_text(agreed: Agreement, sees: str, terms: Terms) -> list[str]:
    """What joining means, for the user to read before."""
    bought = rounds_bought(agreed.text, terms.epsilon)
    lines = [
        f"learner: {agreed.learner!r}",
        f"noise: {agreed.privacy!r}" if agreed.privacy else "noise: none",
        f"secure sum: {agreed.channel!r}" if agreed.channel else "secure sum: none",
        f"the gateway sees: {sees or 'unknown'}",
        f"a round: {agreed.asked} devices are asked, and at least {agreed.fewest} must answer",
        f"this device sends after {terms.searches} searches, or {terms.days:g} days",
    ]
    if agreed.privacy is None:
        lines.append("privacy budget: none, because nothing hides what a message says of you")
    elif terms.epsilon is None:
        lines.append(f"privacy budget: no limit of yours; the agreement allows {bought} messages")
    else:
        per = f"epsilon {terms.epsilon:g} (delta 1e-5) in {terms.period:g} days"
        lines.append(f"privacy budget: {per}, which buys {bought} messages")
        if bought == 0:
            lines.append("this is too little for one message: nothing would be sent")
    return lines


class Membership:
    """The place of a device in its federation.

    home: its folder, in which it has joined
    ranker: its ranker
    lock: held while the ranker changes
    tell: writes a line to the log"""

    def __init__(
        self,
        home: Home,
        ranker: LocalRanker,
        lock: threading.RLock,
        tell: Tell = lambda text: None,
    ) -> None:
        joined, terms = home.place.joined, home.terms
        if joined is None or terms is None:
            raise Mistake("this device has not joined a federation: foltr device join URL")
        self.home, self.ranker, self.terms, self.tell = home, ranker, terms, tell
        self.agreed = Agreement.from_text(joined["agreement"])
        check_fits(self.agreed, terms.gateway)
        self.client, self.lock = int(joined["client"]), lock
        self.records = home.place.records(self.agreed)
        requests = home.place.requests(self.agreed)
        self.gateway = GatewayClient(terms.gateway, requests, home.tls, tell=tell)
        own = range(self.client, self.client + 1)
        self.device = Device(
            self.agreed, own, self._engine, self.records, offset=self.client, tell=tell,
            forgotten=self._forgotten,
        )  # fmt: skip
        if self.agreed.protocol is not None:
            from foltr.federated.sum_device import SumDevice

            self.device.sums = SumDevice(self.agreed.protocol, self.agreed.fewest)
        self.refresh_seconds, self.soon_seconds = REFRESH, SOON
        self.wake = threading.Event()  # set when something may have become due
        self._known = ""  # ETag of the last model
        self._refreshed = -math.inf
        self._settle()

    def _engine(self, sessions: int) -> LogEngine:
        return LogEngine(self.ranker, self.agreed, self.client)

    # --- what the user sees ---

    @property
    def leaving(self) -> bool:
        """Whether it has asked to be forgotten, and has not been told yet that it is."""
        return self.records.about(FORGET) is not None and self.records.about(FORGOTTEN) is None

    @property
    def spent(self) -> Spent:
        since = time.time() - self.terms.period * DAY
        answers = len(self.ranker.log.messages(since))
        return spent_of(self.agreed.text, self.terms.epsilon, answers)

    def about(self) -> dict[str, Any]:
        """What the page shows."""
        record = self.records.of([self.client]).get(self.client)
        spent, messages = self.spent, self.ranker.log.messages()
        last = None
        if record is not None and messages:
            last = {
                "round": record.round + 1, "when": messages[-1][1], "weight": record.weight,
                "names": list(NAMES), "numbers": [round(float(x), 6) for x in record.payload],
            }  # fmt: skip
        pending = "" if not self.leaving else PENDING.format(self.terms.gateway)
        return {
            "gateway": self.terms.gateway, "client": self.client,
            "learner": repr(self.agreed.learner),
            "privacy": "none" if self.agreed.privacy is None else repr(self.agreed.privacy),
            "next": {"searches": self._waiting(), "of": self.terms.searches, "by": self._by()},
            "last_message": last, "messages_sent": len(messages), "pending": pending,
            "budget": {
                "spent": _finite(spent.epsilon), "epsilon": spent.budget, "delta": spent.delta,
                "rounds": spent.answers, "of_rounds": spent.rounds,
                "text": _told(spent, self.terms),
            },
        }  # fmt: skip

    def _waiting(self) -> int:
        """Searches since the last message."""
        return len(self.ranker.log.of_epoch(self.ranker.epoch.epoch))

    def _by(self) -> float:
        messages = self.ranker.log.messages()
        stamp = (self.home.folder / "joined.json").stat().st_mtime
        return (messages[-1][1] if messages else stamp) + self.terms.days * DAY

    # --- sending ---

    def due(self) -> bool:
        """Whether there is something to send, and the budget allows it."""
        if self.spent.over:
            return False
        waiting = self._waiting()
        return waiting >= self.terms.searches or (waiting > 0 and time.time() >= self._by())

    def run(self, stop: threading.Event, paused: Callable[[], bool] = lambda: False) -> None:
        """Send and get models until `stop` is set, or until the device has left."""
        while not stop.is_set():
            try:
                if self.leaving or (self.due() and not paused()):
                    self.once()
                else:
                    self.refresh()
                    self._rest()
            except Unavailable as away:
                self.tell(f"{away}: trying again later")
                stop.wait(max(LOOK, away.seconds))
            except Excluded as excluded:
                self.tell(f"this device takes part no more: {excluded}")
                return
        self.gateway.close()

    def _rest(self) -> None:
        """Wait until something may be due."""
        if self.wake.wait(min(LOOK, self.soon_seconds)):
            self.wake.clear()

    def once(self) -> None:
        """Wait for an ask, for up to half a minute, and answer it."""
        if self.leaving:
            with suppress(Unavailable, Excluded):
                self.gateway.forget()
        self.gateway.once(self._answer)

    def _answer(self, ask: bytes) -> bytes:
        with self.lock:
            made = self.device.answer(ask)
            if not self.leaving:
                self._settle()
            return made

    def _settle(self) -> None:
        """Make what was answered the beginning of the present epoch. Safe to repeat: it may have
        been stopped before."""
        record = self.records.of([self.client]).get(self.client)
        if record is None or not len(record.after):
            return
        self.ranker.log.note_message(record.round, int(record.after[-1]) - 1, time.time())
        params = self.ranker.epoch.params
        settled(self.ranker, record.after, params, max(self.ranker.epoch.round, record.round))

    # --- models ---

    def refresh(self) -> bool:
        """Get the newest model, at most once an hour, or once a minute after a message. Returns
        whether there was one."""
        answered = self.ranker.log.messages()
        lately = bool(answered) and time.time() - answered[-1][1] < AWAITED
        awaited = lately and self.ranker.epoch.round <= answered[-1][0]
        every = self.soon_seconds if awaited else self.refresh_seconds
        if time.monotonic() - self._refreshed < every:
            return False
        self._refreshed = time.monotonic()
        found = self.newest()
        if found is None:
            return False
        with self.lock:
            now = self.ranker.epoch
            if found[0] <= now.round:
                return False
            self.ranker.log.set_epochs([Epoch(now.epoch, *found, now.memory)])
            self.ranker.replay()
        self.tell(f"the model of round {found[0]} has come")
        return True

    def newest(self) -> tuple[int, Array] | None:
        """The number of rounds that the gateway's model has, and its parameters; None if it is
        known."""
        found = self.gateway.model(self._known)
        if found is None:
            return None
        self._known = found[0]
        return model_in(found[1], self.agreed)

    # --- leaving ---

    def forget(self) -> str:
        """Ask to be unlearned. What is stored for unlearning is deleted when that is done."""
        try:
            self.home.place.forget(self.gateway, self.agreed)
            return (
                "The gateway has the request. The server forgets this device before one of its"
                " next rounds. Until then this device refuses every ask."
            )
        except (Unavailable, Excluded) as error:
            return PENDING.format(self.terms.gateway) + f" ({error})"

    def leave(self) -> str:
        """Take part no more. What was contributed stays in the model."""
        try:
            self.gateway.leave()
        except (Unavailable, Excluded) as error:
            raise Mistake(f"{error}: try again later") from None
        self.home.place.clear(keys=False)
        return "This device takes part no more. What it has contributed stays in the model."

    def _forgotten(self) -> None:
        """The server has unlearned this device: its key is not needed any more."""
        self.home.place.clear(keys=True)
        self.tell("the server has forgotten this device: its key is deleted")


PENDING = (
    "The request to be forgotten is stored, and not confirmed yet: this device keeps asking {}"
    " whenever it runs."
)


def join(
    home: Home, own: LocalRanker, agreed: Agreement, terms: Terms, invitation: str | None
) -> int:
    """Enrol at the gateway, pin the agreement, and start from the server's model. `own` is the
    ranker of the device before it joins. Returns the client number."""
    gateway = GatewayClient(terms.gateway, home.place.requests(agreed), home.tls)
    before = own.log.about("federation")
    if before is not None and before != agreed.id:  # it has left another one
        own.log.delete_about("federation")
        home.place.records(agreed).forget()
    client = home.place.join(gateway, agreed, invitation)
    home.set_terms(terms)
    try:
        found = gateway.model()
    except (Unavailable, Excluded):
        found = None
    first = agreed.ranker.init(len(NAMES), stream(own.seed, "init"))
    round, params = (0, first) if found is None else model_in(found[1], agreed)
    same = len(own.weights) == len(params)
    memory = first_memory(agreed, own.weights if same else params, params, own.made)
    epoch = own.epoch.epoch + 1
    home.place.records(agreed).restart(np.append(memory, np.float32(epoch)).tobytes())
    own.log.set_epochs([Epoch(epoch, round, params, memory)])
    return client


def model_in(frame: bytes, agreed: Agreement) -> tuple[int, Array]:
    """The number of rounds that a model has, and its parameters. Raises Unavailable for a model
    of another federation, or for other features."""
    try:
        found = Frame.from_bytes(frame)
        params = Model.from_bytes(found.payload, agreed.parameters).params
    except Malformed as error:
        raise Unavailable(f"the gateway's model is not understood: {error}") from None
    if found.federation != agreed.id or found.features != agreed.feature_hash:
        raise Unavailable("the gateway's model is of another federation, or for other features")
    return found.model_round, params


def _finite(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def _told(spent: Spent, terms: Terms) -> str:
    if not np.isfinite(spent.epsilon) or (spent.budget is None and spent.answers == 0):
        return "Nothing hides what a message says of you: there is no budget to count."
    used = f"{spent.answers} of {spent.rounds} messages in {terms.period:g} days"
    if spent.over:
        return f"The budget is spent ({used}): nothing is sent until the period is over."
    return f"{used}; so far epsilon {epsilon_text(spent.epsilon)}."
