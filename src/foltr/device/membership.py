"""A device in a federation: sending, getting models, and leaving.

The device connects to its gateway only when it has something to send: after `Terms.searches`
searches, or after `Terms.days` days. Then it waits for an ask, and answers it by the federation's
own `Participant`, which checks everything against the agreement that was pinned when it joined. It
stays connected until its answer has arrived, and for the other steps of a secure sum. Without a
network, or when the budget is spent, search and local learning go on.

A message is made from the searches of one epoch (`LogEngine`). The number of the epoch that is
sent next is this client's position: the federation's records store it in one transaction with the
answer. So a search is in one message only, whenever the device is stopped."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort
from foltr.core.errors import Mistake
from foltr.core.federation import Client
from foltr.core.seeds import Stream, SystemStream, stream
from foltr.core.stepwise import ReplayedUser
from foltr.deployment.gateway.client import Excluded, GatewayClient, Unavailable
from foltr.deployment.gateway.device_folder import JOINED
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.participant import FORGET, FORGOTTEN, Participant
from foltr.deployment.protocol.records import Record
from foltr.device.budget import DAY, Spent, epsilon_elsewhere, spent_of, spent_text
from foltr.device.home import TERMS, Home
from foltr.device.joining import check_fits, model_in
from foltr.device.learning import ALONE, START, EpochStream, LocalRanker, check_usable
from foltr.device.searching import NAMES

REFRESH = 3600.0  # seconds between two looks for a new model
SOON = 60.0  # the same in the first minutes after a message
AWAITED = 900.0  # seconds after a message in which its round may end
LOOK = 20.0  # seconds between two looks whether there is something to send
ARRIVED = "arrived"  # name of the hash of the last ask whose answer the gateway has
Tell = Callable[[str], None]
# a search of a device that searched less often than others: it teaches nothing
NOTHING = np.zeros((1, len(NAMES)), np.float32), np.zeros(1, np.int64), np.zeros(1, bool)


class Membership:
    """The place of a device in its federation.

    home: its folder, in which it has joined
    ranker: its ranker
    tell: writes a line to the log"""

    def __init__(self, home: Home, ranker: LocalRanker, tell: Tell = lambda text: None) -> None:
        joined, terms = home.federation.joined, home.terms
        if joined is None:
            raise Mistake("this device has not joined a federation: foltr device join URL")
        if terms is None:
            raise Mistake(
                f"{home.folder / TERMS} is missing: restore it, or delete {JOINED} as well. Then"
                " this device is in no federation"
            )
        self.home, self.ranker, self.terms, self.tell = home, ranker, terms, tell
        self.agreed = Agreement.from_text(joined["agreement"])
        check_fits(self.agreed, terms.gateway)
        self.client = int(joined["client"])
        self.records = home.federation.records(self.agreed)
        self.gateway = self._connection()
        own = range(self.client, self.client + 1)
        self.device = Participant(
            self.agreed, own, self._engine, self.records, offset=self.client, tell=tell,
            forgotten=self._forgotten,
        )  # fmt: skip
        if self.agreed.protocol is not None:
            from foltr.deployment.protocol.sums import SumParticipant

            self.device.sums = SumParticipant(self.agreed.protocol, self.agreed.fewest)
        self.refresh_seconds, self.soon_seconds = REFRESH, SOON
        self.wake = threading.Event()  # set when something may have become due
        self.over = False  # whether the device has left
        self._excluded = ""  # why the gateway refuses this device
        self._known = ""  # ETag of the last model
        self._answered = ""  # ETag of the last ask that was answered
        self._paused: Callable[[], bool] = lambda: False
        self._only_due = False  # whether asks are refused while nothing is due
        self._refreshed = -math.inf

    def _connection(self) -> GatewayClient:
        """A connection to the gateway, for one thread."""
        requests = self.home.federation.requests(self.agreed)
        return GatewayClient(self.terms.gateway, requests, self.home.tls, tell=self.tell)

    def _engine(self, sessions: int) -> LogEngine:
        return LogEngine(self.ranker, self.agreed, sessions=sessions, may_send=self._may_send)

    def _may_send(self) -> bool:
        if self._paused() or self.spent.over:
            return False
        return not self._only_due or self.due()

    # --- what the user sees ---

    @property
    def leaving(self) -> bool:
        """Whether it has asked to be forgotten, and has not been told yet that it is."""
        return self.records.about(FORGET) is not None and not self.forgotten

    @property
    def forgotten(self) -> bool:
        """Whether it has been told that it is forgotten."""
        return self.records.about(FORGOTTEN) is not None

    @property
    def spent(self) -> Spent:
        log, since = self.ranker.log, time.time() - self.terms.period * DAY
        answers = log.messages_by_federation(since).get(self.agreed.id, 0)
        elsewhere = epsilon_elsewhere(log, since, self.agreed.id)
        ever = len(self._messages())
        return spent_of(self.agreed.text, self.terms.epsilon, answers, ever, elsewhere)

    def about(self) -> dict[str, Any]:
        """What the page shows."""
        record, spent, messages = self._record(), self.spent, self._messages()
        last = None
        if record is not None and messages:
            last = {
                "round": record.round + 1, "when": messages[-1][1], "weight": record.weight,
                "names": list(NAMES), "numbers": [float(str(x)) for x in record.payload],
                "masked": self.agreed.protocol is not None,
            }  # fmt: skip
        pending = PENDING.format(self.terms.gateway) if self.leaving else self._excluded
        return {
            "gateway": self.terms.gateway, "client": self.client,
            "learner": repr(self.agreed.learner),
            "privacy": "none" if self.agreed.privacy is None else repr(self.agreed.privacy),
            "next": {"searches": self._waiting(), "of": self.terms.searches, "by": self._by()},
            "last_message": last, "messages_sent": len(messages), "pending": pending,
            "budget": {
                "spent": round(spent.epsilon, 4) if math.isfinite(spent.epsilon) else None,
                "epsilon": spent.budget, "delta": spent.delta,
                "rounds": spent.messages, "of_rounds": spent.within_budget,
                "text": spent_text(spent, self.terms.period),
            },
        }  # fmt: skip

    def _messages(self) -> list[tuple[int, float]]:
        return self.ranker.log.messages(federation=self.agreed.id)

    def _waiting(self) -> int:
        """Searches since the last message."""
        return self.ranker.log.waiting(self.ranker.log.period.first)

    def _by(self) -> float:
        """When it sends at the latest (seconds since 1970)."""
        messages = self._messages()
        try:
            stamp = (self.home.folder / JOINED).stat().st_mtime
        except FileNotFoundError:  # it leaves at this moment
            return math.inf
        return max(stamp, messages[-1][1] if messages else 0.0) + self.terms.days * DAY

    # --- sending ---

    def due(self) -> bool:
        """Whether there is something to send, and the budget allows it."""
        if self.spent.over:
            return False
        waiting = self._waiting()
        return waiting >= self.terms.searches or (waiting > 0 and time.time() >= self._by())

    def finishing(self) -> bool:
        """Whether a message was made lately that the gateway does not have yet, or whose secure
        sum goes on."""
        record, messages = self._record(), self._messages()
        if record is None or self.ranker.log.about(ARRIVED) == record.ask:
            return False
        return bool(messages) and 0.0 <= time.time() - messages[-1][1] < AWAITED

    def run(self, stop: threading.Event, paused: Callable[[], bool] = lambda: False) -> None:
        """Send and get models until `stop` is set, or until the device has left."""
        self._paused = paused
        while not stop.is_set() and not self.over:
            try:
                if self.leaving or self.finishing() or (self.due() and not paused()):
                    self._wait(stop, self.once(only_due=True))
                else:
                    self.refresh()
                    if self.wake.wait(min(LOOK, self.soon_seconds)):
                        self.wake.clear()
            except Unavailable as away:
                self.tell(f"{away}: trying again later")
                self._wait(stop, max(LOOK, away.seconds))
            except Excluded as excluded:
                self._excluded = EXCLUDED.format(self.terms.gateway, excluded)
                self.tell(self._excluded)
                self._wait(stop, REFRESH)
            except Mistake as mistake:  # the disk is full, or a certificate has expired
                self.tell(f"{mistake}: trying again later")
                self._wait(stop, LOOK)
        self.gateway.close()

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait for so long, or until this is over."""
        until = time.monotonic() + seconds
        while not self.over and (left := until - time.monotonic()) > 0.0:
            if stop.wait(min(left, 1.0)):
                return

    def once(self, only_due: bool = False) -> float:
        """Wait for an ask, for up to half a minute, and answer it. With `only_due`, an ask for
        another message is refused while nothing is due. Returns how many seconds to wait until
        the next time."""
        self._only_due = only_due
        if self.leaving:
            with suppress(Unavailable, Excluded):
                self.gateway.forget()
        before = self._answered
        self._answered, seconds = self.gateway.once(self._answer, before)
        self._excluded = ""
        if self._answered != before and not self.over:
            self._note_arrival()
        return seconds

    def _answer(self, ask: bytes) -> bytes:
        with self.ranker.lock:
            if self.over:  # it has left while it waited for the ask
                raise Unavailable("this device has left")
            self.settle()  # if the disk was full before
            made = self.device.answer(ask)
            if not self.over:
                self.settle()
            return made

    def _note_arrival(self) -> None:
        """Note that the gateway has this device's last message. A secure sum needs the device
        until it is released."""
        record = self._record()
        if record is None or (self.device.sums is not None and record.released != record.round):
            return
        if self.ranker.log.about(ARRIVED) != record.ask:
            self.ranker.log.set_about(ARRIVED, record.ask)

    def _record(self) -> Record | None:
        return self.records.of([self.client]).get(self.client)

    def waits_with(self, ids: Sequence[int] | None) -> bool:
        """Whether a message from some of these searches (None for all) has not arrived, and
        neither noise nor a secure sum hides what it says."""
        record, log = self._record(), self.ranker.log
        privacy = self.agreed.privacy
        noisy = privacy is not None and not privacy.adds_noise_on_server
        hidden = noisy or self.device.sums is not None
        if record is None or hidden or log.about(ARRIVED) == record.ask:
            return False
        chosen = (each for each in log.last(2**62) if ids is None or each.id in ids)
        return any(each.sent == record.round for each in chosen)

    def settle(self) -> None:
        """Make what was answered the beginning of the present epoch. Safe to repeat: it may have
        been stopped before."""
        record = self._record()
        if record is None or record.position_after is None:
            return
        if self.ranker.log.note_message(
            self.agreed.id,
            record.ask,
            record.round,
            epoch=record.position_after - 1,
            memory=record.after,
            time=time.time(),
        ):
            self.ranker.replay()

    # --- models ---

    def refresh(self) -> bool:
        """Get the newest model, at most once an hour, or once a minute after a message. Returns
        whether there was one."""
        answered = self._messages()
        lately = bool(answered) and time.time() - answered[-1][1] < AWAITED
        awaited = lately and self.ranker.epoch.round <= answered[-1][0]
        every = self.soon_seconds if awaited else self.refresh_seconds
        if time.monotonic() - self._refreshed < every:
            return False
        reply = self.gateway.model(self._known)
        if reply is not None:
            self._known = reply[0]
            model_round, params = model_in(reply[1], self.agreed)
        self._refreshed, self._excluded = time.monotonic(), ""
        if reply is None:
            return False
        with self.ranker.lock:
            if self.over or model_round <= self.ranker.epoch.round:
                return False
            self.ranker.use_model(model_round, params)
        self.tell(f"the model of round {model_round} has come")
        return True

    # --- leaving ---

    def forget(self) -> str:
        """Ask to be unlearned. What is stored for unlearning is deleted when that is done."""
        gateway = self._connection()
        try:
            self.home.federation.forget(gateway, self.agreed)
            return (
                "The gateway has the request. The server forgets this device before one of its"
                " next rounds. Until then this device refuses every ask."
            )
        except (Unavailable, Excluded, Mistake) as error:
            return f"{PENDING.format(self.terms.gateway)} ({error})"
        finally:
            gateway.close()
            self.wake.set()

    def leave(self) -> str:
        """Take part no more. What was contributed stays in the model."""
        text = "This device takes part no more. What it has contributed stays in the model."
        gateway, known = self._connection(), True
        try:
            gateway.leave()
        except Excluded:
            pass  # it does not take part already
        except (Unavailable, Mistake) as error:
            known = False
            text += f" The gateway could not be told ({error}): it may still ask, in vain."
        finally:
            gateway.close()
        self.end(keys=known)
        return text

    def _forgotten(self) -> None:
        """The server has unlearned this device: its key is not needed any more."""
        self.end(keys=True)
        self.tell("the server has forgotten this device: its key is deleted")

    def end(self, keys: bool) -> None:
        """Go on alone, from the ranker as it is now. With `keys`, delete the device's key: the
        gateway does not accept it any more. If this is interrupted, the device is still in the
        federation, or what is left of its files does not matter."""
        with self.ranker.lock:
            if keys:
                self.home.federation.delete_keys()
            if not self.over:
                self.ranker.end_membership(ALONE, START)
                self.records.set_memory(np.zeros(0))  # what was learned is the ranker's alone now
            self.over = True
            self.home.federation.clear()
        self.wake.set()


