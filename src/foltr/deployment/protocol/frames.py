"""Frames: the messages between the server and the nodes, as bytes.

    magic (2)  version (1)  kind (1)  federation (16)  round (4)  model_round (4)  model (32)
    features (32)  nonce (16)  n (4)  clients (4)  length of the payload (8)
    client ids (4 each, ascending)  payload

Integers are little-endian. Each frame has exactly one encoding; the parser refuses all others. An
answer repeats the header of its ask, except for the kind and the clients. So the server knows
which ask an answer belongs to: every ask to every node has a new nonce. An answer that was made on
an earlier model names that one.

There is one version of the protocol. A frame of another one is refused by a text that names both
versions and says which side to update.

This module does not depend on the transport."""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from foltr.core import Array

MAGIC, VERSION = b"fF", 2
HEADER = struct.Struct("<2sBB16sII32s32s16sIIQ")
LARGEST = 1 << 28  # bytes of a frame
MOST_CLIENTS = 10**6  # in one frame
ALL_CLIENTS = 10**7  # most clients of a federation
NO_MODEL = bytes(32)
TEXT = 2_000  # characters of a refusal's text
# Why an ask is refused. Other codes are counted as 'refused', so that a node cannot fill the
# server's memory with new ones.
CODES = frozenset(
    "agreement budget channel clients disk failed features forget hello how kind malformed model n"
    " norms released round separation size sum terms".split()
)


class Malformed(ValueError):
    """Bytes that are not a frame."""


class Refusal(Exception):
    """Why a node refuses an ask: a code, which the server counts, and a text for its operator."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Kind(IntEnum):
    """The kind of a frame. A comment names what the frame carries -> the kind of the answer."""

    HELLO = 1  # the server's agreement -> WELCOME
    WELCOME = 2
    LEARN = 3  # the model -> LEARNED
    LEARNED = 4
    OPEN = 5  # the model and the terms of a secure sum -> SUMMED, the first messages of the sum
    SUM = 6  # messages of the sum's server -> SUMMED, those of its clients
    SUMMED = 7
    REFUSED = 8  # the answer to any ask that is refused: a code and a text
    FORGOTTEN = 9  # notice that the named clients are unlearned -> WELCOME
    ROLL = 10  # which clients can be reached? -> PRESENT, those; and those that want to leave
    PRESENT = 11


KINDS = frozenset(Kind)
ANY_CLIENTS = (Kind.HELLO, Kind.WELCOME, Kind.FORGOTTEN, Kind.ROLL, Kind.PRESENT)  # not of a round
ANSWERS = {
    Kind.HELLO: Kind.WELCOME,
    Kind.LEARN: Kind.LEARNED,
    Kind.OPEN: Kind.SUMMED,
    Kind.SUM: Kind.SUMMED,
    Kind.FORGOTTEN: Kind.WELCOME,
    Kind.ROLL: Kind.PRESENT,
}


@dataclass(frozen=True)
class Frame:
    """An ask or an answer."""

    kind: Kind
    federation: bytes  # `Agreement.id`
    round: int
    model_round: int  # round in which the server first sent this model
    model: bytes  # `secure_sum.terms.model_digest` of it
    features: bytes  # hash of the features' names
    nonce: bytes  # 16 fresh bytes
    n: int  # number of clients asked in this round, over all nodes
    clients: tuple[int, ...]  # the clients that this frame asks, or that answer in it
    payload: bytes = b""

    def answer(self, kind: Kind, clients: tuple[int, ...], payload: bytes) -> Frame:
        return replace(self, kind=kind, clients=clients, payload=payload)

    def answers(self, ask: Frame, behind: int = 0) -> bool:
        """Whether this is an answer to `ask`: its header fits, and its clients were asked."""
        asked = ask.kind == Kind.ROLL or set(self.clients) <= set(ask.clients)
        return asked and self.fits(ask, behind)

    def fits(self, ask: Frame, behind: int = 0) -> bool:
        """Whether the header fits `ask`, whatever the clients: the kind is that of its answers or
        a refusal, and all else is as in the ask. The answer may name an earlier model, if that is
        at most `behind` rounds old."""
        if self.kind not in (ANSWERS.get(ask.kind), Kind.REFUSED):
            return False
        own = self.federation, self.round, self.features, self.nonce, self.n
        if own != (ask.federation, ask.round, ask.features, ask.nonce, ask.n):
            return False
        earlier = ask.round - behind <= self.model_round < ask.model_round
        return earlier or (self.model_round, self.model) == (ask.model_round, ask.model)

    def to_bytes(self) -> bytes:
        ids = np.array(self.clients, "<u4").tobytes()
        fields = self.federation, self.round, self.model_round, self.model, self.features
        counts = self.n, len(self.clients), len(self.payload)
        header = HEADER.pack(MAGIC, VERSION, self.kind, *fields, self.nonce, *counts)
        return header + ids + self.payload

    @classmethod
    def from_bytes(cls, text: bytes) -> Frame:
        """Parse a frame. Raises Malformed for bytes that `to_bytes` cannot have made."""
        if not isinstance(text, bytes):
            raise Malformed(f"a frame must be bytes, got {type(text).__name__}")
        if not HEADER.size <= len(text) <= LARGEST:
            raise Malformed(f"a frame has {HEADER.size} .. {LARGEST} bytes, got {len(text)}")
        magic, version, kind, *fields, n, count, length = HEADER.unpack_from(text)
        if magic != MAGIC:
            raise Malformed(f"a frame begins with {MAGIC!r}, got {magic!r}")
        if version != VERSION:
            raise Malformed(version_text(version))
        if kind not in KINDS:
            raise Malformed(f"a frame of an unknown kind, {kind}")
        if count > MOST_CLIENTS or len(text) != HEADER.size + 4 * count + length:
            there = f"the frame has {len(text)} bytes"
            raise Malformed(f"{count} clients and {length} bytes announced, but {there}")
        ids = np.frombuffer(text, "<u4", count, HEADER.size)
        if not (ids[:-1] < ids[1:]).all():
            raise Malformed("the clients of a frame must be in ascending order, each once")
        if count > n and kind not in ANY_CLIENTS:
            raise Malformed(f"{count} clients in a round of {n}")
        federation, round, model_round, model, features, nonce = fields
        names = federation, round, model_round, model, features, nonce
        payload = text[HEADER.size + 4 * count :]
        return cls(Kind(kind), *names, n, tuple(ids.tolist()), payload)


def version_text(version: int) -> str:
    """Why a message of another version is refused, and what to do."""
    older = "this foltr" if version > VERSION else "the other foltr"
    return (
        f"version {version} of the protocol, but this foltr speaks version {VERSION}: {older} is"
        " older: update it"
    )


def refusal(code: str, text: str) -> bytes:
    """The payload of REFUSED."""
    short = text.encode("ascii", "replace").decode()[:TEXT]
    return json.dumps({"code": code, "text": short}).encode()


def read_refusal(payload: bytes) -> tuple[str, str]:
    try:
        content = json.loads(payload) if len(payload) <= 8 * TEXT else None
    except (ValueError, RecursionError):
        content = None
    if (
        not isinstance(content, dict)
        or set(content) != {"code", "text"}
        or not all(isinstance(part, str) for part in content.values())
    ):
        raise Malformed("a refusal must be a code and a text")
    code = content["code"] if content["code"] in CODES else "refused"
    return code, printable(content["text"], TEXT)


def printable(text: str, most: int) -> str:
    """Text from another machine, made safe for a terminal and a web page: at most `most`
    characters, ASCII only."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:most])


