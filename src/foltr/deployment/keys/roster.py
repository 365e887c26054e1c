"""The roster of a federation: the list of its nodes, their public keys, and the number of clients
that each holds. `roster_text` has it as TOML.

Clients are numbered in the order of the file. A client's number never changes, because nodes are
only added at the end, and revoked nodes stay in the file."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from foltr.core.errors import Mistake, did_you_mean, require, shown

NAME = re.compile(r"[a-z0-9-]{1,40}")
MOST = 10**6  # most clients of one node
ALL = 10**7  # most clients of a federation
KIND = b"ecdsa-sha2-nistp384"
SIGNS = 32  # bytes of a public Ed25519 key


@dataclass(frozen=True)
class Seat:
    """A seat: the entry of one node in the roster."""

    name: str
    clients: int  # number of clients (devices) of the node
    key: bytes  # OpenSSH public key, "ecdsa-sha2-nistp384 AAAA...", without a comment
    signs: bytes  # public Ed25519 key
    revoked: bool = False
    forgotten: bool = False  # the server has unlearned the node
    next_key: bytes | None = None  # with `next_signs`: the keys that replace `key` and `signs`
    next_signs: bytes | None = None
    replaced: tuple[bytes, ...] = ()  # earlier keys
    gateway: bool = False  # its clients are devices, which sign for themselves in secure sums

    def __post_init__(self) -> None:
        check_name(self.name)
        require(
            type(self.clients) is int and 1 <= self.clients <= MOST,
            f"clients = {shown(self.clients)} of {self.name}: expected a whole number from 1 to"
            f" {MOST:,}, the number of clients (devices) of the node",
        )
        require(
            self.key == canonical(self.key.decode(errors="replace")),
            f"the key of {self.name} must be as canonical() gives it",
        )
        for signs in (self.signs, self.next_signs):
            require(
                signs is None or len(signs) == SIGNS,
                f"the public key `signs` of {self.name} has {len(signs or b'')} bytes, expected"
                f" {SIGNS}: copy it from the node's card",
            )
        require(
            (self.next_key is None) == (self.next_signs is None),
            f"{self.name}: next_key and next_signs belong together: `foltr keys replace` adds"
            " both",
        )

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys with which the node may connect: two while one replaces the other."""
        return (self.key,) if self.next_key is None else (self.key, self.next_key)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the node's key, as `ssh-keygen -l` prints it. It is short enough to
        compare by telephone."""
        return fingerprint(self.key)

    def follows(self, before: Seat) -> bool:
        """Whether this can be the same node as `before`, later: it has the same name and clients,
        and the same keys or such that replaced them."""
        same = (self.name, self.clients) == (before.name, before.clients)
        kept = (self.key, self.signs) == (before.key, before.signs)
        return same and (kept or before.key in self.replaced)

    def with_next_keys(self, key: bytes, signs: bytes) -> Seat:
        """This node with next keys, which replace its keys when it has connected with them."""
        return replace(self, next_key=key, next_signs=signs)

    def with_replaced_keys(self) -> Seat:
        """This node after the replacement: its next keys are its keys."""
        if self.next_key is None or self.next_signs is None:
            raise Mistake(f"{self.name} has no new key: nothing is left to do")
        earlier, key, signs = (*self.replaced, self.key), self.next_key, self.next_signs
        return replace(
            self, key=key, signs=signs, next_key=None, next_signs=None, replaced=earlier
        )


def fingerprint(key: bytes) -> str:
    """The fingerprint of a public key in OpenSSH's format."""
    digest = sha256(b64decode(key.split()[1])).digest()
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


class Peer(NamedTuple):
    """A connected node: its id at Flower, which may change, and its public key (PEM), which does
    not."""

    node_id: int
    public_key: bytes


