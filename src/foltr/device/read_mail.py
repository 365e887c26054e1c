"""Reads mail: messages (`.eml`, Maildir) and mailboxes (mbox).

The parts of a message are found here and not with Python's `email` package, which reads line by
line, calls itself for every part in a part, and parses headers in a time that grows with the
square of their length. Here a boundary is searched in bytes, nothing is copied but the text that
is kept, and there are limits: of the depth, of the number of parts, of the length of headers. The
package still takes apart short fields, such as Content-Type.

Attachments are never unpacked: their names are part of the text."""

from __future__ import annotations

import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import mktime_tz, parsedate_tz
from hashlib import sha256
from typing import BinaryIO

from foltr.device.content import (
    MOST_BYTES,
    MOST_DECODED,
    Text,
    Unread,
    cleaned,
    decoded,
    decoded_as,
    document,
    holds_key,
    one_line,
    parsing,
)
from foltr.device.read_text import html_decoded, html_text

MOST_PARTS = 200
DEEPEST = 20  # parts in parts
MOST_HEADER = 2**18  # bytes of the fields of one part
MOST_FIELD = 2000  # bytes of one field
MOST_KEY = 200  # characters of a Message-ID
LATEST = 4_102_444_800.0  # seconds since 1970 of 2100-01-01: later dates are wrong

