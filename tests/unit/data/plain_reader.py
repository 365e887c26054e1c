"""A slow reader of LETOR text in plain Python, for comparison."""

import re

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
FEATURE = re.compile(rb"([0-9]{1,10}):(.*)", re.DOTALL)


class Wrong(Exception):
    """args: the line, or None where any line will do."""


def plain_read(text, sparse=False, features=None, grades=128, clip=False):
    """-> features (n, f) float32, labels, query id per document, document id per document."""
    if b"\n" not in text:
        text = text.replace(b"\r", b"\n")
    if re.search(rb"\r[ \t]*[0-9][0-9.]*[ \t]+qid:", text):
        raise Wrong(None)
    lines = text.split(b"\n")
    bodies = [
        [word for word in re.split(rb"[ \t\r]+", line.partition(b"#")[0]) if word]
        for line in lines
    ]
    documents = [(i + 1, words) for i, words in enumerate(bodies) if words]
    if not documents:
        raise Wrong(1)
    first = documents[0][1][2:]
    base = 0 if first and re.match(rb"0+(:|$)", first[0]) else 1
    if features is None:
        features = len(first)
        if sparse:
            indices = [
                int(m[1]) for _, ws in documents for w in ws[2:] if (m := re.match(rb"(\d+):", w))
            ]
            features = max(indices, default=0) + 1 - base
            if features > 100_000:
                raise Wrong(None)
    rows, labels, queries, names = [], [], [], []
    for line, words in documents:
        label, query, row = one_line(line, words, sparse, max(1, features), base, grades, clip)
        rows.append(row)
        labels.append(label)
        queries.append(query)
        comment = lines[line - 1].partition(b"#")[2]
        name = re.match(rb"[ \t\r]*docid[ \t\r]*=[ \t\r]*([^\x00-\x20]*)", comment)
        names.append(name[1] if name else b"")
        if len(names[-1]) > 255:
            raise Wrong(line)
    ends = [
        query for query, after in zip(queries, [*queries[1:], None], strict=True) if query != after
    ]
    if len(set(ends)) < len(ends):
        raise Wrong(None)
    return np.array(rows, np.float32), labels, queries, names


def one_line(line, words, sparse, features, base, grades, clip):
    if not re.fullmatch(rb"[0-9]+(\.0*)?", words[0]) or int(words[0].partition(b".")[0]) >= grades:
        raise Wrong(line)
    if len(words) < 2 or not re.fullmatch(rb"qid:[^\x00-\x20]{1,255}", words[1]):
        raise Wrong(line)
    row, last = np.zeros(features, np.float32), -1
    for word in words[2:]:
        match = FEATURE.fullmatch(word)
        if not match:
            raise Wrong(line)
        column = int(match[1]) - base
        if column <= last or column >= features or (not sparse and column != last + 1):
            raise Wrong(line)
        row[column], last = number(line, match[2], clip), column
    if not sparse and last != features - 1:
        raise Wrong(line)
    return int(words[0].partition(b".")[0]), words[1][4:], row


def number(line, word, clip):
    if not NUMBER.fullmatch(word):
        raise Wrong(line)
    with np.errstate(over="ignore"):
        value = np.float32(float(word))
    if np.isfinite(value):
        return value
    if not clip:
        raise Wrong(line)
    return np.copysign(np.finfo(np.float32).max, value)
