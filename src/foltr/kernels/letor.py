"""A parser of LETOR text from raw, untrusted bytes: `label qid:Q 1:v 2:v ... #comment`.

Every text ends in a newline, so a scan that stops at a newline never leaves the text. A number
that a kernel cannot round with certainty is left to Python's `float` (`hard`)."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from foltr.kernels import kernel

FINE, FULL, LABEL, GRADE, NO_QID, EMPTY_QID, LONG_ID, FEATURE, ZERO, ORDER, GAP, BEYOND, SHORT = (
    range(13)
)

# 10^0 .. 10^22 are exact in float64, the others rounded
POWERS = np.array([float(f"1e{i}") for i in range(65)])
EXACT_POWER, EXACT_MANTISSA, DIGITS = 22, 2**53, 18  # 18 digits always fit an int64
# more than the rounding errors of mantissa, power and quotient together
DOUBT = 8 * float(np.finfo(np.float64).eps)
LONGEST_ID = 255  # bytes


@kernel()
def parse_exponent(text, p):
    """-> exponent, where it ends (-1 without a digit; at most five digits are read)."""
    minus = byte(text, p) == 45
    if minus or byte(text, p) == 43:
        p += 1
    start, power = p, 0
    while 48 <= byte(text, p) <= 57 and p - start < 5:
        power = power * 10 + (byte(text, p) - 48)
        p += 1
    return (-power if minus else power), (p if p > start else -1)


@kernel()
def parse_number(text, p):
    """-> the float32 nearest to the float64 nearest to the text, where it ends (-1: Python must
    decide).

    With a mantissa below 2^53 and |power| <= 22 it is one correctly rounded operation (Clinger,
    PLDI 1990). Otherwise the result is used only if everything within DOUBT of it rounds to the
    same float32."""
    minus = byte(text, p) == 45
    if minus or byte(text, p) == 43:
        p += 1
    mantissa, start, power = 0, p, 0
    while 48 <= byte(text, p) <= 57:
        # overflows if too long; the result is then not used
        mantissa = mantissa * 10 + (byte(text, p) - 48)
        p += 1
    digits = p - start
    if byte(text, p) == 46:
        p += 1
        point = p
        while 48 <= byte(text, p) <= 57:
            mantissa = mantissa * 10 + (byte(text, p) - 48)
            p += 1
        power = point - p
        digits += p - point
    if byte(text, p) == 101 or byte(text, p) == 69:
        exponent, p = parse_exponent(text, p + 1)
        power += exponent
    if (
        p < 0
        or digits == 0
        or digits > DIGITS
        or not ends_token(byte(text, p))
        or not -64 <= power <= 64
    ):
        return np.float32(0), -1
    value = mantissa / POWERS[-power] if power < 0 else mantissa * POWERS[power]
    value = -value if minus else value
    near = np.float32(value)
    if not np.isfinite(near):
        return near, -1
    if mantissa > EXACT_MANTISSA or not -EXACT_POWER <= power <= EXACT_POWER:
        if np.float32(value * (1 - DOUBT)) != np.float32(value * (1 + DOUBT)):
            return near, -1
    return near, p


@kernel()
def parse_features(text, p, base, width, sparse, row, storage, hard, hards):
    """All `index:value` of a line into storage[row] -> code, place, how many numbers are left to
    Python."""
    column = -1
    while True:
        p = skip_blanks(text, p)
        if byte(text, p) == 10 or byte(text, p) == 35:
            return (FINE if sparse or column == width - 1 else SHORT), p, hards
        start, index = p, 0
        while 48 <= byte(text, p) <= 57 and p - start < 10:
            index = index * 10 + (byte(text, p) - 48)
            p += 1
        if p == start or byte(text, p) != 58:
            return FEATURE, start, hards
        index -= base
        if index != column + 1:
            if index <= column:
                return (ZERO if index < 0 else ORDER), start, hards
            if not sparse:
                return GAP, start, hards
        if index >= width:
            return BEYOND, start, hards
        column = index
        value, stop = parse_number(text, p + 1)
        if stop < 0:
            hard[hards, 0], hard[hards, 1], hard[hards, 2] = row, column, p + 1
            hards += 1
            stop = skip_token(text, p + 1)
        else:
            storage[row, column] = value
        p = stop


@kernel()
def parse_label(text, p, grades):
    """An integer below `grades`, possibly written 2.0 -> code, label, where it ends."""
    start, label = p, 0
    while 48 <= byte(text, p) <= 57:
        label = min(label * 10 + (byte(text, p) - 48), 1000)
        p += 1
    digits = p - start
    if digits and byte(text, p) == 46:
        p += 1
        while byte(text, p) == 48:
            p += 1
    if digits == 0 or not (is_blank(byte(text, p)) or byte(text, p) == 10):
        return LABEL, label, start
    return (FINE if label < grades else GRADE), label, (p if label < grades else start)


@kernel()
def parse_query(text, p):
    """`qid:` and the id after it -> code, where the id starts, where it ends."""
    p = skip_blanks(text, p)
    if (
        byte(text, p) != 113
        or byte(text, p + 1) != 105
        or byte(text, p + 2) != 100
        or byte(text, p + 3) != 58
    ):
        return NO_QID, p, p
    start = p + 4
    p = start
    while byte(text, p) > 32 and byte(text, p) != 35:
        p += 1
    if p == start or not ends_token(byte(text, p)):
        return EMPTY_QID, start, p
    return (FINE if p - start <= LONGEST_ID else LONG_ID), start, p


@kernel()
def find_document(text, p):
    """The X of a comment `#docid = X ...` -> where it starts, where it ends (equal if there is
    none)."""
    p = skip_blanks(text, p + 1)
    for i, c in enumerate((100, 111, 99, 105, 100)):  # "docid"; stops at the newline at the latest
        if byte(text, p + i) != c:
            return p, p
    p = skip_blanks(text, p + 5)
    if byte(text, p) != 61:
        return p, p
    start = skip_blanks(text, p + 1)
    p = start
    while byte(text, p) > 32:
        p += 1
    return start, p


@kernel()
def same_bytes(text, a, a_stop, b, b_stop):
    if a_stop - a != b_stop - b:
        return False
    for i in range(a_stop - a):
        if byte(text, a + i) != byte(text, b + i):
            return False
    return True


@kernel()
def parse_lines(
    text, p, grades, width, base, sparse, storage, labels, query_rows, query_at, document_at, hard
):
    """Lines from p on, until the text ends or a table is full -> documents, queries, hards, code,
    place.

    query_rows (R,): the first document of each run of lines with one qid; query_at (R, 2): its qid
    in the text; document_at (R, 2): each document's id in the text; hard (H, 3): row, column and
    place of numbers left to Python."""
    documents, queries, hards = 0, 0, 0
    while p < len(text):
        line = p
        p = skip_blanks(text, p)
        if byte(text, p) != 10 and byte(text, p) != 35:
            if documents == len(storage) or hards + width > len(hard):
                return documents, queries, hards, FULL, line
            code, label, p = parse_label(text, p, grades)
            if code != FINE:
                return documents, queries, hards, code, p
            code, start, p = parse_query(text, p)
            if code != FINE:
                return documents, queries, hards, code, start
            new = queries == 0
            if not new:
                new = not same_bytes(
                    text, start, p, query_at[queries - 1, 0], query_at[queries - 1, 1]
                )
            if new:
                query_rows[queries], query_at[queries, 0], query_at[queries, 1] = (
                    documents,
                    start,
                    p,
                )
                queries += 1
            code, p, hards = parse_features(
                text, p, base, width, sparse, documents, storage, hard, hards
            )
            if code != FINE:
                return documents, queries, hards, code, p
            labels[documents] = label
            document_at[documents, 0], document_at[documents, 1] = p, p
            if byte(text, p) == 35:
                start, p = find_document(text, p)
                if p - start > LONGEST_ID:
                    return documents, queries, hards, LONG_ID, start
                document_at[documents, 0], document_at[documents, 1] = start, p
            documents += 1
        while byte(text, p) != 10:
            p += 1
        p += 1
    return documents, queries, hards, FINE, p


@kernel()
def largest_index(text):
    """The largest index before a colon, outside of comments: the last feature of a sparse text.

    An index begins a word of a line, but neither the first (the label) nor the second (the
    query)."""
    largest, number, words, fresh, comment = 0, -1, 0, True, False
    for c in text:
        if c == 10:
            number, words, fresh, comment = -1, 0, True, False
        elif not comment:
            if fresh and not is_blank(c):
                words += 1
            if 48 <= c <= 57 and words > 2 and (fresh or number >= 0):
                number = min(max(number, 0) * 10 + (c - 48), 10**12)
            else:
                largest = max(largest, number if c == 58 else 0)
                number, comment = -1, c == 35
            fresh = is_blank(c)
    return largest


@kernel()
def gather(text, places, out):
    """out[i] = the bytes of the text from places[i, 0] to places[i, 1], padded with zeros."""
    for i in range(len(places)):
        start, stop = places[i]
        for j in range(stop - start):
            out[i, j] = byte(text, start + j)
        for j in range(stop - start, out.shape[1]):
            out[i, j] = 0


@kernel()
def normalize_queries(storage, width, offsets):
    """Min-max per query in place: (x - min) / (max - min) in float64; 0 where a feature is
    constant."""
    low, span = np.empty(width, np.float32), np.empty(width, np.float64)
    for q in range(len(offsets) - 1):
        rows = storage[offsets[q] : offsets[q + 1]]
        low[:], high = rows[0, :width], rows[0, :width].copy()
        for i in range(1, len(rows)):
            for j in range(width):
                low[j], high[j] = min(low[j], rows[i, j]), max(high[j], rows[i, j])
        for j in range(width):
            span[j] = np.float64(high[j]) - np.float64(low[j])
        for i in range(len(rows)):
            for j in range(width):
                above = np.float64(rows[i, j]) - np.float64(low[j])
                rows[i, j] = above / span[j] if span[j] > 0 else 0.0


# Bytes and words of raw text, for kernels that check its end themselves.


def _byte(typing, text, p):
    """text[p] as an integer, without the check for negative p: the reader is a quarter faster
    without it."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.zext(builder.load(builder.gep(array.data, [args[1]])), ir.IntType(64))

    return types.int64(text, types.int64), generate


byte: Any = intrinsic(_byte)


@kernel()
def is_blank(c):
    return c == 32 or c == 9 or c == 13


@kernel()
def ends_token(c):
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35


@kernel()
def skip_blanks(text, p):
    while is_blank(byte(text, p)):
        p += 1
    return p


@kernel()
def skip_token(text, p):
    while not ends_token(byte(text, p)):
        p += 1
    return p