SHOWN = ("From", "To", "Date")
FIELDS = frozenset(
    b"subject from to date message-id content-type content-disposition"
    b" content-transfer-encoding".split()
)
HEADER_END = re.compile(rb"\r?\n\r?\n")
FOLDED = re.compile(rb"\r?\n[ \t]+")
FIELD = re.compile(rb"([!-9;-~]{1,100})[ \t]*:")
NOT_BASE64 = bytes(
    {*range(256)} - {*b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"}
)


@dataclass(frozen=True)
class Part:
    """A part of a message, as a place in its bytes; the message itself is one."""

    fields: dict[bytes, str]
    begin: int  # of its content
    end: int
    depth: int
    group: int  # positive: of alternatives, which say the same in different ways

    @property
    def message(self) -> Message:
        """Its fields that the package takes apart."""
        found = Message()
        for field in (b"content-type", b"content-disposition"):
            if field in self.fields:
                found[field.decode()] = self.fields[field]
        return found


def read_message(data: bytes, name: str, part: str = "") -> Text:
    """The document of a message; `part` is its key in a mailbox."""
    top = _part(data, _after_envelope(data), len(data), 0, 0)
    headings = [f"{field}: {value}" for field in SHOWN if (value := _field(top, field))]
    texts, attached = _content(data, top)
    body = "\n".join([*headings, "", *texts, *(f"Attachment: {one}" for one in attached)])
    subject, date = _field(top, "Subject"), _date(_field(top, "Date"))
    return document("mail", name, subject, headings, body, date=date, part=part)


def key_of(data: bytes) -> str:
    """The Message-ID of a message; empty if it has none of use."""
    key = _field(_part(data, _after_envelope(data), len(data), 0, 0), "Message-ID")
    return key if len(key) <= MOST_KEY else ""


def has_fields(head: bytes) -> bool:
    """Whether content begins with the fields of a message."""
    return FIELD.match(head, _after_envelope(head)) is not None


def _after_envelope(data: bytes) -> int:
    """Where the fields begin: after the line that a mailbox puts before them."""
    return data.find(b"\n") + 1 if data.startswith((b"From ", b">From ")) else 0


def _part(data: bytes, begin: int, end: int, depth: int, group: int) -> Part:
    """The part between two places: its fields, of each the first one, and where they end."""
    if not FIELD.match(data, begin, end):
        return Part({}, begin, end, depth, group)
    found = HEADER_END.search(data, begin, end)
    stop, content = found.span() if found else (end, end)
    fields: dict[bytes, str] = {}
    block = FOLDED.sub(b" ", data[begin : min(stop, begin + MOST_HEADER)])
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon and (field := name.strip().lower()) in FIELDS and field not in fields:
            fields[field] = _plain(value)
    return Part(fields, content, end, depth, group)


def _plain(value: bytes) -> str:
    return " ".join(cleaned(decoded(value[:MOST_FIELD])).split())


def _field(part: Part, name: str) -> str:
    """A field with its encoded words decoded."""
    value = part.fields.get(name.lower().encode(), "")
    if "=?" not in value:
        return value
    try:
        words = [
            word if isinstance(word, str) else decoded_as(word, charset)
            for word, charset in decode_header(value)
        ]
    except (ValueError, MessageError):
        return value
    return " ".join(cleaned("".join(words)).split())


def _date(value: str) -> float | None:
    try:
        told = parsedate_tz(value[:100])
        seconds = float(mktime_tz(told)) if told else -1.0
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return seconds if 0 <= seconds < LATEST else None


def _content(data: bytes, top: Part) -> tuple[list[str], list[str]]:
    """The texts of a message in their order, and the names of its attachments. Of the parts of a
    group, HTML is left out if there is plain text."""
    plain: set[int] = set()
    texts: list[tuple[int, bool, str]] = []
    attached = []
    for part in _leaves(data, top):
        message = part.message
        kind, name = message.get_content_type(), _called(message)
        if not kind.startswith("text/") or message.get_content_disposition() == "attachment":
            attached.append(name)
            continue
        is_html = kind == "text/html"
        text = _text(data, part, is_html, message.get_content_charset())
        if text.strip() and not is_html:
            plain.add(part.group)
        texts.append((part.group, is_html, text))
    kept = [text for group, is_html, text in texts if not (is_html and group in plain)]
    return kept, list(filter(None, attached))


def _called(message: Message) -> str:
    """The file name of an attachment."""
    try:
        return one_line(message.get_filename() or "")
    except (ValueError, TypeError, LookupError):
        return ""


def _leaves(data: bytes, top: Part) -> Iterator[Part]:
    """The parts that have no parts, in their order."""
    waiting, seen = [top], 0
    while waiting and seen < MOST_PARTS:
        part = waiting.pop()
        seen += 1
        message = part.message
        kind, deep = message.get_content_type(), part.depth >= DEEPEST
        if kind.startswith("multipart/") and (boundary := message.get_boundary()):
            if not deep:
                waiting.extend(reversed(_parts(data, part, boundary, kind, seen)))
        elif kind == "message/rfc822" and not deep:
            waiting.append(_part(data, part.begin, part.end, part.depth + 1, -seen))
        else:
            yield part


def _parts(data: bytes, whole: Part, boundary: str, kind: str, number: int) -> list[Part]:
    """The parts of a part. Alternatives are one group, with all that they have inside; other parts
    are each their own."""
    line = re.compile(
        rb"\n--" + re.escape(boundary.encode("utf-8", "replace")) + rb"(--)?[ \t]*\r?(?=\n|\Z)"
    )
    begin, found = -1, []
    for mark in line.finditer(data, max(whole.begin - 1, 0), whole.end):
        if begin >= 0:
            found.append((begin, mark.start()))
        begin = -1 if mark.group(1) else mark.end() + 1
        if begin < 0 or len(found) >= MOST_PARTS:
            break
    else:
        if begin >= 0:  # a message that was cut has no last boundary
            found.append((begin, whole.end))
    alternatives = number if kind == "multipart/alternative" else max(whole.group, 0)
    return [
        _part(data, at, max(at, end), whole.depth + 1, alternatives or -number * MOST_PARTS - nth)
        for nth, (at, end) in enumerate(found, 1)
    ]


def _text(data: bytes, part: Part, is_html: bool, charset: str | None) -> str:
    raw = data[part.begin : min(part.end, part.begin + 2 * MOST_DECODED)]
    unpack = TRANSFER.get(part.fields.get(b"content-transfer-encoding", "").lower(), bytes)
    content = unpack(raw)
    if not is_html:
        return decoded_as(content, charset).replace("\r\n", "\n")
    try:
        return html_text(decoded_as(content, charset) if charset else html_decoded(content))[2]
    except Unread:
        return ""


def _base64(raw: bytes) -> bytes:
    """All that can be decoded, whatever else is there."""
    letters = raw.translate(None, NOT_BASE64)
    letters = letters[:-1] if len(letters) % 4 == 1 else letters
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


TRANSFER: dict[str, Callable[[bytes], bytes]] = {
    "base64": _base64,
    "quoted-printable": binascii.a2b_qp,
}


# Reads mailboxes (mbox): files in which every message begins with a line `From sender date`.

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