@dataclass(frozen=True)
class Welcome:
    """The payload of WELCOME.

    roll: whether its clients come and go, so that it must be asked which of them can be reached
    answered: number of rounds up to the last one in which a client of the node has answered, which
        a server needs that was restored from a backup; None if the node does not say"""

    roll: bool = False
    answered: int | None = None

    def to_bytes(self) -> bytes:
        return json.dumps({"roll": self.roll, "answered": self.answered}).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Welcome:
        try:
            content = json.loads(payload) if len(payload) <= TEXT else None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise Malformed("a welcome must be a JSON object")
        roll, answered = content.get("roll", False), content.get("answered")
        if type(roll) is not bool:
            raise Malformed("a welcome must tell whether to call the roll")
        if not (answered is None or (type(answered) is int and 0 <= answered < 2**32)):
            raise Malformed("a welcome must tell a number of rounds")
        return cls(roll, answered)


def write_ids(ids: Array) -> bytes:
    """A set of client ids, in ascending order: a list of four bytes each, or the first id and a
    bit for each possible id, whichever is shorter."""
    numbers = np.asarray(ids, "<u4")
    if not _shorter_as_bits(numbers):
        return b"l" + numbers.tobytes()
    bits = np.zeros(int(numbers[-1]) - int(numbers[0]) + 1, bool)
    bits[numbers - numbers[0]] = True
    return b"b" + numbers[:1].tobytes() + np.packbits(bits, bitorder="little").tobytes()


def _shorter_as_bits(ids: Array) -> bool:
    return len(ids) > 0 and (int(ids[-1]) - int(ids[0])) // 8 + 5 < 4 * len(ids)


