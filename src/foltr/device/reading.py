"""The documents of a file. A table chooses the reader by the suffix of its name, and content by
its first bytes where the suffix says nothing.

Whatever a file holds, nothing but `Unread` comes out of here, with the reason: see `content.py`.
The limits of the readers keep memory and time in bounds. PDF is read in a process of its own,
which is ended if it takes too long (`read_pdf.py`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from foltr.core.system.files import regular
from foltr.device.content import (
    HEAD,
    MOST_BYTES,
    Text,
    Unread,
    holds_key,
    is_binary,
    is_marked,
    parsing,
)
from foltr.device.read_mail import ENVELOPE, MOST_MAILBOX, has_fields, read_mailbox, read_message
from foltr.device.read_pdf import read_apart
from foltr.device.read_text import read_html, read_markdown, read_plain, says_text

__all__ = ["Unread", "texts_of"]

Reader = Callable[[bytes, str], Text]

READERS: dict[str, Reader] = {
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".xht": read_html,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".mdown": read_markdown,
    ".mkd": read_markdown,
    ".pdf": read_apart,
    ".eml": read_message,
}
MAILBOXES = frozenset((".mbox", ".mbx"))
MAILDIR = frozenset(("cur", "new"))  # the folders of a Maildir, whose files have names of any form
HTML = re.compile(rb"\s*(?:<!doctype html|<html|<\?xml[^>]{0,100}>\s*<!doctype html)", re.I)
# the first field of a message, and one that each has
FIELDS = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|From|To|Date|Subject|Message-ID|MIME-Version|X-[\w-]+)"
    rb":[\s\S]*?^(?:From|Subject|Date|Message-ID):",
    re.IGNORECASE | re.MULTILINE,
)


def texts_of(path: Path, size: int, left_out: Counter[str] | None = None) -> Iterator[Text]:
    """The documents of the file at `path`: one, or one for each message of a mailbox.

    Raises `Unread` if the file cannot be read. A message of a mailbox that cannot be read does not
    stop the others: its reason is counted in `left_out`. `size` is the size of the file when it
    was found."""
    if size > MOST_MAILBOX:
        raise Unread("too large")
    with _opened(path) as file:
        with parsing():
            head = file.read(HEAD)
            file.seek(0)
        if not head:
            raise Unread("empty")
        if _is_mailbox(path, head):
            with parsing():
                yield from read_mailbox(
                    file, path.name, left_out if left_out is not None else Counter()
                )
        else:
            with parsing():
                text = _text(path, head, file, size)
            yield text


def _opened(path: Path) -> BinaryIO:
    try:
        return regular(path)
    except PermissionError:
        raise Unread("no permission") from None
    except (OSError, ValueError):  # ValueError: a null character in the name
        raise Unread("not a file") from None


def _is_mailbox(path: Path, head: bytes) -> bool:
    suffix = path.suffix.lower()
    known = suffix in READERS or says_text(path.name)
    return suffix in MAILBOXES or (not known and ENVELOPE.match(b"\n" + head) is not None)


def _text(path: Path, head: bytes, file: BinaryIO, size: int) -> Text:
    if size > MOST_BYTES and not holds_key(head):
        raise Unread("too large")
    data = file.read(MOST_BYTES + 1)
    if holds_key(data):
        raise Unread("key")
    if len(data) > MOST_BYTES:  # it has grown
        raise Unread("too large")
    reader = _reader(path, head)
    if reader is not read_apart and _is_binary(data):
        raise Unread("binary")
    return reader(data, path.name)


def _is_binary(data: bytes) -> bool:
    """By two samples: a script can have a program at its end."""
    middle = len(data) // 2
    samples = data[:HEAD], data[middle : middle + HEAD]
    return not is_marked(data) and any(map(is_binary, samples))


def _reader(path: Path, head: bytes) -> Reader:
    if path.parent.name in MAILDIR and has_fields(head):
        return read_message
    by_suffix = READERS.get(path.suffix.lower())
    if by_suffix is not None:
        return by_suffix
    if says_text(path.name):
        return read_plain
    if head.startswith(b"%PDF-"):
        return read_apart
    if HTML.match(head):
        return read_html
    return read_message if FIELDS.match(head) else read_plain
