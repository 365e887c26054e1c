"""From text to the terms of the index.

A token is a run of letters and digits, with the marks that belong to them. Its term is what the
index knows: in lower case, without accents, and English words without their endings (Snowball
stemmer). Scripts without spaces between words (Chinese, Japanese, Thai, ...) and Korean have a
token for each character; its term is this character and the next one, so that parts of a run are
found.

Tokens and terms correspond one to one, so that a term's place in the text is known.

Most of the time of indexing goes here, so nothing is done in Python once per token: NumPy finds
the letters of a text, and `str.split`, `map` and dictionaries do the rest."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake

VERSION = 1  # of the terms: an index with others is made again
LONGEST = 64  # characters of a term
KNOWN = 300_000  # tokens whose terms are remembered
# blocks of scripts that are indexed in pairs of characters
UNSPACED = (
    (0x0E01, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3041, 0x30FF), (0x3130, 0x318F), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0x20000, 0x3FFFF),
)  # fmt: skip
ACCENTS = re.compile("[\u0300-\u036f]")
# what Unicode writes a character as may have signs in it: a number in parentheses, "a.m."
SIGNS = re.compile(r"[\x00-\x2f\x3a-\x60\x7b-\x7f]")
MARKS = ("Mn", "Mc")  # categories of accents and vowel signs
LETTER, SPECIAL = 1, 2  # SPECIAL: marks, and characters of scripts without spaces


Value = TypeVar("Value")


class Tokens(NamedTuple):
    """The tokens of a text: their terms, and where each begins."""

    terms: list[str]
    starts: Array  # (n,) int64, characters

    @property
    def ids(self) -> Array:
        """The ids of the terms: (n,) uint32."""
        return np.fromiter(map(_IDS.__getitem__, self.terms), np.uint32, len(self.terms))


def _range(first: int, last: int) -> str:
    return f"{chr(first)}-{chr(last)}"


@cache
def unspaced() -> re.Pattern[str]:
    return re.compile("[" + "".join(_range(*each) for each in UNSPACED) + "]")


@cache
def _kinds() -> Array:
    """What code units are (65536,): LETTER, SPECIAL, or 0 for all that is between tokens."""
    units = [chr(unit) for unit in range(1 << 16)]
    kinds = np.fromiter(map(str.isalnum, units), np.uint8, len(units)) * LETTER
    marks = [unit for unit, c in enumerate(units) if unicodedata.category(c) in MARKS]
    kinds[marks] = SPECIAL
    for first, last in UNSPACED:
        kinds[first : last + 1] = SPECIAL
    kinds[0xD800:0xE000] = SPECIAL  # halves of characters that have two code units
    return kinds


@cache
def _tokens() -> re.Pattern[str]:
    """A character of a script without spaces, or a word with its marks."""
    pairs = "".join(_range(*each) for each in UNSPACED)
    marks = "".join(c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c) in MARKS)
    letter = rf"(?:(?![{pairs}])[^\W_])"
    return re.compile(rf"([{pairs}]|{letter}(?:{letter}|[{marks}])*)")


@cache
def _stem() -> Callable[[str], str]:
    try:
        import Stemmer
    except ImportError:
        raise Mistake("searching needs PyStemmer: pip install 'foltr[device]'") from None
    word: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return word


def folded(token: str) -> str:
    """A token in lower case and without accents."""
    lower = token.lower()
    if lower.isascii():
        return lower
    apart = unicodedata.normalize("NFKD", lower)
    plain = unicodedata.normalize("NFC", ACCENTS.sub("", apart))
    return "".join(SIGNS.sub("", plain.casefold()).split()) or token


def _term(token: str) -> str:
    plain = folded(token)
    term = _stem()(plain) if plain.isascii() else plain
    return term[:LONGEST]


class _Remembered(dict[str, Value]):
    """The values of a function, computed when they are first asked for. A look-up takes half the
    time of `lru_cache`."""

    def __init__(self, compute: Callable[[str], Value]) -> None:
        self.compute = compute

    def __missing__(self, key: str) -> Value:
        if len(self) >= KNOWN:
            self.clear()
        value = self[key] = self.compute(key)
        return value


_TERMS = _Remembered(_term)
_IDS = _Remembered(lambda term: crc32(term.encode()))


def id_of(term: str) -> int:
    """The id of a term: a hash. Two terms with the same id are one in ten million pairs of a
    query's term and a document, and change a ranking a little."""
    return _IDS[term]


def tokens_of(text: str) -> Tokens:
    """The tokens of a text."""
    units = np.frombuffer(text.encode("utf-16-le", "replace"), "<u2")
    kinds = _kinds()[units]
    words, starts = _special(text) if SPECIAL in kinds else _plain(units, kinds == LETTER)
    return Tokens(list(map(_TERMS.__getitem__, words)), starts)


def _plain(units: Array, inside: Array) -> tuple[list[str], Array]:
    """The tokens of a text without special characters, and where they begin. A regular expression
    would take three times as long."""
    words = np.where(inside, units, np.uint16(ord(" "))).tobytes().decode("utf-16-le").split()
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    return words, np.flatnonzero(begins)


def _special(text: str) -> tuple[list[str], Array]:
    """The tokens of a text with marks or with a script without spaces, and where they begin."""
    parts = _tokens().split(text)  # between tokens, token, between tokens, token, ...
    words = parts[1::2]
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    starts = ends[0::2][: len(words)]
    return _in_pairs(words, starts), starts


def _in_pairs(words: list[str], starts: Array) -> list[str]:
    """Characters of a script without spaces, each with the next one of its run."""
    single = unspaced()
    alone = [len(word) == 1 and single.match(word) is not None for word in words] + [False]
    after = [*(np.diff(starts) == 1).tolist(), False]
    return [
        word + words[i + 1] if alone[i] and alone[i + 1] and after[i] else word
        for i, word in enumerate(words)
    ]


def token_end(text: str, start: int) -> int:
    """Where the token that begins at `start` ends. One of a script without spaces has the next
    character of its run in it."""
    found, single = _tokens().match(text, start), unspaced()
    end = found.end() if found else start
    paired = single.match(text, start) and single.match(text, end)
    return end + 1 if paired else end


def whole(tokens: Tokens, text: str) -> list[bool]:
    """Which tokens of a query are whole terms. The last character of a run of a script without
    spaces is in the pair before it; alone, it is the beginning of a term."""
    single = unspaced()
    found: list[bool] = []
    for i, (term, start) in enumerate(zip(tokens.terms, tokens.starts.tolist(), strict=True)):
        lone = len(term) == 1 and single.match(term) is not None
        before = i > 0 and start - tokens.starts[i - 1] == 1 and single.match(text[start - 1])
        found.append(not (lone and before))
    return found
