"""The ranker of this device: it orders candidates, and learns from one search at a time.

It is what the searches of the log, replayed from the beginning of the epoch, make of the epoch's
parameters (`LocalRanker`). Learning from a search as it ends, or from all of them after a restart,
gives the same bits."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core import Array, Ranker
from foltr.core.errors import Mistake, require, shown
from foltr.core.seeds import Stream, stream
from foltr.core.stepwise import LearnsStepwise, Start
from foltr.device.click_log import ClickLog, Epoch, LoggedSearch, Period
from foltr.device.guard import Guard, Shown, by_bm25, mixed
from foltr.device.searching import NAMES

START = Linear(start=(5.0,))  # BM25, the first feature
BM25 = START.init(len(NAMES), stream(0))
# weights that were trained on public manuals, of the features in the order of `ABOUT`
PRIOR = Linear(
    start=(
        1.54, -0.45, 0.45, -1.48, 0.58, 0.05, 1.11, -0.21, -0.15, 0.1, 0.25, -0.02, 0.42,
        -0.5, -0.07, 0.57, 0.17, 0.0, -0.58, -0.04, 0.38, 0.71, 0.73, -0.17, 0.28, 1.01,
        -0.18, -0.12, 0.49, -0.04, -0.31, 0.15, -0.03, 0.73, -0.68, -0.51, -0.45, 0.0,
    )
)  # fmt: skip
STARTS: Mapping[str, Linear] = {"bm25": START, "manuals": PRIOR}
ALONE = PDGD(lr=0.1, explore=False, sessions=50)  # the learner without a federation
GUARD = Guard()
WATCHED = 200  # mixed lists that the guard remembers
SECRET = "secret"  # name of the seed of this device's draws
LARGEST = 1e6  # parameter of a model
CHOSEN = "start"  # name of the stored choice of a start


class Order(NamedTuple):
    """A list, and how it was made."""

    ranking: Array  # (k,) indices into the candidates
    teams: Array  # (k,) as in `LoggedSearch`
    shown_by: Shown
    plain: Array  # (k,) BM25's list


class EpochStream(Stream):
    """The draws of an epoch, whatever the server's round is. While a list is shown, nobody knows
    which round its search will be sent in."""

    def at(self, part: int) -> Stream:
        return Stream(self.key)


def as_it_is(which: int, values: int, session: int) -> int:
    """A reward as it is: noise is added when a message is made."""
    return which


class LocalRanker:
    """The ranker of a device.

    log: its searches, and the parameters of each epoch
    learner, ranker: those of the federation, or `ALONE` and `START`
    guard: what decides which list is shown"""

    def __init__(
        self,
        log: ClickLog,
        learner: LearnsStepwise = ALONE,
        ranker: Ranker = START,
        guard: Guard = GUARD,
    ) -> None:
        self.log, self.learner, self.ranker, self.guard = log, learner, ranker, guard
        self.lock = threading.RLock()  # held while the ranker changes
        self.seed = _secret(log)
        if log.epoch() is None:
            params = ranker.init(len(NAMES), stream(self.seed, "init"))
            log.set_epochs([Epoch(0, 0, params, learner.remembered(ranker, params))])
        self.replay()

    # --- the present state ---

    def replay(self) -> None:
        """Learn from the searches of this epoch again."""
        self.epoch = self.epoch_now
        if len(self.epoch.params) != len(self.ranker.init(len(NAMES), stream(0))):
            raise Mistake(
                f"the stored model has {len(self.epoch.params)} parameters, which are not those of"
                f" {self.ranker!r} and {len(NAMES)} features: clear what was learned"
            )
        self.start = self.start_of(self.epoch)
        searches = self.log.of_epoch(self.epoch.epoch)
        self.sofar = self._after(self.start, searches)
        self.epoch_searches = len(searches)
        self.evidence = self.guard.evidence(self.log.outcomes(WATCHED))
        self.made = self.log.learned()  # of all epochs

    @property
    def epoch_now(self) -> Epoch:
        """The epoch of a search that is made now. The log knows it even if this ranker is not used
        any more, because the device has just left its federation."""
        epoch = self.log.epoch()
        assert epoch is not None
        return epoch

    def start_of(self, epoch: Epoch) -> Start:
        draws = stream(self.seed, "ranking", epoch.epoch)
        parts = self.ranker, epoch.params, epoch.memory, self.learner.sessions
        return Start(*parts, draws, epoch.round, as_it_is)

    def _after(self, start: Start, searches: Sequence[LoggedSearch]) -> Any:
        sofar = self.learner.begin(start)
        for search in searches:
            sofar = self.learner.step(start, sofar, *search.session)
        return sofar

    def _finished(self, epoch: Epoch, searches: Sequence[LoggedSearch]) -> tuple[Array, Array]:
        """What an epoch with these searches gives: the update, and what the device keeps."""
        start = self.start_of(epoch)
        update, _, memory = self.learner.finish(start, self._after(start, searches))
        return update, memory

    @property
    def weights(self) -> Array:
        """The parameters that score the next candidates."""
        return self.learner.current(self.start, self.sofar)

    # --- searching ---

    def order(self, features: Array, paused: bool = False) -> Order:
        """The list to show. While learning is paused, lists are not mixed."""
        k = min(10, len(features))
        none, shown = np.zeros(k, np.uint8), self.shows(paused)
        if not k:
            empty = np.zeros(0, np.int64)
            return Order(empty, none, shown, empty)
        own = self.learner.show(self.start, self.sofar, features)[:k]
        plain = by_bm25(features[:, 0], own, stream(self.seed, "plain", self.made))
        if shown == "mixed" and np.array_equal(own, plain):
            shown = "bm25"  # there is nothing to mix
        if shown == "mixed":
            draws = stream(self.seed, "mixed", self.made)
            return Order(*mixed(own.tolist(), plain.tolist(), draws), shown, plain)
        return Order(plain if shown == "bm25" else own, none, shown, plain)

    @property
    def is_bm25(self) -> bool:
        """Whether nothing is learned, here or elsewhere: its lists are those of BM25."""
        return np.array_equal(self.weights, BM25)

    def shows(self, paused: bool) -> Shown:
        """Which list is shown next."""
        shown = self.guard.choice(self.evidence, self.made)
        if self.guard.on and self.is_bm25 and not self.explores:
            return "bm25"
        if paused and shown == "mixed":
            shown = "learned" if self.evidence >= self.guard.up else "bm25"
        return shown

    def learn(self, search: LoggedSearch) -> None:
        """Close a search of this epoch, and learn from it."""
        closed = self.log.close_search(search.id)
        self.sofar = self.learner.step(self.start, self.sofar, *closed.session)
        self.epoch_searches += 1
        self.made += 1
        if closed.shown_by == "mixed":
            self.evidence = self.guard.evidence(self.log.outcomes(WATCHED))

    # --- epochs ---

    def begin_epoch_if_full(self) -> bool:
        """Of a device without a federation: begin a new epoch, if this one has all its searches.
        Returns whether it did."""
        whole, (n, t, params, _) = self.learner.sessions, self.epoch
        if self.epoch_searches < whole:
            return False
        update, memory = self._finished(self.epoch, self.log.of_epoch(n)[:whole])
        self.log.set_epochs([Epoch(n + 1, t, params + update, memory)], whole)
        self.replay()
        return True

    def close_epoch(self, most: int) -> None:
        """Of a device in a federation: begin a new epoch, because this one is sent. At most `most`
        of its searches are; the rest belong to the new one."""
        n, t, params, memory = self.epoch
        if len(memory):  # else there is nothing to compute
            _, memory = self._finished(self.epoch, self.log.of_epoch(n)[:most])
        self.log.set_epochs([Epoch(n + 1, t, params, memory)], most)
        self.replay()

    def use_model(self, round: int, params: Array) -> None:
        """Of a device in a federation: go on with the server's parameters after `round` rounds, if
        they are not older than those that it has."""
        check_usable(params)
        now = self.epoch
        other = params.tobytes() != now.params.tobytes()
        if round > now.round or (round == now.round and other):
            self.log.set_epochs([now._replace(round=round, params=params)])
            self.replay()

    def end_membership(self, learner: LearnsStepwise, ranker: Ranker) -> None:
        """Go on without a federation, from the ranker as it is now; from the beginning, if the
        federation's was of another kind."""
        params = first = ranker.init(len(NAMES), stream(self.seed, "init"))
        with suppress(Mistake):
            check_usable(self.weights)
            params = self.weights if len(self.weights) == len(first) else first
        memory = learner.remembered(ranker, params)
        self.log.begin_period(Epoch(self.epoch.epoch + 1, 0, params, memory))

    @property
    def explores(self) -> bool:
        """Whether its lists depend on chance."""
        docs = stream(0, "explores").uniforms(40 * len(NAMES)).reshape(40, -1).astype(np.float32)
        starts = [replace(self.start, rng=stream(draw, "explores")) for draw in range(4)]
        scores = self.ranker.scores(self.weights, docs)
        shown = [scores[self.learner.show(start, self.sofar, docs)] for start in starts]
        return any((np.diff(each) > 0.0).any() for each in shown)

    def forget(self, ids: Sequence[int] | None) -> None:
        """Delete searches from the log, and compute what was learned without them; None for all of
        them, and all that was learned."""
        if ids is None:
            now = self.epoch_now
            self.log.forget(None, [self._unlearned(now)], now.epoch)
        elif ids:
            first = min(self.log.one(id).epoch for id in ids)
            self.log.forget(ids, self._again(first, frozenset(ids)), self.log.period.first)
        self.replay()

    def _unlearned(self, epoch: Epoch) -> Epoch:
        """An epoch whose beginning depends on none of this device's searches."""
        params = epoch.params
        if not epoch.round:  # not the server's, or the first of the server's
            params = self.ranker.init(len(NAMES), stream(self.seed, "init"))
        memory = self.learner.remembered(self.ranker, params)
        return epoch._replace(params=params, memory=memory)

    def _again(self, first: int, without: frozenset[int]) -> list[Epoch]:
        """The epochs from `first` on, computed again from their searches without some of them. The
        server's parameters stay what they were: what was sent cannot be taken back. What was
        learned before the present period cannot be computed again: if it has changed, the period
        begins without it."""
        period = self.log.period
        epochs = self.log.epochs(max(first, period.first))
        found = epochs[:1] if first >= period.first else [self._unlearned(epochs[0])]
        alone = not period.federation
        for n, t, params, _ in epochs[1:]:
            before = found[-1]
            if not (alone or len(before.memory)):  # then there is nothing to compute
                found.append(Epoch(n, t, params, before.memory))
                continue
            left = [s for s in self.log.of_epoch(before.epoch) if s.id not in without]
            update, memory = self._finished(before, left)
            found.append(Epoch(n, t, before.params + update if alone else params, memory))
        return found


