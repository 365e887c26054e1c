"""Reads mailboxes (mbox): files in which every message begins with a line `From sender date`.

A mailbox may be larger than the memory, so it is read in pieces. A line in a text can begin with
`From` as well. So a line is the beginning of a message only if an empty line is before it, if it
has a time and a year, and if a field of a message comes after it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

from foltr.device.content import MOST_BYTES, Unread, holds_key, parsing
from foltr.device.read_mail import key_of, read_message
from foltr.device.text import Text

MOST_MAILBOX = 4 * 2**30  # bytes
PIECE = 2**20  # bytes
LINE = b"\nFrom "
ENVELOPE = re.compile(
    rb"\nFrom [^\n]{0,300}?\d\d:\d\d[^\n]{0,60}?\d{4}[^\n]{0,60}\n"
    rb"(?=[!-9;-~]{1,100}[ \t]*:|>From )"
)
SEEN_AHEAD = 1024  # bytes; more than an envelope and the beginning of the field after it


def read_mailbox(file: BinaryIO, name: str, left_out: Counter[str]) -> Iterator[Text]:
    """The documents of a mailbox. The reasons of messages that are not read are counted."""
    keys: set[str] = set()
    for data in messages_of(file):
        try:
            with parsing():
                found = _document(data, name, keys)
        except Unread as error:
            left_out[error.reason] += 1
        else:
            yield found


def _document(data: bytes | None, name: str, keys: set[str]) -> Text:
    if data is None:
        raise Unread("too large")
    if holds_key(data):
        raise Unread("key")
    # without the envelope, and the end, which is another one when the next message has arrived
    digest = sha256(data.partition(b"\n")[2].rstrip()).hexdigest()
    if digest in keys:
        raise Unread("copy")
    key = key_of(data)
    if not key or key in keys:  # as of a message that arrived by two ways
        key = digest
    keys.update((key, digest))
    return read_message(data, name, key)


def messages_of(file: BinaryIO) -> Iterator[bytes | None]:
    """The bytes of each message, with its envelope; None for one of more than MOST_BYTES. What is
    before the first envelope is not a message."""
    held = b"\n\n"  # from the line end before a message on; a file begins as after a blank line
    looked = 1  # how far envelopes have been looked for
    begun = too_large = ended = False
    while not ended:
        piece = file.read(PIECE)
        ended = not piece
        held += piece
        end = len(held) if ended else max(len(held) - SEEN_AHEAD, looked)
        begin = 0
        while (at := _envelope(held, looked, end)) >= 0:
            if begun:
                yield None if too_large or at - begin > MOST_BYTES else held[begin + 1 : at]
            begun, too_large, begin, looked = True, False, at, at + 1
        held, looked = held[begin:], end - begin
        if len(held) > MOST_BYTES + SEEN_AHEAD:
            too_large, held, looked = True, held[looked - 2 :], 2
    if not begun:
        raise Unread("damaged")
    yield None if too_large or len(held) > MOST_BYTES else held[1:]


def _envelope(held: bytes, begin: int, end: int) -> int:
    """The line end before the next envelope that begins in a range; -1 if there is none."""
    at = held.find(LINE, begin, end + len(LINE))
    while at >= 0:
        blank = held[at - 1 : at] == b"\n" or held[at - 2 : at] == b"\n\r"
        if at < end and blank and ENVELOPE.match(held, at):
            return at
        at = held.find(LINE, at + 1, end + len(LINE))
    return -1
