"""From text to terms: accents, other scripts, and where each token begins."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foltr.device.tokens import LONGEST, id_of, tokens_of, whole


@pytest.mark.parametrize(
    "text, terms",
    [
        ("Running the Kernel-modules", ["run", "the", "kernel", "modul"]),
        ("Café NAÏVE résumé", ["cafe", "naiv", "resum"]),
        ("e\u0301te\u0301 decomposed", ["ete", "decompos"]),
        ("snake_case getName() 3.11", ["snake", "case", "getnam", "3", "11"]),
        ("Поиск документов", ["поиск", "документов"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("検索 engine", ["検索", "索", "engin"]),
        ("한국어", ["한국", "국어", "어"]),
        ("Straße ﬁne İstanbul", ["strass", "fine", "istanbul"]),
        ("", []),
        ("... --- !!!", []),
    ],
)
def test_terms_of_a_text(text, terms):
    assert tokens_of(text).terms == terms


def test_a_token_begins_where_the_text_has_it():
    text = "The naïve “search” of 検索 - café"
    tokens = tokens_of(text)
    begins = [text[start] for start in tokens.starts]
    assert begins == ["T", "n", "s", "o", "検", "索", "c"]


def test_ids_are_those_of_the_terms():
    tokens = tokens_of("one two one")
    assert tokens.ids.tolist() == [id_of("one"), id_of("two"), id_of("one")]


def test_the_last_character_of_a_run_is_in_the_pair_before():
    text = "検索機 機"
    assert whole(tokens_of(text), text) == [True, True, False, True]


def test_an_endless_word_is_cut():
    (term,) = tokens_of("x" * 1000).terms
    assert len(term) == LONGEST


@given(st.text())
@example("㈠ ㏂ ⒈ ½ ㎏")
def test_any_text_has_terms_that_can_be_quoted(text):
    tokens = tokens_of(text)
    assert len(tokens.terms) == len(tokens.ids) == len(tokens.starts)
    assert all(term and not set(term) & set(' "*()\t\n') for term in tokens.terms)
    starts = tokens.starts.tolist()
    assert starts == sorted(set(starts)) and all(0 <= start < len(text) for start in starts)
    for term in tokens.terms:
        term.encode()  # no half of a character


@given(st.text(alphabet="abcé検索 -", max_size=40), st.text(alphabet="abcé検索 -", max_size=40))
def test_a_text_after_a_space_has_the_same_terms(first, second):
    both = tokens_of(f"{first} {second}")
    assert both.terms == tokens_of(first).terms + tokens_of(second).terms