@dataclass(frozen=True)
class Roster:
    """All nodes of a federation, revoked ones included."""

    seats: tuple[Seat, ...]

    def __post_init__(self) -> None:
        require(
            bool(self.seats), "a roster needs a node: `foltr keys add CARD --roster FILE` adds one"
        )
        _check_unlike(self.seats)
        total = self._firsts[-1]
        require(
            total <= ALL,
            f"the nodes have {total:,} clients, more than the {ALL:,} that a federation can have:"
            " reduce `clients` of some nodes",
        )

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """The number of each node's first client, and the total number of clients."""
        return tuple(accumulate((seat.clients for seat in self.seats), initial=0))

    @cached_property
    def _starts(self) -> dict[str, int]:
        return dict(zip(self._by_name, self._firsts, strict=False))

    @cached_property
    def _by_name(self) -> dict[str, Seat]:
        return {seat.name: seat for seat in self.seats}

    @cached_property
    def _by_key(self) -> dict[bytes, Seat]:
        return {key: seat for seat in self.seats for key in seat.keys}

    def seat(self, name: str) -> Seat:
        """The node with this name."""
        found = self._by_name.get(name)
        if found is None:
            hint = did_you_mean(name, self._starts)
            raise Mistake(f"no node of the roster is called {shown(name)}: {hint}")
        return found

    def first(self, name: str) -> int:
        """The number of a node's first client. Its other clients follow."""
        return self._starts[self.seat(name).name]

    def seat_of(self, key: bytes) -> Seat | None:
        """The node with this public key, even if it is revoked; None if there is none."""
        return self._by_key.get(key)

    def clients_of(self, key: bytes) -> range:
        """The clients for which the node with this public key may answer. Empty if the key is
        unknown or revoked."""
        seat = self.seat_of(key)
        if seat is None or seat.revoked:
            return range(0)
        return self.range_of(seat)

    def range_of(self, seat: Seat) -> range:
        """The numbers of a node's clients."""
        start = self._starts[seat.name]
        return range(start, start + seat.clients)

    @cached_property
    def active(self) -> tuple[Seat, ...]:
        """The nodes that are not revoked."""
        return tuple(seat for seat in self.seats if not seat.revoked)

    @property
    def n(self) -> int:
        """The number of clients that take part."""
        return sum(seat.clients for seat in self.active)

    @cached_property
    def clients(self) -> np.ndarray:
        """The numbers of the clients that take part, in order."""  # (n,) int64
        ranges = [
            np.arange(r.start, r.stop, dtype=np.int64) for r in map(self.range_of, self.active)
        ]
        found = np.concatenate([np.empty(0, np.int64), *ranges])
        found.flags.writeable = False
        return found

    def node_of(self, client: int) -> Seat:
        """The node that holds a client, even if it is revoked."""
        total = self._firsts[-1]
        if not 0 <= client < total:
            raise Mistake(f"there is no client {client}: the roster has clients 0 to {total - 1}")
        return self.seats[bisect_right(self._firsts, client) - 1]

    def signers(self, clients: Iterable[int]) -> dict[int, bytes]:
        """The public keys by which clients sign in secure sums, without those of revoked nodes. A
        node whose keys are being replaced has two, one after the other."""
        seats = {int(id): self.node_of(int(id)) for id in clients}
        return {
            id: seat.signs + (seat.next_signs or b"")
            for id, seat in seats.items()
            if not seat.revoked
        }

    def with_node(self, seat: Seat) -> Roster:
        """This roster with one more node, at the end."""
        return Roster((*self.seats, seat))

    def with_seat(self, changed: Seat) -> Roster:
        """This roster with another entry for the node of the same name."""
        before = self.seat(changed.name)
        return Roster(tuple(changed if seat is before else seat for seat in self.seats))

    def revoked(self, name: str, forgotten: bool = False) -> Roster:
        """This roster with one node marked as revoked. The clients' numbers stay the same."""
        gone = self.seat(name)
        if gone.revoked and gone.forgotten >= forgotten:
            raise Mistake(f"{name} is revoked already: nothing is left to do")
        mark = gone.forgotten or forgotten
        return self.with_seat(replace(gone, revoked=True, forgotten=mark))

    def follows(self, before: Roster) -> bool:
        """Whether this can be the roster `before`, later. Nodes are only added at the end, so that
        no client changes its number."""
        pairs = zip(self.seats, before.seats, strict=False)
        return len(self.seats) >= len(before.seats) and all(a.follows(b) for a, b in pairs)


def check_name(name: str) -> None:
    require(
        isinstance(name, str) and NAME.fullmatch(name) is not None,
        f"{shown(name)} cannot be the name of a node: use 1 to 40 lowercase letters, digits and"
        " hyphens, such as clinic-a",
    )


def _check_unlike(seats: Iterable[Seat]) -> None:
    names: set[str] = set()
    keys: dict[bytes, str] = {}
    for seat in seats:
        require(
            seat.name not in names,
            f"two nodes are called {seat.name}: choose another name (a revoked node keeps its"
            " name, because its clients keep their numbers)",
        )
        names.add(seat.name)
        for key, use in _keys_of(seat):
            other = keys.setdefault(key, seat.name)
            require(
                other == seat.name,
                f"{other} and {seat.name} have the same public key ({use}): every node needs keys"
                " of its own, which `foltr keys node NAME` makes",
            )
        own = [key for key, _ in _keys_of(seat)]
        require(
            len(own) == len(set(own)),
            f"{seat.name} has the same public key twice: `foltr keys rotate` makes new keys",
        )