def read_ids(text: bytes) -> Array:
    """Parse what `write_ids` wrote: ids (n,) int64, ascending."""
    kind, body = text[:1], text[1:]
    if kind == b"b" and 4 < len(body) <= 4 + ALL_CLIENTS // 8:
        first = int.from_bytes(body[:4], "little")
        bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=4), bitorder="little")
        ids = first + np.flatnonzero(bits)
    elif kind == b"l" and len(body) % 4 == 0:
        ids = np.frombuffer(body, "<u4").astype(np.int64)
    else:
        raise Malformed(f"{len(text)} bytes are no list of clients")
    if not (ids[:-1] < ids[1:]).all() or (len(ids) and ids[-1] >= 2**32):
        raise Malformed("the clients of a list must be in ascending order, each once")
    # a list is not written as bits to compare it: they could need many times its memory
    short = not _shorter_as_bits(ids) if kind == b"l" else write_ids(ids) == text
    if not short:
        raise Malformed("a list of clients is not in its shortest form")
    return ids.astype(np.int64)


MODEL = struct.Struct("<Iq")


@dataclass(frozen=True)
class Model:
    """The payload of LEARN: a model, and how to learn from it.

    Rounds of unlearning set `sessions` and `stored`: clients search less often, and rescale their
    updates to the norm of the update that they sent in round `stored`."""

    params: Array  # (d,) float32
    sessions: int = 0  # searches of each client; 0 for the agreed number
    stored: int = -1  # -1 for none

    def to_bytes(self) -> bytes:
        head = MODEL.pack(self.sessions, self.stored)
        return head + self.params.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, payload: bytes, d: int) -> Model:
        """Parse a model of d parameters. Raises Malformed."""
        if len(payload) != MODEL.size + 4 * d:
            given = f"{len(payload) - MODEL.size} bytes of parameters"
            raise Malformed(f"{given}, but this ranker has {d} parameters of four bytes")
        sessions, stored = MODEL.unpack_from(payload)
        params = np.frombuffer(payload, "<f4", d, MODEL.size).astype(np.float32)
        if stored < -1:
            raise Malformed(f"stored round {stored}: expected -1 or a round")
        if not np.isfinite(params).all():
            raise Malformed("the model has parameters that are not finite")
        return cls(params, sessions, stored)


WORDS = {b"f": np.dtype("<f4"), b"u": np.dtype("<u4")}


def write_updates(updates: Array, weights: Array) -> bytes:
    """The payload of LEARNED: messages (n, p) of numbers of four bytes, and their weights."""
    kind = updates.dtype.kind.encode()
    words = WORDS[kind]
    head = kind + struct.pack("<I", updates.shape[1])
    return head + weights.astype("<f8").tobytes() + updates.astype(words).tobytes()


def read_updates(payload: bytes, n: int) -> tuple[Array, Array]:
    """Parse what `write_updates` wrote for n clients: updates (n, p), weights (n,)."""
    words = WORDS.get(payload[:1])
    if words is None or len(payload) < 5:
        raise Malformed("the messages have an unknown number type: expected b'f' or b'u'")
    (p,) = struct.unpack_from("<I", payload, 1)
    if len(payload) != 5 + n * (8 + 4 * p):
        wrong = f"{len(payload)} bytes for {n} messages of {p} numbers"
        raise Malformed(f"{wrong}: expected {5 + n * (8 + 4 * p)}")
    weights = np.frombuffer(payload, "<f8", n, 5).astype(np.float64)
    updates = np.frombuffer(payload, words, n * p, 5 + 8 * n).reshape(n, p)
    return updates.astype(words.newbyteorder("=")), weights


def write_parts(parts: list[bytes]) -> bytes:
    """Several messages of any length as one payload, as secure sums need it."""
    lengths = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    return lengths + b"".join(parts)


def read_parts(payload: bytes, n: int) -> list[bytes]:
    """Parse what `write_parts` wrote for n messages."""
    if len(payload) < 4 + 4 * n or struct.unpack_from("<I", payload)[0] != n:
        raise Malformed(f"the payload does not have {n} messages")
    lengths = struct.unpack_from(f"<{n}I", payload, 4)
    if len(payload) != 4 + 4 * n + sum(lengths):
        wrong = f"{len(payload)} bytes for {n} messages of {sum(lengths)} bytes"
        raise Malformed(f"{wrong}: expected {4 + 4 * n + sum(lengths)}")
    ends = np.cumsum((4 + 4 * n, *lengths)).tolist()
    return [payload[a:b] for a, b in itertools.pairwise(ends)]
