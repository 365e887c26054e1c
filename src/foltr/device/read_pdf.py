"""Reads PDF with pypdf.

A PDF is a program for a page, packed. pypdf limits what one stream unpacks to, and what one page
may take; the limits here are smaller, because a page of text is small. Reading ends when there is
enough text. A page that cannot be read is left out, and the others are kept."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from foltr.device.content import MOST_CHARACTERS, Unread, document, one_line, parsing
from foltr.device.text import Text

if TYPE_CHECKING:
    from pypdf import PdfReader

# pypdf reports every fault of a file to its log, which Python prints if nothing handles it
SILENT = logging.NullHandler()
HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")  # in a word that a line end divides
MOST_PAGES = 1000
MOST_UNPACKED = 16 * 2**20  # bytes of one stream
MOST_OPERATIONS = 500_000  # of one page
MOST_OUTLINE = 1000  # headings
DEEPEST = 10  # headings in headings
MOST_FIRST = 2000  # characters in which the first line is
LIMITS: dict[str, Any] = {  # of pypdf's configuration, which has others as well
    "zlib_maximum_output_length": MOST_UNPACKED,
    "lzw_maximum_output_length": MOST_UNPACKED,
    "run_length_maximum_output_length": MOST_UNPACKED,
    "array_based_stream_maximum_output_length": MOST_UNPACKED,
    "stream_decoding_work_maximum_length": 4 * MOST_UNPACKED,
    "stream_parsing_work_maximum_count": MOST_OPERATIONS,
    "outline_maximum_entries": MOST_OUTLINE,
    "outline_maximum_depth": DEEPEST,
    "jbig2dec_binary": None,  # a program that unpacks images
}


def read_pdf(data: bytes, name: str) -> Text:
    """The document of a PDF file."""
    try:
        from pypdf import PdfReader, apply_configuration
        from pypdf.errors import DependencyError
    except ImportError:
        raise Unread("no reader") from None
    logging.getLogger("pypdf").addHandler(SILENT)
    with apply_configuration(**LIMITS):
        try:
            reader = PdfReader(BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):  # many have an empty password
                raise Unread("encrypted")
        except DependencyError:  # packages for other ciphers are not required
            raise Unread("encrypted") from None
        return _document(reader, name)


def _document(reader: PdfReader, name: str) -> Text:
    pages, size, count = [], 0, len(reader.pages)
    for number in range(min(count, MOST_PAGES)):
        pages.append(_kept(partial(_page, reader, number)))
        size += len(pages[-1]) + 1
        if size > MOST_CHARACTERS:
            break
    body = HYPHEN.sub("", "\n".join(pages))
    if not body.strip():
        raise Unread("empty")  # as of scanned pages, which are images
    first = next(filter(None, map(one_line, body[:MOST_FIRST].splitlines())), "")
    title = one_line(_kept(partial(_title, reader))) or first
    headings = _kept(partial(_outline, reader)).splitlines()
    return document("pdf", name, title, headings, body, cut=len(pages) < count)


def _kept(read: Callable[[], str]) -> str:
    """What is read, or nothing if it cannot be; the rest of the file may be whole."""
    try:
        with parsing():
            return read()
    except Unread:
        return ""


def _page(reader: PdfReader, number: int) -> str:
    return reader.pages[number].extract_text()


def _title(reader: PdfReader) -> str:
    told = reader.metadata
    return str(told.get("/Title") or "").removeprefix("Microsoft Word - ") if told else ""


def _outline(reader: PdfReader) -> str:
    """The headings of the outline, which has a list after a heading with the headings below it."""
    waiting: list[Any] = reader.outline[::-1]
    found = []
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, list):
            waiting.extend(entry[::-1])
        else:
            found.append(one_line(str(entry.title or "")))
    return "\n".join(found)
