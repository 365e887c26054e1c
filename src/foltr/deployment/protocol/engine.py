"""The engine for clients on other machines. Flower carries the asks and the answers of a round."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort, Withheld
from foltr.core.cohorts import lengths
from foltr.core.errors import Mistake, require
from foltr.deployment.protocol.exchange import Nodes
from foltr.deployment.protocol.frames import (
    Frame,
    Kind,
    Malformed,
    Model,
    read_parts,
    read_updates,
    write_ids,
    write_parts,
)
from foltr.deployment.protocol.messages import NewSession
from foltr.secure_sum.terms import SumProtocol, model_digest

SESSIONS = 20  # a round is given up after this many lost sessions
LARGEST = 1e6  # largest L2 norm of an update that is accepted


@dataclass
class Flower(Nodes):
    """The engine of a federation between machines. It groups the clients of a round by node, asks
    each node once, and takes the answers that arrive before the deadline.

    The engine checks that each answer belongs to its ask, comes from the node that was asked, is
    for clients of that node, and has messages that the learner can have sent. An answer that fails
    a check is left out and counted in `failures`, as if its clients had not answered. With a
    channel, the engine is the server of the secure sum, and returns one row: the mean."""

    largest: float = LARGEST  # largest L2 norm of an update that is accepted
    model: Model | None = None  # how clients learn in rounds of unlearning; None: as agreed
    sent: tuple[bytes, int] = (b"", 0)  # digest of the last model, and the round of its first ask
    # the devices keep their memory themselves
    memory: Array = field(default_factory=lambda: np.empty((1, 0), np.float32))
    # clients whose messages were used in the last round
    took_part: Array = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.failures:
            return ()
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.failures.items()))
        return (f"answers that were left out: {kinds}",)

    def collect(self, ask: Ask, clients: Array) -> Answers:
        agreed = self.agreement.asked
        require(ask.n == agreed, f"a round of {ask.n} clients, but the agreement has {agreed}")
        for _ in range(SESSIONS):
            try:
                return self._collected(ask, clients)
            except NewSession:  # ask again: devices repeat their answers
                self._go_on()
        self._fail(0, "session", f"{SESSIONS} sessions with the SuperLink were lost in one round")
        return Answers(clients, Cohort.empty(len(ask.params)), None)

    def _collected(self, ask: Ask, clients: Array) -> Answers:
        self.on_round()
        seats, self.took_part = self.seats(clients), np.empty(0, np.int64)
        asked = np.array(sorted(id for ids in seats.values() for id in ids), np.int64)
        if self.agreement.protocol is not None:
            arrived = self._summed(self.agreement.protocol, ask, clients, seats)
        else:
            arrived = self._stacked(ask, clients, seats)
        return Answers(asked, arrived, None)

    def _frame(
        self, node: int, kind: Kind, ask: Ask, ids: tuple[int, ...], payload: bytes
    ) -> Frame:
        agreed = self.agreement
        if self.sent[0] != (name := model_digest(ask.params)):
            self.sent = name, ask.t
            late = ask.t - (agreed.separation or 0)
            self.models = {t: kept for t, kept in self.models.items() if t >= late}
            self.models[ask.t] = name
        of_model = self.sent[1], name
        about = agreed.id, ask.t, *of_model, agreed.feature_hash, secrets.token_bytes(16), ask.n
        return Frame(kind, *about, ids, payload)

    def _model(self, ask: Ask) -> bytes:
        how = (0, -1) if self.model is None else (self.model.sessions, self.model.stored)
        return Model(ask.params, *how).to_bytes()

    def _stacked(self, ask: Ask, clients: Array, seats: Mapping[int, tuple[int, ...]]) -> Cohort:
        """The messages of all clients that answered, in the order of `clients`."""
        payload, rows = self._model(ask), dict[int, tuple[Array, float]]()
        asks = {
            node: self._frame(node, Kind.LEARN, ask, ids, payload) for node, ids in seats.items()
        }
        for node, answer in self.exchange(asks).items():
            try:
                updates, weights = read_updates(answer.payload, len(answer.clients))
            except Malformed as error:
                self._fail(node, "malformed", str(error))
                continue
            for id, update, weight in zip(answer.clients, updates, weights.tolist(), strict=True):
                try:
                    self._check(update, weight, ask.params)
                except Mistake as error:
                    self._fail(node, "message", f"client {id}: {error}")
                    continue
                rows[id] = update, weight
        there = [id for id in clients.tolist() if id in rows]
        self.took_part = np.array(there, np.int64)
        if len(there) < self.agreement.fewest:
            return Cohort.empty(len(ask.params))
        updates = np.stack([rows[id][0] for id in there])
        return Cohort(np.array(there), updates, np.array([rows[id][1] for id in there]))

    def _check(self, update: Array, weight: float, params: Array) -> None:
        """Raise a Mistake unless the agreed learner can have sent this message."""
        agreed = self.agreement
        agreed.check_weight(weight, 0 if self.model is None else self.model.sessions)
        agreed.device_learner.check_message(update, weight, params)
        if agreed.device_learner.reward_levels == 0:
            norm = float(lengths(update[None])[0])
            long = f"an update has norm {norm:.3g}, and max_norm is {self.largest:.3g}"
            require(norm <= self.largest, long)

    def _summed(
        self, protocol: SumProtocol, ask: Ask, clients: Array, seats: Mapping[int, tuple[int, ...]]
    ) -> Cohort:
        """The mean of the clients that finished the secure sum, as one row. No row if they were
        too few."""
        from foltr.deployment.protocol.sums import SumRound  # needs cryptography

        everybody, signed = np.sort(clients), protocol.consistency
        if signed:  # one client without a key would void the sum of all
            able = self.members.known(clients)
            there = {node: tuple(id for id in ids if id in able) for node, ids in seats.items()}
            seats = {node: ids for node, ids in there.items() if ids}
            everybody = np.sort(self.members.filled(clients[np.isin(clients, list(able))], ask.n))
        known = self.members.known(everybody)
        if not self.members.pinned and not signed:  # a gateway cannot sign for its devices
            own = {id for node, ids in seats.items() if self.rolls(node) for id in ids}
            known = {id: key for id, key in known.items() if id not in own}
        terms = protocol.terms(ask, self.agreement.fewest)
        try:
            named, now = terms.to_bytes(), SumRound(terms, everybody, known, self._fail)
        except Mistake as error:
            self._fail(0, "withheld", str(error))
            return Cohort.empty(len(ask.params))
        asks = {}
        for node, ids in seats.items():
            opening = write_parts([write_ids(everybody), named, self._model(ask)])
            asks[node] = self._frame(node, Kind.OPEN, ask, ids, opening)
        try:
            while asks:
                for node, answer in self.exchange(asks).items():
                    try:
                        parts = read_parts(answer.payload, len(answer.clients))
                    except Malformed as error:
                        self._fail(node, "malformed", str(error))
                        continue
                    now.take(node, dict(zip(answer.clients, parts, strict=True)))
                step, post = now.close()
                asks = {}
                for node, ids in () if step is None else seats.items():
                    left = tuple(id for id in ids if id in post)
                    if left:
                        assert step is not None
                        parts = [bytes([step]), named, *(post[id] for id in left)]
                        asks[node] = self._frame(node, Kind.SUM, ask, left, write_parts(parts))
            update, weight = protocol.mean(now.total())
        except (Withheld, Mistake) as error:
            self._fail(0, "withheld", str(error))
            return Cohort.empty(len(ask.params))
        norm, many = float(lengths(update[None])[0]), len(now.survivors)
        if not norm <= self.largest:
            long = f"the mean has norm {norm:.3g}, and max_norm is {self.largest:.3g}"
            self._fail(0, "huge", f"{long}: a client sent a huge number")
            return Cohort.empty(len(ask.params))
        try:
            self.agreement.check_weight(weight / many, self.model.sessions if self.model else 0)
        except Mistake as error:
            self._fail(0, "weight", f"the mean weight of {many} messages is impossible: {error}")
            return Cohort.empty(len(ask.params))
        self.took_part = everybody[sorted(now.survivors)]
        return Cohort(np.array([-1]), update[None], np.array([weight]), mean_of=many)
