"""A roster as TOML text.

[[node]]
name = "clinic-a"
clients = 40                           # number of clients (devices) of this node
key = "ecdsa-sha2-nistp384 AAAA..."    # public key by which Flower authenticates the node
signs = "..."                          # public key for secure sums: 32 bytes in base64
gateway = true                         # optional: its clients are devices with keys of their own
revoked = true                         # optional: the node may no longer connect
forgotten = true                       # optional: what it contributed was unlearned
next_key = "ecdsa-sha2-nistp384 ..."   # optional: keys that replace `key` and `signs` when
next_signs = "..."                     # the node has connected with them
replaced = ["ecdsa-sha2-nistp384 ..."] # optional: earlier keys, which are not valid any more
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator

from foltr.errors import Mistake, did_you_mean, require, shown
from foltr.federated.roster import SIGNS, Roster, Seat, canonical

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