EXCLUDED = (
    "{} does not let this device take part: {}. Search and local learning go on. To leave: foltr"
    " device leave"
)
PENDING = (
    "The request to be forgotten is stored, and not confirmed yet: this device keeps asking {}"
    " whenever it runs."
)


@dataclass
class LogEngine:
    """The engine of the client that is this device.

    ranker: its ranker, with the log
    agreed: the federation's agreement
    noise: where its noise is drawn, if not from the operating system; for tests
    sessions: searches of a client in a round of unlearning; 0 in a round of training
    may_send: whether a message may be made now"""

    ranker: LocalRanker
    agreed: Agreement
    noise: Callable[[], Stream] = SystemStream
    sessions: int = 0
    may_send: Callable[[], bool] = lambda: True
    notes: tuple[str, ...] = ()
    memory: Array = field(init=False)  # (1, numbers)
    positions: Array = field(init=False)  # (1,) int64

    def __post_init__(self) -> None:
        self.memory = self.ranker.epoch.memory[None].copy()
        self.positions = np.array([self.ranker.log.period.first])

    @property
    def most(self) -> int:
        """The largest number of searches in a message."""
        part = min(1.0, self.sessions / self.agreed.learner.sessions) if self.sessions else 1.0
        return max(1, round(self.agreed.sessions * part))

    def collect(self, ask: Ask, clients: Array) -> Answers:
        """The message of this device, from the searches of one epoch."""
        check_usable(ask.params)
        log = self.ranker.log
        epoch = self._next(int(self.positions[0]))
        found = log.of_epoch(epoch)
        # a round that is asked again with another model must not have the same searches again, and
        # one that was answered before the device left and joined again has no second message
        before = log.round_before(log.period)
        again = before >= 0 and ask.t < before + (self.agreed.separation or 1)
        sent = again or any(each.sent is not None for each in found)
        privacy = self.agreed.privacy
        # then also a device without a search sends a message
        equal_weights = privacy is not None and privacy.needs_equal_weights
        if sent or not self.may_send() or not (found or equal_weights):
            return Answers(clients, Cohort.empty(len(ask.params)), None)
        if epoch == self.ranker.epoch.epoch:
            self.ranker.close_epoch(self.most)
        elif len(found) > self.most:  # as in a round of unlearning: the rest is for the next one
            log.set_epochs(log.epochs(epoch + 1)[:1], self.most)
            self.ranker.replay()
        self.ranker.use_model(ask.t, ask.params)
        # the log has what is kept: its user may have had it computed again since the last message
        row = log.epochs(epoch)[0]
        log.set_epochs([row._replace(round=ask.t, params=ask.params)])  # what it is made on
        searches = [each.session for each in log.of_epoch(epoch)]
        if privacy is not None:  # the weight hides how many searches there are
            searches += [NOTHING] * (self.most - len(searches))
        ranking = EpochStream(stream(self.ranker.seed, "ranking", epoch).key)
        client = Client(
            0, self.agreed.device_learner, self.agreed.ranker, privacy, ranking, self.noise()
        )
        update, self.memory[0] = client.step(ask, row.memory, ReplayedUser(searches))
        self.positions[0] = epoch + 1
        return Answers(clients, Cohort.stack([update]), None)

    def _next(self, epoch: int) -> int:
        """The first epoch from this one on that has searches: a user may have had all searches of
        an epoch forgotten that was closed and not sent."""
        log, now = self.ranker.log, self.ranker.epoch.epoch
        while epoch < now and not log.of_epoch(epoch):
            epoch += 1
        return epoch
