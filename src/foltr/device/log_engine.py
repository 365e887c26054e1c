"""The engine of a device that has joined a federation: its one client learns from its own log.

Its position is the number of the epoch that is sent next. The federation's records store it in one
transaction with the answer. So a search is in one message only, whenever the device is stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort
from foltr.core.federation import Client
from foltr.core.seeds import Stream, SystemStream, stream
from foltr.core.stepwise import ReplayedUser
from foltr.deployment.protocol.agreement import Agreement
from foltr.device.learning import EpochStream, LocalRanker, check_usable
from foltr.device.searching import NAMES

# a search of a device that searched less often than others: it teaches nothing
NOTHING = np.zeros((1, len(NAMES)), np.float32), np.zeros(1, np.int64), np.zeros(1, bool)


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
        if sent or not self.may_send() or not (found or self._equal):
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
        if self._padded:
            searches += [NOTHING] * (self.most - len(searches))
        ranking = EpochStream(stream(self.ranker.seed, "ranking", epoch).key)
        parts = self.agreed.device_learner, self.agreed.ranker, self.agreed.privacy
        client = Client(0, *parts, ranking, self.noise())
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

    @property
    def _equal(self) -> bool:
        """Whether every message has the same weight, also that of a device without a search."""
        return self.agreed.privacy is not None and self.agreed.privacy.needs_equal_weights

    @property
    def _padded(self) -> bool:
        """Whether the weight of a message hides how many searches it is made from."""
        return self.agreed.privacy is not None


def first_memory(agreed: Agreement, own: Array, params: Array, searches: int) -> Array:
    """What a device that joins keeps at first. Where its ranker is the server's plus a residual,
    that is a share of the difference between its own ranker and the server's: the more searches it
    has made alone, the larger, searches / (searches + those of a round). A new device starts with
    the server's ranker."""
    learner = agreed.device_learner
    usual, apart = learner.remembered(agreed.ranker, params), (own - params).astype(np.float32)
    residual = len(usual) == len(apart)
    if not residual or not np.array_equal(learner.personal(params, apart), params + apart):
        return usual
    return np.float32(searches / (searches + agreed.sessions)) * apart
