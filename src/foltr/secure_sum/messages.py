"""Messages as bytes: a fixed header, then a body whose length both sides can compute.

    magic (2)  version (1)  kind (1)  session (16)  round (4)  sender (4)  receiver (4)
    length of the body (4)  body

Integers are little-endian. Lists of clients are bitmaps, and everything per client is in ascending
order. So each message has exactly one form, and no client can be named twice or out of range."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache

import numpy as np

from foltr.secure_sum.terms import Terms

HEADER = struct.Struct("<2sBB16sIIII")
MAGIC, VERSION = b"fS", 1
SERVER = 2**32 - 1  # as a sender or receiver


class Refused(ValueError):
    """A message that is not the one due: malformed, replayed, out of order or tampered with. It
    changes nothing."""


class Kind(IntEnum):
    """The kinds of messages, in the order in which they are sent."""

    KEYS = 1
    ROSTER = 2
    SHARES = 3
    DELIVERY = 4
    MASKED = 5
    SURVIVORS = 6
    SIGNED = 7
    SIGNATURES = 8
    UNMASK = 9


def pack(terms: Terms, kind: Kind, sender: int, receiver: int, *body: bytes) -> bytes:
    text = b"".join(body)
    return (
        HEADER.pack(MAGIC, VERSION, kind, terms.session, terms.round, sender, receiver, len(text))
        + text
    )


def unpack(terms: Terms, kind: Kind, receiver: int, message: bytes) -> tuple[int, bytes]:
    """Sender and body of a message; raises unless it is of this session, of the kind that is due,
    and to this receiver."""
    if not isinstance(message, bytes):
        raise Refused(f"a message is bytes, got {type(message).__name__}")
    if len(message) < HEADER.size:
        raise Refused(
            f"malformed: {len(message)} bytes are fewer than a header has ({HEADER.size})"
        )
    magic, version, got, session, round, sender, to, length = HEADER.unpack_from(message)
    if magic != MAGIC:
        raise Refused(f"malformed: it begins with {magic!r}, not with {MAGIC!r}")
    if version != VERSION:
        raise Refused(f"version {version} of the protocol: this is version {VERSION}")
    if round != terms.round:
        raise Refused(f"of round {round}, not of round {terms.round}: replayed?")
    if session != terms.session:
        raise Refused("of another session (other terms, or replayed)")
    if got != kind:
        name = Kind(got).name if got in set(Kind) else f"kind {got}"
        raise Refused(f"out of order: {name} where {kind.name} is due")
    if to != receiver:
        raise Refused(f"to {to}, not to {receiver}")
    if (sender == SERVER) == (receiver == SERVER) or not (
        sender == SERVER or sender < terms.clients
    ):
        raise Refused(f"from {sender}, who is not of this session")
    if length != len(message) - HEADER.size:
        raise Refused(f"malformed: {length} bytes announced, {len(message) - HEADER.size} there")
    return sender, message[HEADER.size :]


def exactly(body: bytes, length: int, what: str) -> None:
    if len(body) != length:
        raise Refused(f"malformed: {what} of {len(body)} bytes, expected {length}")


def parts(body: bytes, start: int, size: int) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(start, len(body), size))


def write_set(terms: Terms, clients: Iterable[int]) -> bytes:
    named = np.zeros(terms.clients, bool)
    named[list(clients)] = True
    return np.packbits(named, bitorder="little").tobytes()


def read_set(terms: Terms, body: bytes) -> tuple[frozenset[int], bytes]:
    """The clients that a body begins with, and the rest of it."""
    size = (terms.clients + 7) // 8
    if len(body) < size:
        raise Refused(f"malformed: a list of clients of {len(body)} bytes, expected {size}")
    return _named(body[:size], terms.clients), body[size:]


@lru_cache(maxsize=2)
def _named(bits: bytes, clients: int) -> frozenset[int]:
    """The clients of a list, which all clients of a node are sent alike."""
    named = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    if named[clients:].any():
        raise Refused(f"names a client beyond the {clients} of this session")
    return frozenset(np.flatnonzero(named).tolist())
