"""Mailboxes as documents: where messages begin, what identifies them, what is left out."""

import tracemalloc
from collections import Counter
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.device import read_mail as mailbox_module
from foltr.device.content import Text, Unread
from foltr.device.read_mail import messages_of, read_mailbox

ENVELOPE_LINE = b"From sender@example.org Mon Jan  1 10:00:00 2024\n"


def mailbox_of(*messages: bytes) -> tuple[list[Text], Counter[str]]:
    left_out: Counter[str] = Counter()
    data = b"".join(ENVELOPE_LINE + message + b"\n" for message in messages)
    return list(read_mailbox(BytesIO(data), "box.mbox", left_out)), left_out


def test_the_messages_of_a_mailbox_are_documents_with_their_ids_as_keys():
    texts, left_out = mailbox_of(
        b"Subject: one\nMessage-ID: <1@x>\n\nfirst\n",
        b"Subject: two\nMessage-Id: <2@x>\n\nsecond\n",
    )
    assert [(text.title, text.part, text.body) for text in texts] == [
        ("one", "<1@x>", "first"),
        ("two", "<2@x>", "second"),
    ]
    assert left_out == Counter()


def test_a_message_without_an_id_or_with_a_used_one_has_a_hash_as_key():
    same = b"Message-ID: <1@x>\nSubject: "
    texts, _ = mailbox_of(same + b"a\n\nx\n", same + b"b\n\nx\n", b"Subject: c\n\nx\n")
    assert [len(text.part) for text in texts] == [5, 64, 64]
    assert len({text.part for text in texts}) == 3
    again, _ = mailbox_of(same + b"a\n\nx\n", same + b"b\n\nx\n", b"Subject: c\n\nx\n")
    assert [text.part for text in again] == [text.part for text in texts]
    endless, _ = mailbox_of(b"Message-ID: <" + b"1" * 1000 + b">\n\nx\n")
    assert len(endless[0].part) == 64


def test_the_same_message_again_is_a_copy():
    texts, left_out = mailbox_of(*[b"Message-ID: <1@x>\nSubject: s\n\nx\n"] * 3)
    assert [text.part for text in texts] == ["<1@x>"]
    assert left_out == Counter(copy=2)


def test_the_key_of_the_last_message_stays_when_the_mailbox_grows():
    before, _ = mailbox_of(b"Subject: a\n\nx\n")
    after, _ = mailbox_of(b"Subject: a\n\nx\n", b"Subject: b\n\nx\n")
    assert after[0] == before[0]


def test_lines_in_a_text_that_begin_with_from_end_no_message():
    body = (
        b"Subject: s\n\nFrom here on it is easy.\n\nFrom the year 2024, at 10:30 in 2024\nwe say\n"
        b"\n>From sender@example.org Mon Jan  1 10:00:00 2024\nA: quoted\n"
        b"text\nFrom sender@example.org Mon Jan  1 10:00:00 2024\nB: not after an empty line\n"
    )
    texts, _ = mailbox_of(body, b"Subject: next\n\nx\n")
    assert [text.title for text in texts] == ["s", "next"]
    assert "not after an empty line" in texts[0].body


def test_a_mailbox_with_windows_line_ends_is_read():
    one = (ENVELOPE_LINE + b"Subject: a\n\ntext\n\n").replace(b"\n", b"\r\n")
    texts = list(read_mailbox(BytesIO(one + one.replace(b"a", b"b")), "box", Counter()))
    assert [text.title for text in texts] == ["a", "b"]


def test_a_mailbox_of_no_message_is_damaged():
    with pytest.raises(Unread, match="damaged"):
        list(read_mailbox(BytesIO(b"no\n\nmessage\n"), "box", Counter()))


def test_a_message_with_a_private_key_is_left_out_and_the_others_are_not():
    key = b"Subject: key\n\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"
    texts, left_out = mailbox_of(key, b"Subject: other\n\nx\n")
    assert [text.title for text in texts] == ["other"]
    assert left_out == Counter(key=1)


def test_a_message_that_is_too_large_is_left_out_and_the_others_are_not(monkeypatch):
    monkeypatch.setattr(mailbox_module, "MOST_BYTES", 10_000)
    monkeypatch.setattr(mailbox_module, "PIECE", 700)
    sizes = [10, 200_000, 500, 9_500, 12_000, 15, 30_000]
    texts, left_out = mailbox_of(
        *(b"Subject: %d\n\n%b\n" % (size, b"word " * (size // 5)) for size in sizes)
    )
    assert [text.title for text in texts] == ["10", "500", "9500", "15"]
    assert left_out == Counter({"too large": 3})


def test_a_message_that_is_too_large_is_not_held(monkeypatch):
    monkeypatch.setattr(mailbox_module, "MOST_BYTES", 10_000)
    monkeypatch.setattr(mailbox_module, "PIECE", 1000)
    file = BytesIO(ENVELOPE_LINE + b"Subject: s\n\n" + b"word\n" * 1_000_000)
    tracemalloc.start()
    try:
        assert list(messages_of(file)) == [None]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("piece", [1, 7, 50, 1000, 10**6])
def test_the_messages_do_not_depend_on_the_pieces_that_are_read(monkeypatch, piece):
    data = b"".join(
        ENVELOPE_LINE + b"Subject: %d\n\n%b\n\n" % (n, b"From a\n\nFrom b 10:00 2024\nx\n" * n)
        for n in range(30)
    )
    whole = list(messages_of(BytesIO(data)))
    monkeypatch.setattr(mailbox_module, "PIECE", piece)
    assert list(messages_of(BytesIO(data))) == whole
    assert len(whole) == 30
    assert b"\n".join(filter(None, whole)) == data


@given(st.lists(st.sampled_from([ENVELOPE_LINE, b"\n", b"A: b\n", b"\xff\x00", b"From "])))
def test_any_pieces_of_a_mailbox_are_read(pieces):
    left_out: Counter[str] = Counter()
    try:
        for text in read_mailbox(BytesIO(b"".join(pieces)), "box", left_out):
            f"{text.title}{text.headings}{text.body}{text.part}".encode()
            assert text.title and text.part
    except Unread as error:
        assert error.reason == "damaged"