def _keys_of(seat: Seat) -> Iterator[tuple[bytes, str]]:
    """All public keys of a node, and the word before each in the roster."""
    yield seat.key, "key"
    yield seat.signs, "signs"
    if seat.next_key is not None and seat.next_signs is not None:
        yield seat.next_key, "next_key"
        yield seat.next_signs, "next_signs"
    for key in seat.replaced:
        yield key, "replaced"


def canonical(text: str) -> bytes:
    """A public P-384 key in OpenSSH's format, without its comment. Raises a Mistake if the text is
    no such key."""
    words = text.strip().split(" ", 2)
    if words[0].encode(errors="replace") != KIND:  # only a part is shown: it may be a private key
        raise Mistake(
            f"key = {shown(text[:20])}... is no public key of the kind {KIND.decode()}: `foltr"
            " keys node NAME` makes one"
        )
    line = KIND + b" " + (words[1].encode(errors="replace") if len(words) > 1 else b"")
    if len(text.splitlines()) != 1 or not _is_public_key(line):
        raise Mistake("key is damaged: copy the whole line that `foltr keys node NAME` made")
    return line


def _is_public_key(line: bytes) -> bool:
    """Whether a line is exactly a public key in OpenSSH's format: a point of its curve, too."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            PublicFormat,
            load_ssh_public_key,
        )
    except ImportError as error:
        raise Mistake(
            f"a roster needs the package cryptography: pip install 'foltr[deploy]' ({error})"
        ) from None
    try:
        public = load_ssh_public_key(line)
    except ValueError:
        return False
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) == line


# A roster as TOML text.

NEEDED = {"name": str, "clients": int, "key": str, "signs": str}
OPTIONAL = {
    "gateway": bool,
    "revoked": bool,
    "forgotten": bool,
    "next_key": str,
    "next_signs": str,
    "replaced": list,
}
EXPECTED = {
    str: "text in quotes",
    int: "a whole number",
    bool: "true or false",
    list: "a list of keys",
}


def seat_of_table(table: object, card: bool = False) -> Seat:
    """The node in a TOML table of a roster or a card. A card has only what the node knows."""
    if not isinstance(table, dict):
        raise Mistake(f"a node must be a table, got {shown(table)}")
    kinds = {**NEEDED, "gateway": bool} if card else {**NEEDED, **OPTIONAL}
    for word, value in table.items():
        require(word in kinds, f"unknown key {shown(word)}: {did_you_mean(word, kinds)}")
        kind = kinds[word]
        require(
            isinstance(value, kind) and isinstance(value, bool) == (kind is bool),  # True: an int
            f"{word} = {shown(value)}: expected {EXPECTED[kind]}",
        )
    for word in NEEDED:
        require(word in table, f"{word} is missing: copy it from the card")
    next_key, replaced = table.get("next_key"), table.get("replaced", [])
    require(all(isinstance(key, str) for key in replaced), f"replaced: expected {EXPECTED[list]}")
    return Seat(
        table["name"],
        table["clients"],
        canonical(table["key"]),
        _signs(table["signs"]),
        table.get("revoked", False),
        table.get("forgotten", False),
        None if next_key is None else canonical(next_key),
        _signs(table["next_signs"]) if "next_signs" in table else None,
        tuple(map(canonical, replaced)),
        table.get("gateway", False),
    )


def _signs(text: str) -> bytes:
    try:
        signs = b64decode(text, validate=True)
    except ValueError:
        signs = b""
    require(
        len(signs) == SIGNS,
        f"signs is damaged: expected {SIGNS} bytes in base64, as `foltr keys node NAME` made them",
    )
    return signs


def table_text(seat: Seat) -> str:
    """The TOML lines of a node."""
    lines = [
        f'name = "{seat.name}"',
        f"clients = {seat.clients}",
        f'key = "{seat.key.decode()}"',
        f'signs = "{b64encode(seat.signs).decode()}"',
        *optional_lines(seat),
    ]
    return "".join(f"{line}\n" for line in lines)


def optional_lines(seat: Seat) -> Iterator[str]:
    if seat.gateway:
        yield "gateway = true"
    if seat.revoked:
        yield "revoked = true"
    if seat.forgotten:
        yield "forgotten = true"
    if seat.next_key is not None and seat.next_signs is not None:
        yield f'next_key = "{seat.next_key.decode()}"'
        yield f'next_signs = "{b64encode(seat.next_signs).decode()}"'
    if seat.replaced:
        keys = ", ".join(f'"{key.decode()}"' for key in seat.replaced)
        yield f"replaced = [{keys}]"


def text_of(roster: Roster) -> str:
    """A roster as TOML text."""
    return "\n".join(f"[[node]]\n{table_text(seat)}" for seat in roster.seats)
