"""Words for a query that finds nothing: which of its words are in no document, and what may have
been meant."""

from __future__ import annotations

from collections.abc import Sequence

from foltr.device.candidates import Slot
from foltr.device.index import Index
from foltr.device.query import Filter
from foltr.device.tokens import id_of, tokens_of

COMPARED = 3000  # terms, those of most documents first


def unknown_words(text: str, slots: Sequence[Slot]) -> list[str]:
    """The words of a query that no document has, as they were typed."""
    missing = {id for slot in slots if not slot.documents for id in slot.ids.tolist()}
    tokens = tokens_of(text)
    found = [
        _word_at(text, start)
        for id, start in zip(tokens.ids.tolist(), tokens.starts.tolist(), strict=True)
        if id in missing
    ]
    return list(dict.fromkeys(found))


def similar_word(index: Index, word: str) -> str | None:
    """A word of the documents that a misspelt word is like: at most a third of its letters are
    wrong, missing, too many, or in the wrong order."""
    terms = tokens_of(word).terms
    if not terms or len(terms[0]) < 3:
        return None
    own, most = terms[0], max(1, len(terms[0]) // 3)
    known = index.beginning(own[0], COMPARED)
    near = [term for term in known if abs(len(term) - len(own)) <= most]
    least, at = most + 1, 0
    for i, term in enumerate(near):
        edits = distance(own, term, least)
        if edits < least:
            least, at = edits, i
    return _as_written(index, near[at]) if least <= most else None


def distance(a: str, b: str, most: int) -> int:
    """The number of edits between two words: a letter more, less or another, or two exchanged
    (optimal string alignment). Exact only if it is less than `most`."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            least = min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        if min(row) >= most:  # no row that follows has less
            return most
        before, last = last, row
    return last[-1]


def _as_written(index: Index, term: str) -> str:
    """A term as a document has it; the index knows only its stem."""
    for document in index.matching(f'"{term}"', Filter(), "rank", 1):
        headings, body = index.texts(document)
        for text in (index.documents([document])[document].title, headings, body):
            tokens = tokens_of(text)
            places = (tokens.ids == id_of(term)).nonzero()[0]
            if len(places):
                return _word_at(text, int(tokens.starts[places[0]])).lower()
    return term


def _word_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[start : max(end, start + 1)]
