"""One ask of the server, divided among devices; and the devices' answers, joined into one.

The gateway relays the messages of a secure sum unchanged, and does not have the keys to read them.
Without a secure sum, it can read the updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from foltr.core.errors import Mistake
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    HEADER,
    LARGEST,
    TEXT,
    Frame,
    Kind,
    Malformed,
    Model,
    Refusal,
    read_parts,
    read_refusal,
    read_updates,
    refusal,
    write_parts,
)
from foltr.secure_sum.server import longest
from foltr.secure_sum.terms import Terms

STEPS = (Kind.LEARN, Kind.OPEN, Kind.SUM)
MORE = 4  # numbers of a message for each parameter, at most
ROW = 5  # bytes before the weights in the payload of LEARNED
REFUSAL = HEADER.size + 8 * TEXT  # most bytes of a frame that refuses
# Codes that say something about a whole node. A device cannot say it for its gateway: the server
# would forget the gateway, or greet it again.
OF_NODES = frozenset(("agreement", "clients", "forget", "hello"))


@dataclass(frozen=True)
class Step:
    """An ask for several clients. Each device gets its part: a frame for one client.

    `models` are the digests of earlier models, by the round of their first ask. Raises Malformed
    for an ask that cannot be divided, and Refusal if the answers would not fit in a frame."""

    ask: Frame
    agreement: Agreement
    models: Mapping[int, bytes]

    def __post_init__(self) -> None:
        if self.ask.kind == Kind.SUM:
            self._messages  # noqa: B018  # raises Malformed
        else:
            self._model  # noqa: B018
        each = 8 + 4 * self.agreement.parameters
        if self.ask.kind != Kind.LEARN:
            each = 4 + self._longest
        elif self.agreement.learner.reward_levels:  # it sends rewards, which are few
            each = 0
        if len(self.ask.clients) * (4 + each) > LARGEST:
            many = f"the answers of {len(self.ask.clients)} devices"
            raise Refusal("size", f"{many} are larger than a frame, {LARGEST} bytes")

    @property
    def nonce(self) -> bytes:
        return self.ask.nonce

    @cached_property
    def clients(self) -> frozenset[int]:
        return frozenset(self.ask.clients)

    @cached_property
    def _model(self) -> Model:
        """The model that devices start from. Raises Malformed."""
        payload, d = self.ask.payload, self.agreement.parameters
        if self.ask.kind == Kind.OPEN:
            _, _, payload = read_parts(payload, 3)
        return Model.from_bytes(payload, d)

    @cached_property
    def _messages(self) -> tuple[list[bytes], dict[int, bytes]]:
        """Of a secure sum: the step and the terms, and the message for each client."""
        which, terms, *messages = read_parts(self.ask.payload, 2 + len(self.ask.clients))
        return [which, terms], dict(zip(self.ask.clients, messages, strict=True))

    @cached_property
    def _longest(self) -> int:
        """Of a secure sum: most bytes of a device's message. Raises Malformed."""
        opens = self.ask.kind == Kind.OPEN
        terms = read_parts(self.ask.payload, 3)[1] if opens else self._messages[0][1]
        try:
            return longest(Terms.from_bytes(terms))
        except Mistake as error:
            raise Malformed(str(error)) from None

    @cached_property
    def most(self) -> int:
        """The most bytes of a device's answer."""
        if self.ask.kind != Kind.LEARN:
            return max(REFUSAL, HEADER.size + 12 + self._longest)
        words = MORE * self.agreement.parameters  # a learner of a user's own may send more
        return max(REFUSAL, HEADER.size + 4 + ROW + 8 + 4 * words)

    @cached_property
    def _shared(self) -> tuple[bytes, bytes]:
        """The parts of a device's ask that do not depend on the device: before and after its
        number."""
        text = replace(self.ask, clients=(0,)).to_bytes()
        at = len(text) - len(self.ask.payload) - 4
        return text[:at], text[at + 4 :]

    def ask_for(self, client: int) -> bytes:
        """The ask for one device."""
        if self.ask.kind == Kind.SUM:
            shared, messages = self._messages
            payload = write_parts([*shared, messages[client]])
            return replace(self.ask, clients=(client,), payload=payload).to_bytes()
        before, after = self._shared
        return before + client.to_bytes(4, "little") + after

    def checked(self, client: int, text: bytes) -> Frame:
        """A device's answer. Raises Malformed if it is none."""
        answer = Frame.from_bytes(text)
        named = answer.clients in ((), (client,))
        if not named or not answer.fits(self.ask, self.agreement.separation or 0):
            raise Malformed("the answer does not fit the ask")
        earlier = answer.model_round != self.ask.model_round
        if earlier and self.models.get(answer.model_round) != answer.model:
            raise Malformed("the answer was made on a model that this gateway did not pass on")
        if answer.kind == Kind.REFUSED:
            read_refusal(answer.payload)
            if answer.clients:
                raise Malformed("a refusal names no client")
            return answer
        if answer.clients != (client,):
            raise Malformed("an answer must name the device's client")
        if answer.kind == Kind.LEARNED:
            self._check_update(answer.payload)
        else:
            (message,) = read_parts(answer.payload, 1)
            if len(message) > self._longest:  # it would leave no room for those of others
                raise Malformed(f"a message of {len(message)} bytes, {self._longest} are enough")
        return answer

    def _check_update(self, payload: bytes) -> None:
        """Refuse what the agreed learner cannot have sent."""
        updates, weights = read_updates(payload, 1)
        agreed, model = self.agreement, self._model
        try:
            agreed.check_weight(float(weights[0]), model.sessions)
            agreed.device_learner.check_message(updates[0], float(weights[0]), model.params)
        except Mistake as error:
            raise Malformed(str(error)) from None

    def joined(self, answers: Mapping[int, Frame]) -> Frame:
        """One answer for the server. If every device refused, a refusal with the most frequent
        reason."""
        found = {id: answers[id] for id in sorted(answers) if answers[id].clients}
        if not found:
            return self.ask.answer(Kind.REFUSED, (), self._refusal(answers))
        if self.ask.kind == Kind.LEARN:  # the form of most answers; others are left out
            head, _ = Counter(answer.payload[:ROW] for answer in found.values()).most_common(1)[0]
            found = {id: each for id, each in found.items() if each.payload[:ROW] == head}
        payloads = [answer.payload for answer in found.values()]
        if self.ask.kind == Kind.LEARN:
            weights = b"".join(payload[ROW : ROW + 8] for payload in payloads)
            rows = b"".join(payload[ROW + 8 :] for payload in payloads)
            joined = payloads[0][:ROW] + weights + rows
            return self.ask.answer(Kind.LEARNED, tuple(found), joined)
        messages = [read_parts(payload, 1)[0] for payload in payloads]
        return self.ask.answer(Kind.SUMMED, tuple(found), write_parts(messages))

    def _refusal(self, answers: Mapping[int, Frame]) -> bytes:
        reasons = Counter(read_refusal(answer.payload) for answer in answers.values())
        if not reasons:
            return refusal("failed", "no device answered in time")
        (code, text), many = reasons.most_common(1)[0]
        code = "failed" if code in OF_NODES else code
        return refusal(code, f"{text} ({many} of {len(answers)} devices)")
