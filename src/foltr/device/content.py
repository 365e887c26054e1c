"""What all readers share: their limits, the reasons why a document is left out, and the way from
bytes to text.

A file on a device may come from anybody: a mail, a download, an unpacked archive. So no reader
trusts what a file says of itself, and every reader makes its `Text` with `document`, which alone
ensures that the text can be stored: no control characters, no lone surrogates, a title of one
line, a length that is limited."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from foltr.core.errors import Mistake

MOST_BYTES = 32 * 2**20  # of a file, or of one message in a mailbox
MOST_CHARACTERS = 1_000_000  # of a document's text
MOST_IN_TITLE = 300  # characters
MOST_IN_HEADINGS = 100_000  # characters, of all of them
HEAD = 4096  # bytes at the beginning of a file that tell what it is
# bytes that are decoded: a character has at most four, and more than MOST_CHARACTERS are cut
MOST_DECODED = 4 * MOST_CHARACTERS + 4

MARKS = (  # byte order marks; the one of UTF-32 begins with the one of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Python has encodings that are none of text (base64, rot13) or are slow (idna): only these are
# taken from what a document says of itself
CHARSET = re.compile(
    r"(utf.?8|us.ascii|ascii|latin.?\d|iso.8859|windows.\d|cp.?\d|koi8|mac|shift.jis|sjis|euc"
    r"|iso.2022|gb|big5|ks.c|tis)[\w:.-]*",
    re.IGNORECASE | re.ASCII,
)
UTF_8 = re.compile(r"utf.?8|.*ascii", re.IGNORECASE)
LATIN_1 = re.compile(r"latin.?1|iso.8859.1", re.IGNORECASE)  # which means cp1252, as in browsers

PRIVATE_KEY = re.compile(
    rb"-----? ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-----?"
    rb"|AGE-SECRET-KEY-|PuTTY-User-Key-File-"
)
# a key in the middle of a text, with its content: a manual that shows how a key begins is no key
WHOLE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----\s{0,4}"
    rb"(?:[A-Za-z-]{1,30}: [^\n]{0,200}\n\s{0,3}){0,5}[A-Za-z0-9+/=]{40}"  # its fields, its lines
    rb"|AGE-SECRET-KEY-1[0-9A-Z]{50}"
)
ODD = bytes({*range(32), 127} - {*b"\b\t\n\f\r\x1b"})  # bytes that text hardly ever has
CONTROL = bytes(
    ord("\n") if byte in b"\n\r\f\v" else ord(" ") if byte in {*range(32), 127} - {9} else byte
    for byte in range(256)
)
LATE_CONTROL = re.compile(b"\xc2[\x80-\x9f]")  # U+0080 to U+009F, as UTF-8


class Unread(Exception):
    """A document that is not indexed, and why.

    Reasons: 'binary', 'too large', 'empty', 'encrypted', 'damaged', 'takes too long' (to read),
    'not a file' (a link, a pipe, a device, or gone since it was found), 'no permission', 'key' (a
    private key), 'no reader' (a package is missing), 'copy' (the same message again in its
    mailbox)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def parsing() -> Iterator[None]:
    """Whatever a parser raises becomes an `Unread`: no parser has seen every broken file, and one
    file must not stop the others. Exhausted memory and stack count as well."""
    try:
        yield
    except (Unread, Mistake):
        raise
    except Exception as error:
        raise Unread("damaged") from error


def document(
    kind: Kind,
    name: str,
    title: str,
    headings: Iterable[str],
    body: str,
    *,
    date: float | None = None,
    part: str = "",
    cut: bool = False,
) -> Text:
    """The `Text` of a document; `name` is its title if it has none."""
    cut = cut or len(body) > MOST_CHARACTERS
    body = cleaned(body[:MOST_CHARACTERS]).strip()
    told = "\n".join(filter(None, map(one_line, headings)))[:MOST_IN_HEADINGS].strip()
    own = one_line(title)
    if not (body or told or own):
        raise Unread("empty")
    return Text(kind, own or one_line(name) or "untitled", told, body, date, part, cut)


def one_line(text: str) -> str:
    """A title or a heading: white space in it is a space, and it is not long."""
    return " ".join(cleaned(text[: 4 * MOST_IN_TITLE]).split())[:MOST_IN_TITLE].rstrip()


def cleaned(text: str) -> str:
    """Text that can be written as UTF-8 and shown: no null characters, spaces for other control
    characters, line feeds at the ends of lines, question marks for lone surrogates. The work is
    done on bytes, because translating them takes a fraction of the time."""
    data = text.encode("utf-8", "replace").replace(b"\r\n", b"\n").translate(CONTROL, b"\0")
    return LATE_CONTROL.sub(b" ", data).decode()


def decoded(data: bytes) -> str:
    """The text of a file, at most its first MOST_DECODED bytes: by its byte order mark, else as
    UTF-8, else as cp1252. Text with a few wrong bytes among many right ones is still UTF-8."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding, "replace")
    try:
        return _decoded(data, "utf-8", "strict")
    except UnicodeDecodeError:
        text = _decoded(data, "utf-8", "replace")
    wrong = text.count("\ufffd")
    right = len(text) - len(text.encode("ascii", "ignore")) - wrong
    return text if right > 10 * wrong else _decoded(data, "cp1252", "replace")


def decoded_as(data: bytes, charset: str | None) -> str:
    """The text of a document that names its encoding."""
    known = charset is not None and CHARSET.fullmatch(charset) is not None
    if charset is None or not known or UTF_8.fullmatch(charset):
        return decoded(data)
    try:
        encoding = "cp1252" if LATIN_1.fullmatch(charset) else charset
        return _decoded(data, encoding, "replace")
    except LookupError:
        return decoded(data)


def _decoded(data: bytes, encoding: str, errors: str) -> str:
    """Without the character that the limit cuts in half, if it does."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    return decoder.decode(data[:MOST_DECODED], final=len(data) <= MOST_DECODED)


def is_marked(data: bytes) -> bool:
    """Whether content begins with a byte order mark, as only text does."""
    return any(data.startswith(mark) for mark, _ in MARKS)


def is_binary(sample: bytes) -> bool:
    """Whether content is none of text. A few null bytes are not enough for that: they occur in
    logs. Compressed data has 10 percent of such bytes, and programs have more."""
    odd = len(sample) - len(sample.translate(None, ODD))
    return odd > max(3, len(sample) // 20) and not is_marked(sample)


def holds_key(data: bytes) -> bool:
    """Whether content begins with a private key, which no index may copy (PEM, OpenSSH, PGP, age
    or PuTTY), or has one anywhere. Null bytes at the beginning are left out, because a key may be
    written as UTF-16."""
    begins = PRIVATE_KEY.search(data[:HEAD].replace(b"\0", b"")) is not None
    maybe = b"PRIVATE KEY" in data or b"AGE-SECRET-KEY-1" in data
    return begins or (maybe and WHOLE_KEY.search(data) is not None)


# A document as text: what the readers give, and the index stores.

Kind = Literal["text", "markdown", "html", "code", "pdf", "mail"]


@dataclass(frozen=True)
class Text:
    """The text of one document.

    Fields
        kind: what it is
        title: one line; never empty (a file without a title has its name)
        headings: the headings of its sections, one per line
        body: all text in reading order, headings included, without markup; paragraphs are
            separated by newlines
        date: when it was written, in seconds since 1970; None for the time of its file
        part: which document of a file with several; the key of a message in its mailbox
        cut: whether the text was longer than what is indexed"""

    kind: Kind
    title: str
    headings: str
    body: str
    date: float | None = None
    part: str = ""
    cut: bool = False
