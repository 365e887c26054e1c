"""What a user typed, as terms to look for.

    kernel module            both words, or as many as can be found
    "kernel module"          exactly these words, one after the other
    config*                  words that begin like this
    type:pdf folder:notes    only such documents (also after:2024-01-31 and before:2024)

While a user types, the last word may be incomplete: it also stands for words that begin with
it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import NamedTuple, get_args

from foltr.core.errors import Mistake, did_you_mean, require
from foltr.device.content import Kind
from foltr.device.tokens import folded, token_end, tokens_of, whole

MOST = 128  # words of a query; more are not looked at
KINDS = get_args(Kind)
# words that say little of what is looked for, unless there are no others
STOP_WORDS = frozenset(
    "a about an and are as at be by can do does for from how i if in into is it its of on or that"
    " the their this to use using was what when where which with you your".split()
)
PART = re.compile(
    r'(?P<filter>\b(?:type|folder|after|before):(?:"[^"]*"|\S*))|"(?P<phrase>[^"]*)"?'
)


class Word(NamedTuple):
    """A place of the query.

    term: what the index knows
    begin: terms that begin like this count, too; empty if only the term does"""

    term: str
    begin: str = ""


@dataclass(frozen=True)
class Filter:
    """Which documents count. Empty and None: all do."""

    folder: str = ""  # a part of the path, between slashes
    kind: str = ""
    after: float | None = None  # seconds since 1970
    before: float | None = None


@dataclass(frozen=True)
class Query:
    """What is looked for.

    Fields
        text: what was typed
        words: the words to look for in their order, those of phrases included
        terms: the terms of a title with this text; `words` are others for scripts without spaces,
            whose last character is in the pair before it
        phrases: terms that are one after the other
        filter: which documents count"""

    text: str
    words: tuple[Word, ...]
    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    filter: Filter

    @property
    def telling(self) -> tuple[Word, ...]:
        """The words without stop words; all of them if there are no others."""
        stops = _stop_terms()
        found = tuple(word for word in self.words if word.begin or word.term not in stops)
        return found or self.words


def parsed(text: str, typing: bool = False) -> Query:
    """The query that a text stands for. `typing`: the user has not finished the last word.
    Raises a Mistake for a filter that cannot be understood, unless the user is typing."""
    words: list[Word] = []
    phrases: list[tuple[str, ...]] = []
    parts: list[str] = []  # the text without filters and quotes
    wanted = Filter()
    at = 0
    for match in PART.finditer(text):
        parts += text[at : match.start()], match["phrase"] or ""
        words += _words(text[at : match.start()], last=False)
        at = match.end()
        if match["filter"]:
            try:
                wanted = _filtered(wanted, match["filter"])
            except Mistake:
                if not typing:
                    raise
            continue
        terms = [word.term for word in _words(match["phrase"], last=False)]
        if len(terms) > 1:
            phrases.append(tuple(terms))
        words += [Word(term) for term in terms]
    words += _words(text[at:], last=typing)
    terms = tokens_of(" ".join([*parts, text[at:]])).terms
    return Query(text, tuple(words[:MOST]), tuple(terms[:MOST]), tuple(phrases), wanted)


def _words(text: str, last: bool) -> list[Word]:
    """The words of a text without quotes. `last`: its last word may be incomplete."""
    tokens = tokens_of(text)
    starts, complete = tokens.starts.tolist(), whole(tokens, text)
    found = []
    for i, (term, start) in enumerate(zip(tokens.terms, starts, strict=True)):
        if not complete[i]:  # the last character of a run, which the pair before it has
            continue
        end = min([token_end(text, start), *starts[i + 1 : i + 2]])
        open_end = text[end : end + 1] == "*" or (last and end == len(text))
        alone = len(term) == 1 and not term.isascii()  # a character of a script without spaces
        begin = folded(text[start:end]) if open_end else term if alone else ""
        found.append(Word(term, begin))
    return found


def _filtered(wanted: Filter, text: str) -> Filter:
    name, _, value = text.partition(":")
    value = value.strip('"')
    if not value:
        return wanted
    if name == "folder":
        return replace(wanted, folder=value)
    if name == "type":
        kind = value.lower()
        require(kind in KINDS, f"type:{value} is no type of document: {did_you_mean(kind, KINDS)}")
        return replace(wanted, kind=kind)
    at = moment(value, name)
    return replace(wanted, after=at) if name == "after" else replace(wanted, before=at)


def moment(value: str, name: str) -> float:
    """The beginning of a year, a month or a day in this machine's time zone, in seconds since
    1970."""
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            return datetime.strptime(value, form).timestamp()
        except (ValueError, OverflowError, OSError):  # the last two: a year that has no such time
            continue
    raise Mistake(f"{name}:{value} is no date: write {name}:2024-01-31, {name}:2024-01 or 2024")


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(tokens_of(" ".join(STOP_WORDS)).terms)