def check_usable(params: Array) -> None:
    """Refuse parameters that are so large that scores could overflow. Nothing that is learned
    comes near them."""
    largest = float(np.abs(params).max(initial=0.0))
    require(largest <= LARGEST, f"the model has a parameter of {largest:g}, beyond {LARGEST:g}")


def chosen_start(log: ClickLog) -> Ranker:
    """What the ranker of a device without a federation starts from."""
    name = (log.about(CHOSEN) or b"bm25").decode()
    require(name in STARTS, f"the index starts from {name!r}, which this version does not know")
    return STARTS[name]


def choose_start(log: ClickLog, name: str) -> None:
    """Choose what the ranker starts from, before it has learned anything."""
    if (log.about(CHOSEN) or b"bm25") == name.encode():
        return
    require(name in STARTS, f"--start must be bm25 or manuals, got {shown(name)}")
    late = "--start can only be chosen before the first search"
    require(log.period == Period(), f"{late}, and before joining a federation")
    require(log.counts()[0] == 0, f"{late}: run foltr device clear first")
    log.set_about(CHOSEN, name.encode())
    log.drop_epochs()


def _secret(log: ClickLog) -> int:
    """The seed of this device's draws. Nobody else knows it."""
    log.pin(SECRET, secrets.token_bytes(8))
    return int.from_bytes(log.about(SECRET) or b"", "little") >> 1
