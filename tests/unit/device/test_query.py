"""What a user typed, as terms to look for."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.device.query import Filter, Word, moment, parsed


def test_words_in_their_order():
    query = parsed("Kernel modules")
    assert query.words == (Word("kernel"), Word("modul")) and not query.phrases


def test_a_phrase_must_be_found_as_it_is():
    query = parsed('loading "kernel modules" now')
    assert query.phrases == (("kernel", "modul"),)
    assert [word.term for word in query.words] == ["load", "kernel", "modul", "now"]


def test_an_open_quote_is_a_phrase_that_is_still_typed():
    assert parsed('"kernel mod').phrases == (("kernel", "mod"),)
    assert parsed('"').words == ()


def test_a_star_stands_for_words_that_begin_so():
    assert parsed("config* file").words == (Word("config", "config"), Word("file"))
    assert parsed("Configurations*").words == (Word("configur", "configurations"),)


def test_the_last_word_may_be_incomplete_while_typing():
    assert parsed("kernel configurat", typing=True).words[-1].begin == "configurat"
    assert parsed("kernel configurat").words[-1].begin == ""
    assert parsed("kernel ", typing=True).words[-1].begin == ""


def test_a_single_character_of_a_script_without_spaces_begins_words():
    assert parsed("機").words == (Word("機", "機"),)
    assert parsed("検索機").words == (Word("検索"), Word("索機"))


def test_filters():
    found = parsed('notes type:pdf folder:"my papers" after:2024-02 before:2025').filter
    assert found == Filter("my papers", "pdf", 1706745600.0, 1735689600.0)
    assert [word.term for word in parsed("notes type:pdf").words] == ["note"]


@pytest.mark.parametrize(
    "text, told",
    [
        ("x type:movie", "type:movie is no type of document"),
        ("x type:htlm", "did you mean 'html'"),
        ("x after:yesterday", "after:yesterday is no date: write after:2024-01-31"),
    ],
)
def test_a_filter_that_cannot_be_understood_is_named(text, told):
    with pytest.raises(Mistake, match=told):
        parsed(text)
    assert [word.term for word in parsed(text, typing=True).words] == ["x"]


def test_stop_words_count_only_where_there_are_no_others():
    assert parsed("how to use the kernel").telling == (Word("kernel"),)
    assert [word.term for word in parsed("what is it").telling] == ["what", "is", "it"]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="not on this system: time.tzset")
def test_dates_are_those_of_the_time_zone(monkeypatch):
    try:
        for zone, east in (("UTC", 0), ("XYZ-3", 3)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert moment("1970", "after") == -3600.0 * east
            assert moment("1970-01-02", "after") == 86400.0 - 3600.0 * east
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.text(max_size=80), st.booleans())
def test_any_text_is_a_query(text, typing):
    try:
        query = parsed(text, typing)
    except Mistake:
        assert not typing
        return
    assert len(query.words) <= 128
    assert all(word.term for word in query.words)
