"""A document as text: what the readers give, and the index stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
