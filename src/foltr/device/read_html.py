"""Reads HTML with selectolax, whose parser builds the tree that browsers build.

The text of a page is made by few calls into the parser: unwanted elements are removed, marks are
inserted where lines begin, and all text is taken at once. Python sees every element once, and no
text node: this takes less time than parsing.

The rules of HTML for broken pages let a small page make a huge tree, or take the parser minutes.
Three limits prevent this. The elements that the parser repeats in every later paragraph if they
are not closed (`b`, `font` and the like) get a name without a meaning, `x`, before a page is
parsed: 40 kB of them would need 5 GB of memory. Only the first MOST_TAGS tags are parsed, because
the time grows with the square of the depth. A long page with an element of hundreds of attributes
is refused, because the time grows with the square of their number."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Literal

from foltr.device.content import MOST_DECODED, Unread, decoded, decoded_as, document, is_marked
from foltr.device.text import Text
from foltr.errors import Mistake

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

Role = Literal["noise", "title", "heading", "block", "lines", "break", "cell"]

MOST_TAGS = 60_000
FEW_TAGS = 1000  # of which no more than 100 MB can be made
MOST_ATTRIBUTES = 400  # of one element, where a page is long
LONG = 2**16  # characters; what a shorter page holds takes less than a second in any case
DECLARED = 2048  # bytes in which a page names its encoding

CHARSET = re.compile(
    rb"(?:<meta[^>]{0,200}?charset|<\?xml[^>]{0,100}?encoding)\s*=\s*[\"']?\s*([\w:.-]{1,40})",
    re.IGNORECASE,
)
# The first letter is looked at first, which most tags do not pass. Not IGNORECASE, with which it
# takes longer.
REPEATED = (
    rb"(?=[BbCcEeFfIiNnSsTtUu])"
    rb"(?:[BbIiSsUu]|[Bb][Ii][Gg]|[Cc][Oo][Dd][Ee]|[Ee][Mm]|[Ff][Oo][Nn][Tt]|[Nn][Oo][Bb][Rr]"
    rb"|[Ss][Mm][Aa][Ll][Ll]|[Ss][Tt][Rr][Ii][Kk][Ee]|[Ss][Tt][Rr][Oo][Nn][Gg]|[Tt][Tt])"
    rb"(?=[\s/>])"
)
OPENED, CLOSED = re.compile(b"<" + REPEATED), re.compile(b"</" + REPEATED)
ATTRIBUTE = r"[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+))?+"
CROWDED = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:[\s/]*+{ATTRIBUTE}){{{MOST_ATTRIBUTES}}}")

# what every page of a site repeats, or what is not shown
REPETITION = (
    "body>footer,[role=navigation],[role=banner],[role=contentinfo],[role=search],[hidden],"
    "[aria-hidden=true],[style*='display:none'],[style*='display: none'],a.headerlink"
)
ELEMENTS: dict[Role, str] = {
    "noise": "script style template noscript iframe object svg select button nav",
    "title": "title",
    "heading": "h1 h2 h3 h4 h5 h6",
    "block": "address article aside blockquote caption center dd details dialog dir div dl dt"
    " fieldset figcaption figure footer form header hgroup legend li main menu ol p section"
    " summary table tr ul",
    "lines": "pre textarea listing xmp plaintext",
    "break": "br hr",
    "cell": "td th",
}
ROLES = {tag: role for role, tags in ELEMENTS.items() for tag in tags.split()}
LINE = "\x01"  # marks where a line begins; a page that has this character gets one line more


def read_html(data: bytes, name: str) -> Text:
    """The document of an HTML file."""
    title, headings, body, cut = html_text(html_decoded(data))
    return document("html", name, title, headings, body, cut=cut or len(data) > MOST_DECODED)


def html_decoded(data: bytes) -> str:
    """By the byte order mark, else as the page says, else as UTF-8 or cp1252."""
    declared = None if is_marked(data) else CHARSET.search(data[:DECLARED])
    return decoded_as(data, declared.group(1).decode()) if declared else decoded(data)


def html_text(html: str) -> tuple[str, list[str], str, bool]:
    """The title, the headings and the text of a page, and whether it was cut."""
    page, cut = _first_tags(html)
    if len(page) > LONG and CROWDED.search(page):
        raise Unread("damaged")
    tree = _parsed(page)
    nodes = _by_role(tree)
    headings = [node.text_lexbor() for node in nodes["heading"]]
    titles = [node.text_lexbor() for node in nodes["title"][:1]]
    title = next(filter(str.strip, [*titles, *headings]), "")
    return title, headings, _lines(tree, nodes), cut


def _first_tags(html: str) -> tuple[str, bool]:
    if html.count("<") <= MOST_TAGS:
        return html, False
    (beyond,) = islice(re.finditer("<", html), MOST_TAGS, MOST_TAGS + 1)
    return html[: beyond.start()], True


def _parsed(html: str) -> LexborHTMLParser:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise Mistake("HTML is read with selectolax: pip install 'foltr[device]'") from None
    page = html.encode("utf-8", "replace")  # patterns take longer on text beyond Latin-1
    if page.count(b"<") > FEW_TAGS:
        page = CLOSED.sub(b"</x", OPENED.sub(b"<x", page))
    return LexborHTMLParser(page)


def _by_role(tree: LexborHTMLParser) -> dict[Role, list[LexborNode]]:
    """Removes what is no text, and gives the other elements that matter, in their order."""
    nodes: dict[Role, list[LexborNode]] = {role: [] for role in ELEMENTS}
    for node in tree.css(REPETITION):
        node.decompose()
    for node in tree.root.traverse() if tree.root else ():
        if role := ROLES.get(node.tag or ""):
            nodes[role].append(node)
    for node in nodes["noise"]:
        node.decompose()
    # what was inside of something removed has no parent now
    return {role: [node for node in found if node.parent] for role, found in nodes.items()}


def _lines(tree: LexborHTMLParser, nodes: dict[Role, list[LexborNode]]) -> str:
    """The text of a page. An element that is a block of its own is a line; `pre` keeps its lines;
    the cells of a row are one line."""
    for node in nodes["block"] + nodes["heading"]:
        node.insert_before(LINE)
        node.insert_after(LINE)
    for node in nodes["cell"]:
        node.insert_before(" ")
    for node in nodes["break"]:
        node.insert_before(LINE)
    for node in nodes["lines"]:
        node.replace_with(LINE + node.text_lexbor().replace("\n", LINE) + LINE)
    root = tree.body or tree.root
    text = root.text_lexbor() if root else ""
    return "\n".join([" ".join(words) for line in text.split(LINE) if (words := line.split())])
