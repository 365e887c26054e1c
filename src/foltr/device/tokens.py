"""From text to the terms of the index.

A token is a run of letters and digits, with the marks that belong to them. Its term is what the
index knows: in lower case, without accents, and English words without their endings (Snowball
stemmer). Scripts without spaces between words (Chinese, Japanese, Thai, ...) and Korean have a
token for each character; its term is this character and the next one, so that parts of a run are
found.

Tokens and terms correspond one to one, so that a term's place in the text is known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple
from zlib import crc32

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake

VERSION = 1  # of the terms: an index with others is made again
LONGEST = 64  # characters of a term
KNOWN = 300_000  # tokens whose terms are remembered
ASCII, WORDS = re.compile(r"([A-Za-z0-9]+)"), re.compile(r"([^\W_]+)")
# blocks of scripts that are indexed in pairs of characters
UNSPACED = (
    (0x0E01, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3041, 0x30FF), (0x3130, 0x318F), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0x20000, 0x3FFFF),
)  # fmt: skip
ACCENTS = re.compile("[\u0300-\u036f]")


class Tokens(NamedTuple):
    """The tokens of a text: their terms, the ids of the terms, and where each begins."""

    terms: list[str]
    ids: Array  # (n,) uint32
    starts: Array  # (n,) int64, characters


def _range(first: int, last: int) -> str:
    return f"{chr(first)}-{chr(last)}"


@cache
def unspaced() -> re.Pattern[str]:
    return re.compile("[" + "".join(_range(*each) for each in UNSPACED) + "]")


@cache
def _scripts() -> tuple[Array, re.Pattern[str]]:
    """Which code units need the second pattern: marks, and characters of scripts without spaces
    (65536,). And the pattern: such a character, or a word with its marks."""
    marks = "".join(
        c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c) in ("Mn", "Mc")
    )
    special = np.zeros(1 << 16, bool)
    special[[ord(c) for c in marks if ord(c) < len(special)]] = True
    for first, last in UNSPACED:
        special[first : last + 1] = True
    special[0xD800:0xE000] = True  # halves of characters that have two code units
    pairs = "".join(_range(*each) for each in UNSPACED)
    letter = rf"(?:(?![{pairs}])[^\W_])"
    tokens = re.compile(rf"([{pairs}]|{letter}(?:{letter}|[{marks}])*)")
    return special, tokens


@cache
def _stem() -> Callable[[str], str]:
    try:
        import Stemmer
    except ImportError:
        raise Mistake("searching needs PyStemmer: pip install 'foltr[device]'") from None
    word: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return word


def id_of(term: str) -> int:
    return crc32(term.encode())


@lru_cache(KNOWN)
def term_of(token: str) -> tuple[str, int]:
    """The term of a token, and its id: a hash. Two terms with the same id are one in ten
    million pairs of a query's term and a document, and change a ranking a little."""
    folded = token.lower()
    if not folded.isascii():
        apart = unicodedata.normalize("NFKD", folded)
        folded = unicodedata.normalize("NFC", ACCENTS.sub("", apart))
        folded = "".join(folded.casefold().split()) or token
    term = _stem()(folded) if folded.isascii() else folded
    term = term[:LONGEST]
    return term, id_of(term)


def _pattern(text: str) -> re.Pattern[str]:
    if text.isascii():
        return ASCII
    special, tokens = _scripts()  # a regular expression of all these would be slow
    units = np.frombuffer(text.encode("utf-16-le", "replace"), "<u2")
    return tokens if special[units].any() else WORDS


def tokens_of(text: str) -> Tokens:
    """The tokens of a text."""
    pattern = _pattern(text)
    parts = pattern.split(text)  # between tokens, token, between tokens, token, ...
    words = parts[1::2]
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    starts = ends[0::2][: len(words)]
    if pattern not in (ASCII, WORDS):
        words = _in_pairs(words, starts)
    found = [term_of(word) for word in words]
    ids = np.fromiter((id for _, id in found), np.uint32, len(found))
    return Tokens([term for term, _ in found], ids, starts)


def _in_pairs(words: list[str], starts: Array) -> list[str]:
    """Characters of a script without spaces, each with the next one of its run."""
    single = unspaced()
    alone = [len(word) == 1 and single.match(word) is not None for word in words] + [False]
    after = [*(np.diff(starts) == 1).tolist(), False]
    return [
        word + words[i + 1] if alone[i] and alone[i + 1] and after[i] else word
        for i, word in enumerate(words)
    ]


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
