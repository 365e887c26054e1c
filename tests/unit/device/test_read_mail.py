"""Messages as text, friendly and hostile."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.device.content import MOST_CHARACTERS, Text, Unread, parsing
from foltr.device.read_mail import DEEPEST, MOST_PARTS, read_message


def mail_of(text: str) -> Text:
    return read_message(text.replace("\n", "\r\n").encode(), "message.eml")


def mail_part(kind: str, content: str, *fields: str) -> str:
    return "\n".join([f"Content-Type: {kind}", *fields, "", content])


def mail_multipart(kind: str, *parts: str, boundary: str = "b1") -> str:
    inside = "".join(f"\n--{boundary}\n{part}" for part in parts)
    fields = f'Content-Type: multipart/{kind}; boundary="{boundary}"'
    return f"{fields}\n\npreamble{inside}\n--{boundary}--\nend\n"


def assert_mail_is_sound(text: Text) -> None:
    assert text.title.strip() and "\n" not in text.title
    assert len(text.body) <= MOST_CHARACTERS
    f"{text.title}{text.headings}{text.body}{text.part}".encode()


def test_a_message_has_its_subject_as_title_and_its_people_as_headings():
    text = mail_of(
        "From: Ann <ann@x.org>\nTo: Bob\n <bob@y.org>\nSubject: Lunch\n on Monday\nX-Other: no\n"
        "Date: Mon, 01 Jan 2024 10:00:00 +0100\n\nShall we?\nAnn\n"
    )
    assert text.kind == "mail"
    assert text.title == "Lunch on Monday"
    assert text.headings.split("\n") == [
        "From: Ann <ann@x.org>",
        "To: Bob <bob@y.org>",
        "Date: Mon, 01 Jan 2024 10:00:00 +0100",
    ]
    assert text.body == f"{text.headings}\n\nShall we?\nAnn"
    assert text.date == 1704099600
    assert text.part == ""


def test_encoded_words_are_decoded():
    text = mail_of(
        "Subject: =?utf-8?B?R3LDvMOf?= =?utf-8?Q?e_und?= =?iso-8859-1?q?_=C4pfel?= plain\n"
        "From: =?koi8-r?B?8NLJ18XU?= <x@y>\n\nx"
    )
    assert text.title == "Grüße und Äpfel plain"
    assert text.headings == "From: Привет <x@y>"


@pytest.mark.parametrize(
    "word", ["=?utf-8?B?A?=", "=?no-such?q?a=C4?=", "=?rot13?b?YWJj?=", "=?utf-8?q?=?=", "=?=?=?="]
)
def test_wrong_encoded_words_are_kept_somehow(word):
    text = mail_of(f"Subject: before {word} after\n\nx")
    assert text.title.startswith("before") and text.title.endswith("after")


def test_eight_bit_fields_are_read():
    assert read_message("Subject: Grüße\n\nx".encode(), "m").title == "Grüße"
    assert read_message("Subject: Grüße\n\nx".encode("cp1252"), "m").title == "Grüße"


@pytest.mark.parametrize(
    "date",
    [
        "",
        "yesterday",
        "Mon, 99 Foo 2024 10:00",
        "Mon, 01 Jan 99999999999999999999 10:00:00 +0000",
        "1 Jan 1890 10:00:00 +0000",
        "Mon, 01 Jan 2024 10:00:00 +99999999999999999999999",
    ],
)
def test_a_wrong_date_is_none(date):
    assert mail_of(f"Subject: a\nDate: {date}\n\nx").date is None


def test_a_message_without_subject_has_the_name_of_its_file():
    assert mail_of("From: a@b\n\nx").title == "message.eml"


def test_content_without_fields_is_a_body():
    assert mail_of("hello there\n\nFrom: nobody\n").body == "hello there\n\nFrom: nobody"


def test_of_alternatives_the_plain_one_is_read():
    html = mail_part("text/html", "<p>rich</p>")
    assert (
        "rich"
        not in mail_of(mail_multipart("alternative", mail_part("text/plain", "poor"), html)).body
    )
    related = mail_multipart("related", html, boundary="b2")
    assert mail_of(
        mail_multipart("alternative", mail_part("text/plain", "poor"), related)
    ).body == ("poor")


def test_html_is_read_where_there_is_no_plain_text():
    html = mail_part("text/html; charset=utf-8", "<style>no</style><p>rich<p>text")
    assert mail_of(html).body == "rich\ntext"
    blank = mail_part("text/plain", " ")
    assert mail_of(mail_multipart("alternative", blank, html)).body == "rich\ntext"


def test_html_beside_plain_text_that_is_no_alternative_is_read():
    """As of a message to a mailing list, which adds a footer."""
    html, footer = mail_part("text/html", "<p>rich"), mail_part("text/plain", "footer")
    assert mail_of(mail_multipart("mixed", html, footer)).body == "rich\nfooter"
    inner = mail_multipart("mixed", html, footer, boundary="b2")
    assert mail_of(mail_multipart("mixed", inner)).body == "rich\nfooter"


def test_attachments_are_named_and_not_read():
    text = mail_of(
        mail_multipart(
            "mixed",
            mail_part("text/plain", "see the file"),
            mail_part(
                "application/pdf; name=old.pdf", "JVBERi0=", "Content-Transfer-Encoding: base64"
            ),
            mail_part(
                "text/plain",
                "secret",
                "Content-Disposition: attachment; filename*=utf-8''%C3%A9t%C3%A9.txt",
            ),
            mail_part("image/png", "....", "Content-Disposition: inline"),
        )
    )
    assert text.body == "see the file\nAttachment: old.pdf\nAttachment: été.txt"


def test_a_forwarded_message_is_read():
    inner = "Subject: inner\nFrom: x\n\nforwarded words"
    text = mail_of(
        mail_multipart("mixed", mail_part("text/plain", "see"), mail_part("message/rfc822", inner))
    )
    assert text.body == "see\nforwarded words"


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("quoted-printable", "caf=E9 =\nau=20lait =XX ="),
        ("QUOTED-PRINTABLE", "caf=E9 au lait =XX ="),
        ("8bit", "caf\xe9 au lait =XX ="),
        ("base64", base64.b64encode(b"caf\xe9 au lait =XX =").decode()),
        ("base64", base64.b64encode(b"caf\xe9 au lait =XX =").decode().rstrip("=") + "\n?!\n"),
        ("no-such", "caf\xe9 au lait =XX ="),
    ],
)
def test_transfer_encodings_are_undone_also_where_they_are_broken(encoding, content):
    fields = f"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: {encoding}"
    text = read_message(f"{fields}\n\n{content}".encode("latin-1"), "m")
    assert text.body.startswith("café au lait =XX")


@pytest.mark.parametrize(
    "charset", ["no-such", "rot13", "idna", "unicode_escape", "", '"', "\x01"]
)
def test_a_wrong_charset_is_not_believed(charset):
    text = read_message(
        f"Content-Type: text/plain; charset={charset}\n\ncafé \\u0041".encode(), "m"
    )
    assert text.body == "café \\u0041"


def test_a_letter_of_base64_too_much_is_left_out():
    assert mail_of("Content-Transfer-Encoding: base64\n\nYWJjZ").body == "abc"


def test_a_message_that_was_cut_is_read_as_far_as_it_goes():
    whole = mail_multipart(
        "mixed", mail_part("text/plain", "first"), mail_part("text/plain", "second")
    )
    assert mail_of(whole[: whole.index("ond\n")]).body == "first\nsec"


def test_a_boundary_must_be_a_whole_line():
    text = mail_of(mail_multipart("mixed", mail_part("text/plain", "a\n--b1x\nx --b1\nb")))
    assert text.body == "a\n--b1x\nx --b1\nb"


def test_thousands_of_nested_parts_are_harmless():
    deepest = mail_part("text/plain", "unreachable")
    shallow = mail_part("text/plain", "reachable")
    opened = "".join(
        f"Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n" for i in range(5000)
    )
    text = mail_of(f"Subject: deep\n{opened}{deepest}")
    assert (text.title, text.body) == ("deep", "")
    nested = shallow
    for i in range(DEEPEST - 1):
        nested = mail_multipart("mixed", nested, boundary=f"b{i}")
    assert mail_of(nested).body == "reachable"
    for i in range(DEEPEST - 1, DEEPEST + 2):
        nested = mail_multipart("mixed", nested, boundary=f"b{i}")
    assert mail_of(f"Subject: s\n{nested}").body == ""


def test_thousands_of_parts_are_cut():
    text = mail_of(mail_multipart("mixed", *[mail_part("text/plain", "word")] * 5000))
    assert MOST_PARTS - 10 < text.body.count("word") <= MOST_PARTS
    inner = mail_multipart("mixed", *[mail_part("text/plain", "word")] * 100, boundary="b2")
    assert mail_of(mail_multipart("mixed", *[inner] * 100)).body.count("word") <= MOST_PARTS


def test_thousands_of_forwards_in_each_other_are_harmless():
    text = mail_of("Subject: top\n" + "Content-Type: message/rfc822\n\n" * 5000 + "\nend")
    assert text.title == "top"


def test_fields_of_megabytes_are_harmless():
    long = "a" * 3_000_000
    text = mail_of(
        f"Subject: {long}\nTo: {'x@y, ' * 500_000}\nX-A: {'=?utf-8?q?' * 300_000}\n\nbody"
    )
    assert text.title.startswith("aaa") and len(text.title) <= 300
    many = mail_of(f"{'Received: x' * 1}\n" + "Subject: s\n" * 300_000 + "\nbody")
    assert (many.title, many.body) == ("s", "body")
    folded = mail_of("Subject: a\n" + " b\n" * 500_000 + "\nbody")
    assert folded.title.startswith("a b b") and folded.body == "body"


def test_parameters_of_kilobytes_are_harmless():
    for value in (
        "; a=b" * 1000,
        '; a="' * 1000,
        "; name*0*=x" * 500,
        '; boundary="' + "x" * 1900,
    ):
        assert_mail_is_sound(mail_of(f"Subject: s\nContent-Type: multipart/mixed{value}\n\nbody"))


def test_a_part_that_claims_to_be_huge_is_as_long_as_it_is():
    fields = "Content-Length: 99999999999999\nContent-Type: text/plain; size=99999999999\n"
    assert mail_of(f"{fields}\nsmall").body == "small"


def test_a_long_text_is_cut():
    text = mail_of("Subject: s\n\n" + "x" * 3_000_000)
    assert text.cut and MOST_CHARACTERS - 10 < len(text.body) <= MOST_CHARACTERS


@given(st.binary(max_size=600))
def test_any_bytes_are_a_message(data):
    try:
        with parsing():
            assert_mail_is_sound(read_message(data, "m.eml"))
    except Unread as error:
        assert error.reason == "empty"


MAIL_PIECES = st.sampled_from(
    [
        *("Subject: ", "From: ", "Date: ", "Content-Type: ", "multipart/mixed; boundary=", "\n"),
        *("text/html", "text/plain", "message/rfc822", "multipart/alternative", "; charset=", '"'),
        *("Content-Transfer-Encoding: base64\n", "Content-Disposition: attachment", "; filename="),
        *("filename*0*=utf-8''%", "\n\n", "--b", "--", "b", "=?utf-8?q?", "?=", "=", "\x00", "é"),
        *(
            "<p>x",
            "\r\n",
            " ",
            "\t",
            ":",
            ";",
            "Mon, 1 Jan 2024 ",
            "99999",
            "-",
            "\ud800",
            "*1=''",
        ),
    ]
)


@given(st.lists(MAIL_PIECES, max_size=40).map("".join))
def test_any_pieces_of_a_message_are_read(text):
    try:
        assert_mail_is_sound(read_message(text.encode("utf-8", "surrogatepass"), "m.eml"))
    except Unread as error:
        assert error.reason == "empty"
