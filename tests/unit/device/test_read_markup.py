"""HTML and Markdown as text, friendly and hostile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.device.content import MOST_CHARACTERS, Text, Unread
from foltr.device.read_text import (
    FEW_TAGS,
    MOST_ATTRIBUTES,
    MOST_TAGS,
    _parsed,
    read_html,
    read_markdown,
)


def html_page(body: str, head: str = "") -> Text:
    return read_html(f"<html><head>{head}</head><body>{body}</body></html>".encode(), "page.html")


def markdown_page(text: str) -> Text:
    return read_markdown(text.encode(), "page.md")


def assert_markup_text_is_sound(text: Text) -> None:
    assert text.title.strip() and "\n" not in text.title
    assert len(text.body) <= MOST_CHARACTERS
    for field in (text.title, text.headings, text.body):
        field.encode("utf-8")
        assert not any(ord(c) < 32 and c not in "\n\t" for c in field)


def test_the_title_of_a_page_is_its_title_element():
    assert html_page("<h1>Heading</h1>", "<title>The\n  title &amp; more</title>").title == (
        "The title & more"
    )


def test_a_page_without_a_title_has_its_first_heading_as_title():
    assert html_page("<p>a</p><h1>First <i>one</i></h1><h1>Second</h1>").title == "First one"
    assert html_page("<h2>Lower</h2>", "<title> </title>").title == "Lower"


def test_a_page_without_title_and_headings_has_the_name_of_its_file():
    assert html_page("<p>words").title == "page.html"


def test_the_headings_of_a_page_are_one_per_line_and_part_of_its_body():
    text = html_page("<h1>One</h1><p>a<h3>Two\nlines</h3><h6>Six</h6>b")
    assert text.headings == "One\nTwo lines\nSix"
    assert text.body == "One\na\nTwo lines\nSix\nb"


def test_blocks_are_lines_and_inline_elements_are_not():
    text = html_page("<div>be<b>fo</b>re<p>in\n side</p>after <a href=x>a link</a>.</div><p>next")
    assert text.body == "before\nin side\nafter a link.\nnext"


def test_pre_keeps_its_lines_and_a_break_ends_a_line():
    text = html_page("<p>a<br>b<hr>c</p><pre>one\n<span>two</span>\n\nthree</pre>")
    assert text.body == "a\nb\nc\none\ntwo\nthree"


def test_the_cells_of_a_row_are_words_of_one_line():
    text = html_page("<table><tr><th>a<th>b<tr><td>1</td><td>2</td></tr></table>")
    assert text.body == "a b\n1 2"


def test_entities_are_characters():
    assert html_page("<p>&lt;b&gt; &eacute;&#x20ac;&nbsp;x").body == "<b> é€ x"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>alert('noise')</script>",
        "<style>noise { color: red }</style>",
        "<template><p>noise</p></template>",
        "<noscript>noise</noscript>",
        "<nav><ul><li>noise</ul></nav>",
        "<div role=navigation>noise</div>",
        "<header role='banner'>noise</header>",
        "<div role=contentinfo>noise<div>noise</div></div>",
        "<footer>noise</footer>",
        "<p hidden>noise</p>",
        "<span aria-hidden=true>noise</span>",
        "<div style='color:red;display:none'>noise</div>",
        "<svg><title>noise</title><text>noise</text></svg>",
        "<nav><nav><h1>noise</h1></nav><pre>noise</pre></nav>",
        "<!-- noise -->",
        "<img src=x onerror='noise()' alt=''>",
    ],
)
def test_what_is_no_text_or_not_shown_is_left_out(hidden):
    text = html_page(f"<p onclick='noise()'>before</p>{hidden}<p>after</p>")
    assert text.body == "before\nafter"
    assert "noise" not in text.headings + text.title


def test_a_header_with_the_heading_of_the_page_is_kept():
    assert html_page("<header><h1>Kept</h1></header><p>text").body == "Kept\ntext"


def test_the_links_that_sphinx_adds_to_headings_are_left_out():
    assert html_page("<h2>Usage<a class=headerlink href=#u>¶</a></h2>").headings == "Usage"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        ("<p>naïve €".encode(), "naïve €"),
        ("\ufeff<meta charset=latin-1><p>naïve".encode(), "naïve"),
        ("\ufeff<p>naïve".encode("utf-16-le"), "naïve"),
        ("<meta charset='windows-1251'><p>Привет".encode("windows-1251"), "Привет"),
        (
            "<META http-equiv=Content-Type content='text/html; CHARSET=Shift_JIS'>日本".encode(
                "shift_jis"
            ),
            "日本",
        ),
        ("<?xml version='1.0' encoding='iso-8859-2'?><p>Łódź".encode("iso-8859-2"), "Łódź"),
        ("<meta charset=iso-8859-1><p>“quoted”".encode("cp1252"), "“quoted”"),
        ("<p>“quoted” café".encode("cp1252"), "“quoted” café"),
        ("<meta charset=utf-8><p>café".encode("cp1252"), "café"),
        ("<meta charset=rot13><p>café".encode(), "café"),
        (b"<meta charset=unicode_escape><p>\\ud800", "\\ud800"),
        ("<meta charset=no-such><p>café".encode(), "café"),
    ],
)
def test_the_encoding_is_found(data, body):
    assert read_html(data, "page.html").body == body


def test_unclosed_and_wrongly_nested_elements_lose_no_text():
    text = html_page("<p><b>a<i>b</b>c</i><ul><li>d<li>e<table><td>f")
    assert text.body.split() == ["abc", "d", "e", "f"]
    assert read_html(b"<p>a<script>never closed", "page.html").body == "a"
    assert read_html(b"<p>a<!-- never closed", "page.html").body == "a"


def test_a_page_of_nothing_is_empty():
    with pytest.raises(Unread, match="empty"):
        read_html(b"<html><script>only()</script></html>", "page.html")


def test_what_would_be_repeated_in_every_paragraph_is_not():
    """With the rules of HTML, each paragraph would hold a copy of every element `b`."""
    opened = "".join(f"<b id={i}>" for i in range(FEW_TAGS))
    tree = _parsed(f"<p>{opened}{'<p>word' * FEW_TAGS}")
    assert tree.root is not None
    assert len(list(tree.root.traverse())) < 3 * FEW_TAGS


def test_closed_elements_are_renamed_with_their_ends():
    text = html_page("<p>a<CODE class=x>b</CODE>c <Strong>d</Strong>" * FEW_TAGS)
    assert text.body == "\n".join(["abc d"] * FEW_TAGS)


def test_only_the_first_tags_of_a_page_are_parsed():
    text = html_page("<p>x" * (2 * MOST_TAGS))
    assert text.cut
    assert MOST_TAGS - 10 < text.body.count("x") < MOST_TAGS


@pytest.mark.parametrize("form", [" a{}='>'", ' a{}="<"', "/a{}", " =a{}", " a{} = x", "\na{}"])
def test_a_long_page_with_an_element_of_countless_attributes_is_refused(form):
    crowded, usual = (
        "".join(form.format(i) for i in range(count)) for count in (20_000, MOST_ATTRIBUTES // 2)
    )
    with pytest.raises(Unread, match="damaged"):
        html_page(f"<p{crowded}>text")
    assert html_page(f"<p{usual}>text" + "<p>more words" * 9999).body.startswith("text\nmore")


def test_a_line_of_ten_million_characters_is_cut():
    text = html_page("<p>" + "word " * 2_000_000)
    assert text.cut and MOST_CHARACTERS - 10 < len(text.body) <= MOST_CHARACTERS


def test_control_characters_do_not_get_through():
    assert_markup_text_is_sound(html_page("<p>a\x00b\x01c&#1;d&#27;e&#x9f;f&#xd800;g"))


@given(st.binary(max_size=400))
def test_any_bytes_are_html(data):
    try:
        assert_markup_text_is_sound(read_html(data, "page.html"))
    except Unread as error:
        assert error.reason in ("empty", "damaged")


MARKUP_PIECES = st.sampled_from(
    "<p> </p> <b> </b> <table> <td> <pre> </pre> <template> <nav> </nav> <svg> <title> <select>"
    " <textarea> <h1> <br> <!-- --> & &#0; <frameset> <body> <plaintext> word [ ]( ) # === ``` ~~~"
    " --- +++ title: \n \r\n \t \x00 \ud800 | ** ` ! \\ <a> &amp;".split(" ")
)


@given(st.lists(MARKUP_PIECES, max_size=40).map("".join))
def test_any_pieces_of_markup_are_read(text):
    data = text.encode("utf-8", "surrogatepass")
    for read in (read_html, read_markdown):
        try:
            assert_markup_text_is_sound(read(data, "page"))
        except Unread as error:
            assert error.reason == "empty"


def test_the_title_of_markdown_is_its_first_heading():
    text = markdown_page("intro\n\n# The *first* `one` #\n\ntext\n\n## Second\n")
    assert text.title == "The *first* one"
    assert text.headings == "The *first* one\nSecond"
    assert text.body.split("\n") == ["intro", "", "The *first* one", "", "text", "", "Second"]


def test_underlined_lines_of_markdown_are_headings():
    text = markdown_page("Title\n=====\n\ntext\nSub\n---\n\n- item\n---\n\n---\n")
    assert text.headings == "Title\nSub"
    assert "=====" not in text.body and "- item" in text.body


def test_code_fences_of_markdown_are_text_and_have_no_headings():
    text = markdown_page("# Real\n```python\n# no heading\n~~~\n[kept](as is)\n```\n# Last\n")
    assert text.headings == "Real\nLast"
    assert "# no heading\n~~~\n[kept](as is)\n\nLast" in text.body
    assert "```" not in text.body


def test_a_fence_that_is_never_closed_keeps_the_text():
    assert markdown_page("````\n# a\n```\nb").body == "# a\n```\nb"


def test_links_of_markdown_are_their_texts():
    text = markdown_page(
        "a [link](http://x.org/a_(b) 'title'), ![an image](y.png), [by name][n] and\n"
        "[![badge](b.svg)](http://z), <b>bold</b> **words** a < b &amp; <https://q.org>\n\n"
        "[n]: http://hidden.org 'title'\n"
    )
    assert text.body == (
        "a link, an image, by name and\nbadge, bold words a < b & <https://q.org>"
    )


@pytest.mark.parametrize(
    "matter", ['---\ntags: x\ntitle: "Told"\n---\n', "+++\ntitle = 'Told'\n+++\n"]
)
def test_the_title_in_front_matter_comes_first(matter):
    text = markdown_page(f"{matter}# Heading\nbody")
    assert (text.title, text.headings, text.body) == ("Told", "Heading", "Heading\nbody")


def test_front_matter_that_does_not_end_is_text():
    assert markdown_page("---\ntitle: x\nbody").body == "title: x\nbody"


@pytest.mark.parametrize(
    "piece", ["[", "](", "[a](", "**", "<a", "&", "`", "# ", "#", "![", "=", " ", "\n# #", "~~~ "]
)
def test_a_long_line_of_markdown_takes_no_long_time(piece):
    text = markdown_page("word " + piece * (2 * MOST_CHARACTERS // len(piece)))
    assert text.cut and len(text.body) <= MOST_CHARACTERS


@given(st.binary(max_size=400))
def test_any_bytes_are_markdown(data):
    try:
        assert_markup_text_is_sound(read_markdown(data, "page.md"))
    except Unread as error:
        assert error.reason == "empty"
