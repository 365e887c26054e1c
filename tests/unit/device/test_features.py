"""The features of a document: numbers worked out by hand, and a plain definition of each."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.device.content import Text
from foltr.device.index import LONGEST, Index
from foltr.device.query import parsed
from foltr.device.searching import ABOUT, DAY, NAMES, Candidates, raw_features, scaled, slots_of
from foltr.device.tokens import id_of, tokens_of
from property_settings import examples

NOW = 1_700_000_000.0


def paper(title, headings, body, path="/docs/a.txt", days=0.0):
    return path, Text("text", title, headings, body, NOW - days * DAY)


def index_of(papers):
    index = Index(None)
    with index.batch():
        for number, (path, text) in enumerate(papers):
            index.put(f"/{number}{path}" if path == "/docs/a.txt" else path, 1, 1, [text])
    return index


def features_of(papers, text, typing=False, order=None):
    """The raw features of all papers for a query, by name: each (m,)."""
    index, query = index_of(papers), parsed(text, typing)
    ids = list(range(1, len(papers) + 1)) if order is None else order
    docs, about = index.forward(ids), list(index.documents(ids).values())
    words = np.array([id_of(word.term) for word in query.words], np.uint32)
    slots = slots_of(index, query)
    found = raw_features(Candidates(slots, words, docs, about, index.statistics(), NOW))
    return {name: found[:, i] for i, name in enumerate(ABOUT)}


# Terms: kernel modul guid / load modul / load a kernel modul need a kernel sourc; note / - / modul
# of a boot kernel; fish / - / fish swim in water. Mean lengths 5/3, 2/3 (counted as 1), 17/3, and
# 22/3 for title and body.
PAPERS = [
    paper(
        "Kernel module guide", "Loading\nModule", "loading a kernel module needs a kernel source",
        "/docs/kernel/module-guide.txt", 3.0,
    ),
    paper("Notes", "", "module of a boot kernel", "/docs/notes.txt", -1.0),
    paper("Fish", "", "fish swim in water", "/docs/other/fish.txt", 10.0),
]  # fmt: skip
ln = math.log
ZERO, ONE, TWO = ln(1 + 3.5 / 0.5), ln(1 + 2.5 / 1.5), ln(1 + 1.5 / 2.5)  # idf, by documents


def by_hand_bm25(length_by_mean, *idf_and_counts):
    norm = 1.2 * (0.25 + 0.75 * length_by_mean)
    return sum(idf * count * 2.2 / (count + norm) for idf, count in idf_and_counts)


def by_hand_language(mu, length, *counts_and_chances):
    return sum(ln((count + mu * chance) / (length + mu)) for count, chance in counts_and_chances)


KERNEL, MODUL = 4.5 / 23, 3.5 / 23  # chances of the words in title and body


def by_hand_mixed(length, kernel, modul):
    return ln(1 + 7 / 3 * kernel / length / KERNEL) + ln(1 + 7 / 3 * modul / length / MODUL)


BY_HAND = {
    "bm25": (
        by_hand_bm25(11 * 3 / 22, (TWO, 3), (TWO, 2)),
        by_hand_bm25(6 * 3 / 22, (TWO, 1), (TWO, 1)),
        0.0,
    ),
    "bm25_title": (by_hand_bm25(3 * 3 / 5, (ONE, 1), (ONE, 1)), 0.0, 0.0),
    "bm25_headings": (by_hand_bm25(2.0, (ZERO, 0), (ONE, 1)), 0.0, 0.0),
    "bm25_body": (
        by_hand_bm25(8 * 3 / 17, (TWO, 2), (TWO, 1)),
        by_hand_bm25(5 * 3 / 17, (TWO, 1), (TWO, 1)),
        0.0,
    ),
    "tfidf_title": (2 * ln(2) * ONE, 0.0, 0.0),
    "tfidf_headings": (ln(2) * ONE, 0.0, 0.0),
    "tfidf_body": ((ln(3) + ln(2)) * TWO, 2 * ln(2) * TWO, 0.0),
    "language_title": (2 * ln(3.5 / 13), 2 * ln(2.5 / 11), 2 * ln(2.5 / 11)),
    "language_headings": (ln(6.25 / 52) + ln(19.75 / 52), *[ln(6.25 / 50) + ln(18.75 / 50)] * 2),
    "language_text": (
        by_hand_language(1000, 11, (3, KERNEL), (2, MODUL)),
        by_hand_language(1000, 6, (1, KERNEL), (1, MODUL)),
        by_hand_language(1000, 5, (0, KERNEL), (0, MODUL)),
    ),
    "mixed_text": (by_hand_mixed(11, 3, 2), by_hand_mixed(6, 1, 1), 0.0),
    "cover_title": (1.0, 0.0, 0.0),
    "cover_headings": (0.5, 0.0, 0.0),
    "cover_text": (1.0, 1.0, 0.0),
    "idf_title": (1.0, 0.0, 0.0),
    "idf_headings": (0.5, 0.0, 0.0),
    "idf_text": (1.0, 1.0, 0.0),
    "run_title": (1.0, 0.0, 0.0),
    "run_headings": (0.5, 0.0, 0.0),
    "run_body": (1.0, 0.5, 0.0),
    "neighbours_title": (1.0, 0.0, 0.0),
    "neighbours_headings": (0.0, 0.0, 0.0),
    "neighbours_body": (1.0, 0.0, 0.0),
    "closeness": (ln(1 + TWO * (1 + 1 / 9)), ln(1 + TWO / 16), 0.0),
    "nearest": (1.0, 0.25, 0.0),
    "title_share": (2 / 3, 0.0, 0.0),
    "headings_share": (1 / 2, 0.0, 0.0),
    "body_share": (3 / 8, 2 / 5, 0.0),
    "title_equal": (0.0, 0.0, 0.0),
    "title_begins": (1.0, 0.0, 0.0),
    "first": (1 / (1 + ln(3)), 1.0, 0.0),
    "early": (1.0, 1.0, 0.0),
    "name": (0.5, 0.0, 0.0),
    "path": (0.5, 0.0, 0.0),
    "depth": (3.0, 2.0, 3.0),
    "length": (ln(12), ln(7), ln(6)),
    "title_length": (ln(4), ln(2), ln(2)),
    "recent": (-ln(4), 0.0, -ln(11)),
}


@pytest.mark.parametrize("name", ABOUT)
def test_a_feature_has_the_value_that_is_worked_out_by_hand(name):
    found = features_of(PAPERS, "kernel module")[name]
    assert found == pytest.approx(BY_HAND[name], rel=1e-12, abs=1e-12)


# --- a plain definition ---

FIELDS = ("title", "headings", "body")


class PlainSlot:
    """A word of the query and the terms that it stands for, from lists of terms."""

    def __init__(self, word, times, docs):
        self.times, self.terms = times, [word.term]
        known = Counter(t for doc in docs for f in FIELDS for t in set(doc[f]))
        if word.begin:
            rank = {
                term: sum((term in doc["title"]) + (term in doc["body"]) for doc in docs)
                for term in known
                if term.startswith(word.begin)
            }
            more = sorted(rank, key=lambda term: (-rank[term], term))[:8]
            self.terms += [term for term in more if term != word.term]


def plain_slot_of(term, slots):
    """The number of the slot that a token counts for; own words before others."""
    own = [s for s, slot in enumerate(slots) if slot.terms[0] == term]
    other = [s for s, slot in enumerate(slots) if term in slot.terms]
    return (own or other or [None])[-1]


def plain_features(docs, slots, words):
    """The features of all documents, each a dictionary of lists of terms, by their definitions."""
    n, s = len(docs), len(slots)
    mean = {f: max(sum(len(doc[f]) for doc in docs) / n, 1.0) for f in FIELDS}
    text_mean = sum(len(doc["title"]) + len(doc["body"]) for doc in docs) / n
    mean["text"] = max(text_mean, 1.0)

    def holders(slot, field):  # summed over its terms: documents may count several times
        return sum(term in doc[field] for term in slot.terms for doc in docs)

    def occurrences(slot, field):
        return sum(doc[field].count(term) for term in slot.terms for doc in docs)

    def idf(slot, field):
        of_text = max(holders(slot, "title"), holders(slot, "body"))
        have = min(of_text if field == "text" else holders(slot, field), n)
        return slot.times * ln(1 + (n - have + 0.5) / (have + 0.5))

    def chance(slot, field):
        parts = ("title", "body") if field == "text" else (field,)
        return (sum(occurrences(slot, f) for f in parts) + 0.5) / (n * mean[field] + 1.0)

    found, weights = [], [idf(slot, "text") for slot in slots]
    for doc in docs:
        which = {f: [plain_slot_of(term, slots) for term in doc[f]] for f in FIELDS}
        which["text"] = which["title"] + which["body"]
        row = {}
        for f in (*FIELDS, "text"):
            count = [which[f].count(k) for k in range(s)]
            length = len(which[f])
            norm = 1.2 * (0.25 + 0.75 * length / mean[f])
            row["bm25" if f == "text" else f"bm25_{f}"] = sum(
                idf(slots[k], f) * count[k] * 2.2 / (count[k] + norm) for k in range(s)
            )
            row[f"tfidf_{f}"] = sum(ln(1 + count[k]) * idf(slots[k], f) for k in range(s))
            row[f"{f}_share"] = sum(count) / max(length, 1)
            row[f"cover_{f}"] = sum(c > 0 for c in count) / s
            row[f"idf_{f}"] = sum(weights[k] for k in range(s) if count[k]) / sum(weights)
            mu = {"title": 10.0, "headings": 50.0, "text": 1000.0}.get(f, 1.0)
            row[f"language_{f}"] = sum(
                slot.times * ln((count[k] + mu * chance(slot, f)) / (length + mu))
                for k, slot in enumerate(slots)
            )
            row[f"mixed_{f}"] = sum(
                slot.times * ln(1 + 7 / 3 * count[k] / max(length, 1) / chance(slot, f))
                for k, slot in enumerate(slots)
            )
            row[f"run_{f}"] = longest_run(which[f]) / s
            row[f"neighbours_{f}"] = len(near_pairs(which[f])) / max(s - 1, 1)
        pairs = [(b - a, j, k) for (a, j), (b, k) in matches(which["body"]) if j != k]
        close = sum(min(weights[j], weights[k]) / d**2 for d, j, k in pairs)
        places = [i for i, k in enumerate(which["body"]) if k is not None]
        early = {k for k in which["body"][:100] if k is not None}
        row |= {
            "closeness": ln(1 + close),
            "nearest": max((1 / d for d, _, _ in pairs), default=0.0),
            "first": 1 / (1 + ln(1 + places[0])) if places else 0.0,
            "early": len(early) / s,
            "title_begins": float(0 < len(words) and doc["title"][: len(words)] == words),
            "title_equal": float(0 < len(words) and doc["title"] == words),
            "length": ln(1 + len(which["text"])),
            "title_length": ln(1 + len(doc["title"])),
        }
        found.append(row)
    return found


def matches(which):
    """Neighbouring matches: pairs of (place, slot)."""
    hits = [(place, slot) for place, slot in enumerate(which) if slot is not None]
    return list(pairwise(hits))


def near_pairs(which):
    return {j for (a, j), (b, k) in matches(which) if k == j + 1 and b - a <= 3}


def longest_run(which):
    longest = length = 0
    for i, slot in enumerate(which):
        follows = i > 0 and which[i - 1] is not None and slot == which[i - 1] + 1
        length = 0 if slot is None else length + 1 if follows else 1
        longest = max(longest, length)
    return longest


# no stop words, no endings that a stemmer removes; one is the beginning of another
VOCABULARY = ["ka", "kab", "kabo", "lo", "lomu", "zud", "кот", "naïf"]
some_text = st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)
some_word = st.sampled_from([*VOCABULARY, "ka*", "lo*", "xy", "k*"])


@examples(200)
@given(
    st.lists(st.tuples(some_text, some_text, some_text), min_size=1, max_size=5),
    st.lists(some_word, min_size=1, max_size=5).map(" ".join),
)
def test_features_are_those_of_a_plain_definition(texts, text):
    found = features_of([paper(*each) for each in texts], text)
    docs = [
        {f: tokens_of(part).terms for f, part in zip(FIELDS, each, strict=True)} for each in texts
    ]
    query = parsed(text)
    slots = [PlainSlot(word, times, docs) for word, times in Counter(query.words).items()]
    plain = plain_features(docs, slots, [word.term for word in query.words])
    names = set(ABOUT) - {"name", "path", "depth", "recent"}
    assert names <= set(plain[0])
    for name in names:
        wanted = [row[name] for row in plain]
        assert found[name] == pytest.approx(wanted, rel=1e-9, abs=1e-12), name


# --- single cases ---


def test_every_feature_is_listed_once_with_the_version():
    assert len(NAMES) == len(set(NAMES)) == len(ABOUT) == len(BY_HAND) == 38
    assert NAMES[0] == "bm25 v1"


def test_a_title_that_is_the_query():
    papers = [paper("The kernel", "", "x"), paper("Kernel", "", "x"), paper("kernel the", "", "")]
    found = features_of(papers, "the kernel")
    assert found["title_equal"].tolist() == [1.0, 0.0, 0.0]
    assert found["title_begins"].tolist() == [1.0, 0.0, 0.0]


def test_the_order_of_candidates_does_not_matter():
    plain = features_of(PAPERS, "kernel module")
    turned = features_of(PAPERS, "kernel module", order=[3, 1, 2])
    for name in ABOUT:
        assert turned[name].tolist() == plain[name][[2, 0, 1]].tolist()


def test_a_beginning_stands_for_all_its_terms():
    papers = [paper("-", "", "config configs reconfig"), paper("-", "", "confident config zebra")]
    found = features_of(papers, "conf*")
    assert found["body_share"].tolist() == [2 / 3, 2 / 3]
    assert found["cover_text"].tolist() == [1.0, 1.0]
    papers = [paper("-", "", "zebra config"), paper("-", "", "zebra confident")]
    assert features_of(papers, "zebra config")["run_body"].tolist() == [1.0, 0.5]
    assert features_of(papers, "zebra conf", typing=True)["run_body"].tolist() == [1.0, 1.0]


def test_a_word_of_the_query_keeps_its_matches_while_the_next_word_is_typed():
    """The beginning "fi" also stands for "file", which is a word of the query already."""
    papers = [paper("-", "", "file fish file"), paper("-", "", "fish fish")]
    found = features_of(papers, "file fi", typing=True)
    assert found["cover_text"].tolist() == [1.0, 0.5]
    assert features_of(papers, "fi* file")["cover_text"].tolist() == [1.0, 0.5]


def test_a_repeated_word_counts_as_often_as_it_is_written():
    once, twice = features_of(PAPERS, "kernel module"), features_of(PAPERS, "kernel module kernel")
    alone = features_of(PAPERS, "kernel")
    for name in ("bm25", "bm25_title", "tfidf_body", "language_text", "mixed_text"):
        assert twice[name] == pytest.approx(once[name] + alone[name])
    assert twice["cover_text"].tolist() == once["cover_text"].tolist()


def test_of_a_very_long_document_the_first_tokens_count():
    far = LONGEST - 1  # the title has one token
    bodies = "x " * (far - 1) + "kernel x x", "x " * far + "kernel x"
    found = features_of([paper("long", "", body) for body in bodies], "kernel")
    assert found["cover_text"].tolist() == [1.0, 0.0]
    assert found["first"].tolist() == pytest.approx([1 / (1 + ln(far)), 0.0])
    assert found["length"].tolist() == pytest.approx([ln(LONGEST + 3), ln(LONGEST + 3)])


def test_the_first_100_words_are_early():
    papers = [paper("-", "h", "x " * before + "kernel") for before in (0, 99, 100)]
    assert features_of(papers, "kernel")["early"].tolist() == [1.0, 1.0, 0.0]


def test_documents_without_title_headings_or_body_have_features():
    parts = ("...", "", ""), ("kernel", "", ""), ("-", "kernel", ""), ("", "", "kernel")
    found = features_of([paper(*each) for each in parts], "kernel")
    assert all(np.isfinite(column).all() for column in found.values())
    assert found["cover_title"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found["cover_headings"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert found["body_share"].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert found["length"].tolist() == pytest.approx([0.0, ln(2), 0.0, ln(2)])


@pytest.mark.parametrize(
    "query, near, far",
    [
        ("поиск документов", "быстрый поиск документов", "документов много поиск"),
        ("検索機能", "高速な検索機能です", "機能を検索する"),
        ("हिन्दी खोज", "यह हिन्दी खोज है", "खोज और हिन्दी"),
    ],
)
def test_other_scripts_have_runs_and_counts(query, near, far):
    found = features_of([paper("-", "", near), paper("-", "", far), paper("-", "", "x")], query)
    assert found["cover_text"][0] == 1.0 and found["cover_text"][2] == 0.0
    assert found["run_body"][0] == 1.0 > found["run_body"][1] > 0.0
    assert found["bm25"][0] > 0.0 and found["bm25"][1] > 0.0


def test_names_of_files_and_folders_may_have_line_breaks():
    papers = [paper("-", "", "x", "/kernel\nx/a.txt"), paper("-", "", "x", "/b/c\nkernel.txt")]
    found = features_of(papers, "kernel")
    assert found["path"].tolist() == [1.0, 0.0] and found["name"].tolist() == [0.0, 1.0]


def test_without_candidates_or_words_there_are_no_values():
    index = index_of(PAPERS)
    none = Candidates((), np.zeros(0, np.uint32), [], [], index.statistics(), NOW)
    assert raw_features(none).shape == scaled(raw_features(none)).shape == (0, len(ABOUT))
    docs, about = index.forward([1, 2]), list(index.documents([1, 2]).values())
    words = Candidates((), np.zeros(0, np.uint32), docs, about, index.statistics(), NOW)
    assert raw_features(words).tolist() == np.zeros((2, len(ABOUT))).tolist()


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=8).map(
        np.array
    )
)
def test_scaled_features_are_from_0_to_1(raw):
    found = scaled(raw)
    assert found.dtype == np.float32 and found.shape == raw.shape
    for column, before in zip(found.T, raw.T, strict=True):
        assert column.min() == 0.0 and column.max() in (0.0, 1.0)
        if before.max() - before.min() > 1e-3:
            assert column.max() == 1.0 and column[before.argmin()] == 0.0
            assert column[before.argmax()] == 1.0


def test_a_feature_that_is_the_same_for_all_becomes_0():
    raw = np.array([[5.0, 0.1 + 0.2, 1.0], [5.0, 0.3, 2.0]])  # two numbers that should be equal
    assert scaled(raw).tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert scaled(np.array([[3.0, -1.0]])).tolist() == [[0.0, 0.0]]
