"""Frames: what the server and the devices send each other, as bytes.

    magic (2)  version (1)  kind (1)  federation (16)  round (4)  model_round (4)  model (32)
    features (32)  nonce (16)  n (4)  clients (4)  length of the payload (8)
    client ids (4 each, ascending)  payload

Integers are little-endian. Each frame has exactly one form, and the parser refuses all others. An
answer repeats the ask's header except for its kind and clients, so that the server knows which ask
it belongs to: the nonce is new for every ask and every node.

Nothing here depends on how frames travel."""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import sha256

import numpy as np

from foltr.core import Array

MAGIC, VERSION = b"fF", 1
OLDEST = 1  # version that is still understood
HEADER = struct.Struct("<2sBB16sII32s32s16sIIQ")
LARGEST = 1 << 28  # bytes of a frame
MOST_CLIENTS = 10**6  # in one frame
NO_MODEL = bytes(32)
TEXT = 2_000  # bytes of a refusal's text
# why an ask is refused; others are counted as 'refused', so that nobody can fill a server's memory
CODES = frozenset(
    "agreement budget channel clients disk failed features forget hello how kind malformed model n"
    " norms released round size sum terms".split()
)


class Malformed(ValueError):
    """Bytes that are no frame."""


class Refusal(Exception):
    """Why an ask is not answered: a code for the server's counts, and a text for its operator."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Kind(IntEnum):
    """What a frame asks for, or answers."""

    HELLO = 1  # the agreement of the server -> WELCOME, or REFUSED
    WELCOME = 2
    LEARN = 3  # the model -> LEARNED
    LEARNED = 4
    OPEN = 5  # the model and the terms of a secure sum -> SUMMED, the first messages of the sum
    SUM = 6  # messages of the sum's server -> SUMMED, those of its clients
    SUMMED = 7
    REFUSED = 8  # the answer to any ask: a reason
    FORGOTTEN = 9  # the node's clients are unlearned -> WELCOME, a farewell


ANSWERS = {
    Kind.HELLO: Kind.WELCOME,
    Kind.LEARN: Kind.LEARNED,
    Kind.OPEN: Kind.SUMMED,
    Kind.SUM: Kind.SUMMED,
    Kind.FORGOTTEN: Kind.WELCOME,
}


@dataclass(frozen=True)
class Frame:
    kind: Kind
    federation: bytes  # `Agreement.id`
    round: int
    model_round: int  # round in which the server began to send this model
    model: bytes  # `secure_sum.terms.model_digest` of it
    features: bytes  # hash of the features' names
    nonce: bytes  # 16 fresh bytes
    n: int  # clients asked in this round, by all asks together
    clients: tuple[int, ...]  # those that are asked by this frame, or that answer in it
    payload: bytes = b""

    def answer(self, kind: Kind, clients: tuple[int, ...], payload: bytes) -> Frame:
        return replace(self, kind=kind, clients=clients, payload=payload)

    def answers(self, ask: Frame) -> bool:
        """Whether this is an answer to `ask`: of the kind that it asks for or a refusal, with its
        header, by clients that it asks."""
        if self.kind not in (ANSWERS.get(ask.kind), Kind.REFUSED):
            return False
        return self.answer(ask.kind, ask.clients, ask.payload) == ask and set(self.clients) <= set(
            ask.clients
        )

    def to_bytes(self) -> bytes:
        ids = np.array(self.clients, "<u4").tobytes()
        fields = self.federation, self.round, self.model_round, self.model, self.features
        counts = self.n, len(self.clients), len(self.payload)
        header = HEADER.pack(MAGIC, VERSION, self.kind, *fields, self.nonce, *counts)
        return header + ids + self.payload

    @classmethod
    def from_bytes(cls, text: bytes) -> Frame:
        """The frame; raises Malformed for anything that `to_bytes` does not give."""
        if not isinstance(text, bytes):
            raise Malformed(f"a frame is bytes, got {type(text).__name__}")
        if not HEADER.size <= len(text) <= LARGEST:
            raise Malformed(f"a frame has {HEADER.size} .. {LARGEST} bytes, got {len(text)}")
        magic, version, kind, *fields, n, count, length = HEADER.unpack_from(text)
        if magic != MAGIC:
            raise Malformed(f"a frame begins with {MAGIC!r}, got {magic!r}")
        if not OLDEST <= version <= VERSION:
            raise Malformed(version_text(version))
        if kind not in set(Kind):
            raise Malformed(f"a frame of an unknown kind, {kind}")
        if count > MOST_CLIENTS or len(text) != HEADER.size + 4 * count + length:
            raise Malformed(f"{count} clients and {length} bytes announced, {len(text)} there")
        ids = np.frombuffer(text, "<u4", count, HEADER.size)
        if not (ids[:-1] < ids[1:]).all():
            raise Malformed("the clients of a frame are in ascending order, each once")
        if count > n and kind not in (Kind.HELLO, Kind.WELCOME, Kind.FORGOTTEN):
            raise Malformed(f"{count} clients in a round of {n}")
        federation, round, model_round, model, features, nonce = fields
        names = federation, round, model_round, model, features, nonce
        return cls(Kind(kind), *names, n, tuple(ids.tolist()), text[HEADER.size + 4 * count :])


def version_text(version: int) -> str:
    known = f"{OLDEST} .. {VERSION}" if OLDEST < VERSION else f"{VERSION}"
    side = "this foltr is older: update it" if version > VERSION else "the other foltr is older"
    return f"version {version} of the protocol, and this foltr speaks {known}: {side}"


def names_hash(features: tuple[str, ...]) -> bytes:
    """The hash of the names of a model's features, in order."""
    return sha256(json.dumps(features, ensure_ascii=True).encode()).digest()


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
        raise Malformed("a refusal is a code and a text")
    code = content["code"] if content["code"] in CODES else "refused"
    return code, printable(content["text"], TEXT)


