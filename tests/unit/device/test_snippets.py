"""The part of a document that is shown: where it is, what is marked in it, and that nothing of the
text is lost or doubled."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.device.content import Text
from foltr.device.index import EVERY, Index
from foltr.device.query import parsed
from foltr.device.searching import slots_of
from foltr.device.snippets import MOST, marked, snippet
from foltr.device.tokens import tokens_of
from property_settings import examples


def snippet_of(body, text, typing=False, title="A page", headings="", others=()):
    """The pieces of the snippet of a document for a query."""
    index = Index(None)
    with index.batch():
        for number, each in enumerate((body, *others)):
            found = Text("text", title, headings, each)
            index.put(f"/docs/{number}.txt", 1, 1, [found])
    slots = slots_of(index, parsed(text, typing))
    return snippet(index, index.forward([1])[0], slots)


def shown_text(pieces):
    return "".join(piece.text for piece in pieces)


def marks(pieces):
    return [piece.text for piece in pieces if piece.marked]


def marks_of(body, text, typing=False):
    return marks(snippet_of(body, text, typing))


def test_a_short_body_is_shown_whole():
    pieces = snippet_of("The kernel loads a module.", "kernel")
    assert shown_text(pieces) == "The kernel loads a module."
    assert marks(pieces) == ["kernel"]


def test_the_window_with_most_different_words_is_chosen():
    filler = "filler " * 60
    body = f"kernel kernel kernel {filler} first kernel then module last {filler} module"
    pieces = snippet_of(body, "kernel module")
    assert "first kernel then module last" in shown_text(pieces)
    assert marks(pieces) == ["kernel", "module"]
    assert shown_text(pieces).startswith("… ") and shown_text(pieces).endswith(" …")


def test_of_two_single_words_the_rarer_one_is_shown():
    filler = "filler " * 60
    pieces = snippet_of(f"kernel {filler} module", "kernel module", others=["kernel"] * 20)
    assert marks(pieces) == ["module"]


def test_the_first_of_equal_windows_is_shown():
    filler = "filler " * 60
    pieces = snippet_of(f"one kernel {filler} two kernel {filler}", "kernel")
    assert shown_text(pieces).startswith("one kernel filler")


@pytest.mark.parametrize("before", [0, 1, 5, 6, 7, 62, 63, 64, 69, 70, 71, 127, 128, 1000, 20_000])
def test_a_match_at_any_place_is_shown_with_what_is_around(before):
    words = [f"w{i}" for i in range(before + 200)]
    words[before] = "kernel"
    pieces = snippet_of(" ".join(words), "kernel", headings="h " * 70)
    text = shown_text(pieces)
    assert marks(pieces) == ["kernel"]
    first = max(before - 6, 0)
    inside = text.removeprefix("… ").removesuffix(" …").split()
    assert inside == words[first : first + 40]
    assert text.startswith("… ") == (first > 0)


@pytest.mark.parametrize(
    "body, text, found",
    [
        ("Running and runs, ran; runner", "run", ["Running", "runs"]),
        ("configured configuration configs", "configuration", ["configured", "configuration"]),
        ("Café, CAFE, cafe\u0301 and cafés.", "café", ["Café", "CAFE", "cafe\u0301", "cafés"]),
        ("(kernel)-module_kernel2 kernel", "kernel", ["kernel", "kernel"]),
        ("Поиск и поиск, поиска", "поиск", ["Поиск", "поиск"]),
        ("यह हिन्दी खोज है", "हिन्दी", ["हिन्दी"]),
        ("日本語の検索エンジンです", "検索", ["検索"]),
        ("検索engine検索", "engine", ["engine"]),
        ("検索engine検索", "検索", ["検索", "検索"]),
        ("全文検索機能", "検索機", ["検索", "機"]),
        ("飛行機。機械", "機", ["機", "機械"]),
        ("한국어 검색", "한국", ["한국"]),
        ("straße STRASSE", "strasse", ["straße", "STRASSE"]),
        ("\U00020000\U00020001 x", "\U00020000\U00020001", ["\U00020000\U00020001"]),
    ],
)
def test_marks_are_exactly_the_words_of_the_query(body, text, found):
    pieces = snippet_of(body, text)
    assert marks(pieces) == found
    assert shown_text(pieces) == body


def test_stop_words_are_marked_only_if_there_are_no_others():
    assert marks_of("how to use the kernel", "how to use the kernel") == ["kernel"]
    assert marks_of("to be or not to be", "to be") == ["to", "be", "to", "be"]


def test_words_that_begin_like_an_incomplete_one_are_marked():
    assert marks_of("configure conference cat", "conf", typing=True) == ["configure", "conference"]
    assert marks_of("a configuration", "configurat", typing=True) == ["configuration"]
    assert marks_of("Überraschung im Übermut", "Überr", typing=True) == ["Überraschung"]


def test_a_word_that_is_cut_at_the_end_is_not_taken_for_another():
    """A cut through "category" must not leave "cat"."""
    for length in range(MOST - 40, MOST + 10):
        pieces = snippet_of(f"cat {'x' * (length - 5)} category dog bird", "cat")
        assert marks(pieces) == ["cat"]
        assert set(shown_text(pieces).split()) <= {
            "cat", "x" * (length - 5), "category", "dog", "bird", "…",
        }  # fmt: skip


@pytest.mark.parametrize("between", ["-" * 500, " " * 1000, "x" * 90, "x" * 500])
def test_a_match_is_shown_however_long_the_words_before_it_are(between):
    pieces = snippet_of(f"{between} ".join("abcdefgh") + f"{between} kernel end", "kernel")
    assert marks(pieces) == ["kernel"]
    assert len(shown_text(pieces)) <= MOST + 4
    deep = f"w{between} " * 300 + "kernel"
    assert marks_of(deep, "kernel") == ["kernel"]


def test_without_a_match_the_beginning_is_shown():
    body = "“First words” of a text. " + "filler " * 100
    pieces = snippet_of(body, "title", title="A title")
    assert shown_text(pieces).startswith("“First words” of a text. filler")
    assert shown_text(pieces).endswith("filler …") and not marks(pieces)
    assert shown_text(snippet(*_without_words("plain text"))) == "plain text"


def _without_words(body):
    index = Index(None)
    with index.batch():
        index.put("/docs/a.txt", 1, 1, [Text("text", "t", "", body)])
    return index, index.forward([1])[0], ()


@pytest.mark.parametrize("body", ["", "...", "\n \n", "-" * 5000])
def test_a_body_without_words(body):
    pieces = snippet_of(body, "kernel", title="kernel")
    assert not marks(pieces) and len(shown_text(pieces)) <= MOST + 4


def test_a_match_beyond_what_features_look_at_gives_the_beginning():
    pieces = snippet_of("start " + "filler " * 40_000 + "kernel", "kernel")
    assert shown_text(pieces).startswith("start filler") and not marks(pieces)


@pytest.mark.parametrize("unit", ["word ", "x", "-", "x" * 79 + " "])
def test_a_line_of_ten_megabytes_gives_a_short_snippet(unit, monkeypatch):
    """Only the text around the match is split into tokens: it stays fast."""
    half = unit * (5_000_000 // len(unit))
    looked_at = []

    def counted(text):
        looked_at.append(len(text))
        return tokens_of(text)

    index = Index(None)
    with index.batch():
        index.put("/docs/a.txt", 1, 1, [Text("text", "t", "", f"kernel {half} {half}")])
    slots = slots_of(index, parsed("kernel"))
    monkeypatch.setattr("foltr.device.snippets.tokens_of", counted)
    pieces = snippet(index, index.forward([1])[0], slots)
    assert marks(pieces) == ["kernel"] and len(shown_text(pieces)) <= MOST + 4
    assert sum(looked_at) <= 101_000


def test_white_space_is_single():
    body = "  one\n\n two\t\tkernel \u3000 three\u00a0\n" + "filler  \n" * 80
    text = shown_text(snippet_of(body, "kernel"))
    assert text.startswith("one two kernel three filler filler")
    assert not re.search(r"\s\s|[\n\t\u3000\u00a0]", text) and text.endswith("filler …")


def test_a_preview_keeps_its_white_space():
    index = Index(None)
    with index.batch():
        index.put("/docs/a.txt", 1, 1, [Text("text", "t", "", "a\n\n  kernel \n")])
    pieces = marked("a\n\n  kernel \n", slots_of(index, parsed("kernel")), single=False)
    assert [tuple(piece) for piece in pieces] == [
        ("a\n\n  ", False), ("kernel", True), (" \n", False),
    ]  # fmt: skip


PARTS = [
    "kernel",
    "Kernels",
    "module",
    "検",
    "索",
    "検索",
    "é",
    "e\u0301",
    " ",
    "  ",
    "\n",
    "-",
    "x",
]


@examples(150)
@given(
    st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=150).map("".join),
    st.lists(st.sampled_from(["kernel", "検索", "é", "mod*", "索", "x"]), max_size=3).map(
        " ".join
    ),
)
def test_pieces_give_back_a_part_of_the_body(body, text):
    body = body.encode("utf-8", "replace").decode()
    pieces = snippet_of(body, text)
    assert all(piece.text for piece in pieces)
    inside = shown_text(pieces)
    if pieces and pieces[0].text == "… ":
        inside = inside.removeprefix("… ")
    if pieces and pieces[-1].text == " …":
        inside = inside.removesuffix(" …")
    assert inside in " ".join(body.split())
    assert not re.search(r"\s\s", inside)
    if len(body) <= MOST and len(tokens_of(body).terms) <= 7:
        assert inside == " ".join(body.split())


@given(
    st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=60).map("".join),
    st.sampled_from(["kernel", "検索 x", "é module", "ker*", "機"]),
)
def test_marks_lose_and_double_nothing(text, query):
    index = Index(None)
    with index.batch():
        index.put("/docs/a.txt", 1, 1, [Text("text", "t", "", "kernel kernels 検索")])
    slots = slots_of(index, parsed(query))
    pieces = marked(text, slots, single=False)
    assert shown_text(pieces) == text
    wanted = {term for slot in slots for term in slot.terms}
    assert any(piece.marked for piece in pieces) == any(
        term in wanted for term in tokens_of(text).terms
    )


def test_stored_places_are_those_of_the_tokens():
    """What the snippet relies on."""
    body = "検索 word, " * 200
    index, doc, _ = _without_words(body)
    text, places = index.places(doc.id)
    assert text == body and places.tolist() == tokens_of(body).starts[::EVERY].tolist()
