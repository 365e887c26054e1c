"""Read and write rosters (`roster.toml`) and cards (`NAME.node.toml`).

A card is a node's entry for the roster. The node's operator sends it to the server's operator."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, did_you_mean, require, shortened, shown
from foltr.core.system.files import check_extent, regular, write_whole, writing
from foltr.deployment.keys.roster import (
    OPTIONAL,
    Roster,
    Seat,
    optional_lines,
    seat_of_table,
    table_text,
    text_of,
)

LARGEST = 1_000_000  # bytes of a roster: some 3,000 nodes
CARD = 10_000  # bytes of a card
HEADER = re.compile(r"^[ \t]*\[\[[ \t]*node[ \t]*\]\].*\n?", re.MULTILINE)


def read_roster(path: Path) -> Roster:
    """Read a roster. foltr replaces the file as a whole, so a server can read it at any time."""
    return parse_roster(_content(path, LARGEST), str(path))


def parse_roster(content: bytes | str, name: str = "roster") -> Roster:
    """Parse the text of a roster. Error messages use `name`."""
    seats = _seats(content, name)
    try:
        return Roster(seats)
    except Mistake as mistake:
        raise Mistake(f"{name}: {mistake}") from None


def add_node(path: Path, seat: Seat) -> Roster:
    """Add a node at the end of a roster file, which is made if it does not exist. Comments in the
    file are kept. Returns the new roster."""
    with _alone(path):
        text = _decoded(_content(path, LARGEST), str(path)) if path.exists() else ""
        seats = _seats(text, str(path))
        try:
            roster = Roster(seats).with_node(seat) if seats else Roster((seat,))
        except Mistake as mistake:
            raise Mistake(f"{path}: {mistake}") from None
        between = "\n" * (0 if not text else 1 if text.endswith("\n") else 2)
        _write(path, roster, f"{text}{between}[[node]]\n{table_text(seat)}")
        return roster


def revoke_node(path: Path, name: str, forgotten: bool = False) -> Roster:
    """Mark a node of a roster file as revoked and, with `forgotten`, as unlearned. Returns the new
    roster."""
    return change_node(path, name, lambda roster: roster.revoked(name, forgotten))


def change_node(path: Path, name: str, changed: Callable[[Roster], Roster]) -> Roster:
    """Replace the entry of one node in a roster file. `changed` makes the new roster from the
    current one. Comments outside of the entry's keys are kept. Returns the new roster."""
    read_roster(path)  # fails before a lock is made if there is no file
    with _alone(path):
        text = _decoded(_content(path, LARGEST), str(path))
        before = parse_roster(text, str(path))
        try:
            roster = changed(before)
        except Mistake as mistake:
            raise Mistake(f"{path}: {mistake}") from None
        headers = list(HEADER.finditer(text))
        place = [seat.name for seat in before.seats].index(name)
        if len(headers) == len(before.seats):
            start, seats = headers[place].end(), (before.seat(name), roster.seat(name))
            end = headers[place + 1].start() if place + 1 < len(headers) else len(text)
            text = text[:start] + _changed(text[start:end], *seats) + text[end:]
        _write(path, roster, text)
        return roster


def _changed(text: str, before: Seat, seat: Seat) -> str:
    """The lines of an entry `before`, with the keys and marks of `seat`."""
    words, lines = list(OPTIONAL), list(optional_lines(seat))
    if seat.key != before.key:
        words += ["key", "signs"]
        lines += [f'key = "{seat.key.decode()}"', f'signs = "{b64encode(seat.signs).decode()}"']
    gone = re.compile(rf"[ \t]*({'|'.join(words)})[ \t]*=")
    kept = [line for line in text.splitlines(keepends=True) if not gone.match(line)]
    return "".join([*(f"{line}\n" for line in lines), *kept])


def read_card(path: Path) -> Seat:
    """Read a node's card."""
    table = card_table(path)
    if "replaces" in table:
        raise Mistake(
            f"{path} is a card that replaces a node's keys: foltr keys replace {path} --roster"
            " FILE"
        )
    return seat_of_card(table, path)


def card_table(path: Path) -> dict[str, Any]:
    """The TOML table in the file of a card."""
    return _table(_content(path, CARD), str(path))


def seat_of_card(table: dict[str, Any], path: Path) -> Seat:
    """The node of a card's table."""
    try:
        return seat_of_table(table, card=True)
    except Mistake as mistake:
        raise Mistake(
            f"{path}: {mistake} (a card is the file NAME.node.toml that `foltr keys node NAME`"
            " makes)"
        ) from None


def card_text(seat: Seat) -> str:
    """A node's card as TOML text. It contains nothing private."""
    return f"# public: send this file to the operator of the server\n{table_text(seat)}"


def _seats(content: bytes | str, name: str) -> tuple[Seat, ...]:
    table = _table(content, name)
    for word in table:
        require(
            word == "node", f"{name}: unknown key {shown(word)}: {did_you_mean(word, ['node'])}"
        )
    nodes = table.get("node", [])
    require(isinstance(nodes, list), f"{name}: write [[node]], with two brackets, for each node")
    seats = []
    for place, node in enumerate(nodes, 1):
        try:
            seats.append(seat_of_table(node))
        except Mistake as mistake:
            called = node.get("name") if isinstance(node, dict) else None
            which = (
                f"node {place} ({shown(called)})" if isinstance(called, str) else f"node {place}"
            )
            raise Mistake(f"{name}: {which}: {mistake}") from None
    return tuple(seats)


def _table(content: bytes | str, name: str) -> dict[str, Any]:
    text = _decoded(content, name)
    try:
        table = tomllib.loads(text)
        check_extent(table)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{name} is not readable as TOML: {shortened(str(error))}") from None
    return table


def _decoded(content: bytes | str, name: str) -> str:
    size = len(content.encode(errors="replace") if isinstance(content, str) else content)
    require(size <= LARGEST, f"{name} is too large: a roster has at most {LARGEST:,} bytes")
    try:
        return content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Mistake(f"{name} is not text in UTF-8: save it in this encoding") from None


def _content(path: Path, most: int) -> bytes:
    try:
        with regular(path.resolve()) as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise Mistake(
            f"there is no file {path}: check the path (`foltr keys add` makes a roster)"
        ) from None
    except (OSError, RuntimeError, ValueError) as error:  # circular links; a null byte in the path
        why = error.strerror if isinstance(error, OSError) else None
        raise Mistake(f"cannot read {path}: {why or error}") from None
    require(len(content) <= most, f"{path} is too large: expected at most {most:,} bytes")
    return content


def _write(path: Path, roster: Roster, text: str) -> None:
    """Write `text` if it parses as this roster. Otherwise write the roster in foltr's own form."""
    for attempt in (text, text_of(roster)):
        try:
            same = parse_roster(attempt, str(path)) == roster
        except Mistake:
            if len(text_of(roster)) > LARGEST:
                raise
            same = False
        if same:
            return write_whole(path.resolve(), attempt)
    raise AssertionError("a roster reads back as it was written")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the roster, so that no other process changes it. The lock ends with the process."""
    real = path.resolve()
    if not real.parent.is_dir():
        raise Mistake(f"there is no folder {path.parent} for {path.name}: make it first")
    with writing(path):
        file = os.open(real.with_name(f".{real.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with writing(path):
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file, msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