def printable(text: str, most: int) -> str:
    """Text of another machine, safe for a terminal and a page."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:most])


MODEL = struct.Struct("<Iq")


@dataclass(frozen=True)
class Model:
    """The payload of LEARN: a model to learn from, and how.

    `sessions` and `stored` are for rounds of unlearning: fewer searches, and updates that are
    rescaled to the norm of the update that the device sent in round `stored`."""

    params: Array  # (d,) float32
    sessions: int = 0  # searches of each client; 0 for as many as agreed
    stored: int = -1  # -1 for none

    def to_bytes(self) -> bytes:
        head = MODEL.pack(self.sessions, self.stored)
        return head + self.params.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, payload: bytes, d: int) -> Model:
        """The model of d parameters; raises Malformed."""
        if len(payload) != MODEL.size + 4 * d:
            given = f"{len(payload) - MODEL.size} bytes of parameters"
            raise Malformed(f"{given}, and this ranker has {d} numbers of four bytes")
        sessions, stored = MODEL.unpack_from(payload)
        params = np.frombuffer(payload, "<f4", d, MODEL.size).astype(np.float32)
        if stored < -1:
            raise Malformed(f"stored round {stored}")
        if not np.isfinite(params).all():
            raise Malformed("parameters that are not finite")
        return cls(params, sessions, stored)


WORDS = {b"f": np.dtype("<f4"), b"u": np.dtype("<u4")}


def write_updates(updates: Array, weights: Array) -> bytes:
    """The payload of LEARNED: messages (n, p) of numbers of four bytes, and their weights."""
    kind = updates.dtype.kind.encode()
    words = WORDS[kind]
    head = kind + struct.pack("<I", updates.shape[1])
    return head + weights.astype("<f8").tobytes() + updates.astype(words).tobytes()


def read_updates(payload: bytes, n: int) -> tuple[Array, Array]:
    """What `write_updates` wrote for n clients: updates (n, p), weights (n,)."""
    words = WORDS.get(payload[:1])
    if words is None or len(payload) < 5:
        raise Malformed("messages of an unknown kind of numbers")
    (p,) = struct.unpack_from("<I", payload, 1)
    if len(payload) != 5 + n * (8 + 4 * p):
        raise Malformed(f"{len(payload)} bytes for {n} messages of {p} numbers")
    weights = np.frombuffer(payload, "<f8", n, 5).astype(np.float64)
    updates = np.frombuffer(payload, words, n * p, 5 + 8 * n).reshape(n, p)
    return updates.astype(words.newbyteorder("=")), weights


def write_parts(parts: list[bytes]) -> bytes:
    """Several messages of any length as one payload, for secure sums."""
    lengths = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    return lengths + b"".join(parts)


def read_parts(payload: bytes, n: int) -> list[bytes]:
    """What `write_parts` wrote of n messages."""
    if len(payload) < 4 + 4 * n or struct.unpack_from("<I", payload)[0] != n:
        raise Malformed(f"not {n} messages")
    lengths = struct.unpack_from(f"<{n}I", payload, 4)
    if len(payload) != 4 + 4 * n + sum(lengths):
        raise Malformed(f"{len(payload)} bytes for messages of {sum(lengths)}")
    ends = np.cumsum((4 + 4 * n, *lengths)).tolist()
    return [payload[a:b] for a, b in itertools.pairwise(ends)]
