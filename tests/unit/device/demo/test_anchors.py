"""Queries from the hyperlinks of manuals."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.device.demo import anchors
from foltr.device.demo.anchors import Link, links_between, queries_from, query_text


def linked_pages(folder: Path, **bodies: str) -> list[Path]:
    """Pages of these names; of each, the body."""
    for name, body in bodies.items():
        place = folder / f"{name.replace('__', '/')}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return sorted(folder.rglob("*.html"))


def link_html(target: str, text: str, more: str = "") -> str:
    return f'<p>Text <a {more} href="{target}">{text}</a> text.</p>'


def anchor_queries(pages, most_per_target=3, seed=0):
    return queries_from(links_between(pages), pages, most_per_target, seed)


def found_queries(pages: list[Path], **options: int) -> dict[str, dict[str, int]]:
    """Queries and the names of their relevant pages."""
    return {
        query.text: {page.stem: grade for page, grade in query.relevant.items()}
        for query in anchor_queries(pages, **options)
    }


def test_the_text_of_a_link_is_a_query_for_its_target(tmp_path):
    pages = linked_pages(tmp_path, a=link_html("b.html", "How  rows\n are <b>locked</b>"), b="")
    assert found_queries(pages) == {"how rows are locked": {"b": 2}}
    assert [link.text for link in links_between(pages)] == ["How rows are locked"]


def test_one_text_with_two_targets_is_one_query_and_most_links_decide_the_grade(tmp_path):
    to_b, to_c = link_html("b.html", "Row locks"), link_html("c.html", "row locks")
    pages = linked_pages(tmp_path, a=to_b + to_b, d=to_c, e=to_c, b="", c="")
    # two links on one page are one vote
    assert found_queries(pages) == {"row locks": {"b": 1, "c": 2}}


def test_with_equal_votes_the_first_path_has_the_higher_grade(tmp_path):
    body = link_html("c.html", "row locks") + link_html("b.html", "row locks")
    assert found_queries(linked_pages(tmp_path, a=body, b="", c="")) == {
        "row locks": {"b": 2, "c": 1}
    }


@pytest.mark.parametrize(
    "address",
    [
        "sub/my page.html",
        "sub/my%20page.html",
        "./sub/../sub/my%20page.html#place",
        "sub/my%20page.html?from=a#place",
        "SUB/My%20Page.HTML",
        " sub/my%20page.html ",
        "alias.html",
        "sub/my%20page.html.gz",
    ],
)
def test_an_address_is_found_in_all_its_forms(tmp_path, address):
    pages = linked_pages(tmp_path, **{"a": link_html(address, "row locks"), "sub__my page": ""})
    (tmp_path / "alias.html").symlink_to("sub/my page.html")
    assert found_queries(pages) == {"row locks": {"my page": 2}}


def test_the_address_of_a_folder_is_its_first_page(tmp_path):
    pages = linked_pages(tmp_path, a=link_html("sub/", "row locks"), sub__index="")
    assert found_queries(pages) == {"row locks": {"index": 2}}


def test_addresses_are_relative_to_the_base_of_a_page(tmp_path):
    body = '<base href="../">' + link_html("b.html", "row locks")
    assert found_queries(linked_pages(tmp_path, sub__a=body, b="", sub__b="")) == {
        "row locks": {"b": 2}
    }
    assert len(list(tmp_path.rglob("b.html"))) == 2


def test_pages_that_differ_in_case_alone_are_found_by_their_exact_names(tmp_path):
    pages = linked_pages(tmp_path, a=link_html("B.html", "row locks"), b="", B="")
    if len(pages) == 3:  # not every file system has both
        assert found_queries(pages) == {"row locks": {"B": 2}}
        linked_pages(tmp_path, a=link_html("b.HTML", "row locks"))
        assert found_queries(pages) == {}


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/b.html",
        "//example.org/b.html",
        "mailto:b.html",
        "javascript:b.html",
        "missing.html",
        "../b.html",
        "a.html",
        "#b.html",
        "",
        "%00b.htm",
        "b.html%00/x",
    ],
)
def test_links_to_the_page_itself_or_out_of_the_manual_make_no_query(tmp_path, address):
    pages = linked_pages(tmp_path, a=link_html(address, "row locks"), b="")
    assert found_queries(pages) == {}


@pytest.mark.parametrize(
    "around",
    [
        "<nav>{}</nav>",
        "<header><div>{}</div></header>",
        "<footer>{}</footer>",
        "<aside>{}</aside>",
        "<div role='navigation'>{}</div>",
        "<div class='sphinxsidebar wide'><ul><li>{}</li></ul></div>",
        "<ol class='breadcrumb'>{}</ol>",
        "<div class='navheader'>{}</div>",
        "<div id='sidebar'>{}</div>",
        "<div class='toc'><dl>{}</dl></div>",
        "<div class='toctree-wrapper compound'>{}</div>",
        "<pre>{}</pre>",
    ],
)
def test_links_of_navigation_and_code_make_no_query(tmp_path, around):
    body = around.format(link_html("b.html", "row locks")) + link_html("b.html", "page locks")
    assert found_queries(linked_pages(tmp_path, a=body, b="")) == {"page locks": {"b": 2}}


@pytest.mark.parametrize(
    "more",
    [
        'rel="next"',
        'rel="nofollow Prev"',
        'rel="up"',
        'accesskey="n"',
        'class="left-prev"',
        'class="headerlink"',
    ],
)
def test_links_that_say_they_find_the_way_make_no_query(tmp_path, more):
    pages = linked_pages(tmp_path, a=link_html("b.html", "row locks", more), b="")
    assert found_queries(pages) == {}


def test_classes_that_only_contain_the_name_of_navigation_do_not_count(tmp_path):
    body = f"<div class='withsidebar navy' id='toc1'>{link_html('b.html', 'row locks')}</div>"
    assert found_queries(linked_pages(tmp_path, a=body, b="")) == {"row locks": {"b": 2}}


def test_a_link_that_is_code_as_a_whole_makes_no_query(tmp_path):
    whole = link_html("b.html", "<code><span>malloc</span></code>")
    part = link_html("b.html", "calls of <code>malloc</code>")
    pages = linked_pages(tmp_path, a=whole + part, b="")
    assert found_queries(pages) == {"calls of malloc": {"b": 2}}


def test_a_link_that_nearly_all_pages_have_is_a_menu(tmp_path):
    menu, rare = link_html("b.html", "row locks"), link_html("b.html", "page locks")
    bodies = {f"p{n}": menu + (rare if n < 5 else "") for n in range(30)}
    assert found_queries(linked_pages(tmp_path, b="", **bodies)) == {"page locks": {"b": 2}}


def test_a_text_that_leads_to_many_pages_says_too_little(tmp_path):
    targets = {f"t{n}": "" for n in range(anchors.MOST_TARGETS + 1)}
    body = "".join(link_html(f"{name}.html", "row locks") for name in targets)
    assert found_queries(linked_pages(tmp_path, a=body, **targets)) == {}
    fewer = "".join(link_html(f"{name}.html", "row locks") for name in list(targets)[1:])
    found = found_queries(linked_pages(tmp_path, a=fewer))
    assert len(found["row locks"]) == anchors.MOST_TARGETS


def many_links(folder: Path) -> list[Path]:
    words = "alpha beta gamma delta epsilon zeta theta kappa lambda sigma".split()
    body = "".join(
        link_html(f"{target}.html", f"{word} locks") for word in words for target in "b"
    )
    body += "".join(link_html("c.html", f"{word} keys") for word in words)
    body += link_html("b.html", "shared words") + link_html("c.html", "shared words")
    return linked_pages(folder, a=body, b="", c="")


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_no_page_is_relevant_for_more_queries_than_allowed(tmp_path, most, seed):
    queries = anchor_queries(many_links(tmp_path), most, seed)
    times = [page.stem for query in queries for page in query.relevant]
    assert {times.count("b"), times.count("c")} == {most}


def test_the_seed_decides_queries_and_order(tmp_path):
    pages = many_links(tmp_path)
    first = anchor_queries(pages, 3, seed=1)
    assert anchor_queries(pages, 3, seed=1) == first
    assert len({tuple(q.text for q in anchor_queries(pages, 3, seed)) for seed in range(6)}) > 3
    everything = anchor_queries(pages, 100, seed=1)
    assert len(everything) == 21
    assert [query.text for query in everything] != sorted(query.text for query in everything)


def test_the_order_does_not_depend_on_where_the_manual_is(tmp_path):
    here, there = many_links(tmp_path / "a"), many_links(tmp_path / "b")
    assert list(found_queries(here)) == list(found_queries(there))


def test_at_least_one_query_per_page_must_be_allowed():
    with pytest.raises(Mistake, match="most_per_target must be 1 or more, got 0"):
        anchor_queries([], 0)


def test_a_page_that_is_gone_has_no_links(tmp_path):
    pages = linked_pages(tmp_path, a=link_html("b.html", "row locks"), b="")
    (tmp_path / "a.html").unlink()
    assert found_queries(pages) == {}


def test_a_page_in_another_encoding_is_read(tmp_path):
    pages = linked_pages(tmp_path, a="", b="")
    text = "<meta charset='iso-8859-1'>" + link_html("b.html", "the café")
    (tmp_path / "a.html").write_bytes(text.encode("iso-8859-1"))
    assert found_queries(pages) == {"the café": {"b": 2}}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("How Rows Are Locked", "how rows are locked"),
        ("5.4. Constraints", "constraints"),
        ("Section 5.4, “Row locks”", "row locks"),
        ("Appendix C, Glossary of terms", "glossary of terms"),
        ("Table Access Methods", "table access methods"),
        ("x86 boot", "x86 boot"),
        ("Server Side Includes (SSI)", "server side includes ssi"),
        ("Format - Line", "format line"),
        ("the user\u2019s manual", "the user's manual"),
        ("GNU make", "gnu make"),
        ("PostgreSQL locks", "postgresql locks"),
        ("replication.", "replication"),
        ("client/server mode", "client/server mode"),
    ],
)
def test_texts_are_normalised(text, query):
    assert query_text(text) == query


IDENTIFIER_TEXTS = """
    foo_bar foo() printf(3) os.path CamelCase QString EXIT_FAILURE SELECT readme.txt /etc/passwd
    admin/mm/zram --verbose -v +x std::map a->b $HOME x[1] utf8 fb/udlfb key=value
    """.split()
OTHER_TEXTS = """
    the foo() call, CREATE TABLE, , 12, 5.4, Section 5.4, (Section 5.4), Chapter 71, Appendix C,
    2001-02-03, ++ 12 ab, …, a, C, I/O, a b c, here, this page, See above, the next section,
    click here, more information, Contents, Index, Home, next, Previous: Row locks, Next page,
    back to locks, one two three four five six seven eight nine
    """.split(",")


@pytest.mark.parametrize("text", [*IDENTIFIER_TEXTS, *OTHER_TEXTS])
def test_texts_that_nobody_searches_for_are_refused(text):
    assert query_text(text) == ""


@given(st.text())
def test_a_query_has_single_spaces_few_words_and_no_capitals(text):
    query = query_text(text)
    assert query == query.lower() and query.split(" ") == (query.split() or [""])
    assert len(query.split()) <= anchors.MOST_WORDS


@given(st.binary() | st.text().map(lambda text: f'<a href="{text}">row locks</a>'.encode()))
def test_any_bytes_are_a_page(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("pages")
    pages = [folder / "a.html", folder / "b.html"]
    pages[0].write_bytes(content)
    pages[1].write_bytes(b"")
    assert all(set(query.relevant) <= set(pages) for query in anchor_queries(pages))


def test_without_the_extra_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(Mistake, match=r"pip install 'foltr\[device\]'"):
        anchor_queries(linked_pages(tmp_path, a=""))


def test_two_pages_must_agree_if_one_link_is_not_enough():
    pages = [Path(f"/m/{name}.html") for name in "abcd"]
    links = [Link("Slow queries", 0, 3), Link("slow queries", 1, 3), Link("fast queries", 0, 2)]
    both = queries_from(links, pages)
    agreed = queries_from(links, pages, least_links=2)
    assert {query.text for query in both} == {"slow queries", "fast queries"}
    assert [query.text for query in agreed] == ["slow queries"]
