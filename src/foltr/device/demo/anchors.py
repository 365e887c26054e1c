"""Queries with known answers, from the hyperlinks between the pages of a manual.

The text of a link is a query, and the pages that it leads to are relevant: an author who writes
"how rows are locked" names a page in other words than the page does itself. Links that nobody
wrote by hand are left out: menus, tables of contents, the next and the previous page, and links
that nearly all pages have. Texts that nobody would search for are left out as well: identifiers,
numbers, and words such as "here"."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from foltr.core.errors import Mistake, require
from foltr.device.read_text import html_decoded

MOST_WORDS = 8
MOST_TARGETS = 5  # a text that leads to more pages says too little
# A link with one text and one target on more pages than this is part of a menu.
MOST_SHARE, MENU_PAGES = 0.15, 20

# What holds links that no author wrote, as Sphinx, DocBook, Texinfo, Doxygen, gtk-doc and the
# themes of single projects have it; and code, whose links are identifiers.
TAGS = frozenset("nav header footer aside code tt pre samp kbd".split())
ROLES = frozenset("navigation banner contentinfo search".split())
NAMES = frozenset(  # classes and ids
    """
    nav navbar navheader navfooter navigation navigation-container navpanel nav-panel nav_table
    t-navbar navset leftnav topnav docnav docs-top-navigation docs-narrow-top-navigation sidebar
    sphinxsidebar sidebarcontainer docs-sidebar fixed-sidebar related breadcrumb breadcrumbs
    wy-breadcrumbs menu dropdown-menu header footer top page-path langs quickview qtdocheader toc
    toctree-wrapper globaltoc localtoc tocset tocframe sectiontoc shortcontents chlinktop chlinkbot
    chapterindex sectionindex index indextable genindextable indexdiv
    """.split()
)
CODE = "code, tt, samp, kbd"
# Links that find the way: by their relation, their class, or how their text begins.
RELATIONS = frozenset(
    "next prev previous up start top home contents index search help first last".split()
)
WAY_CLASS = re.compile(r"\b(next|prev|previous)\b")
WAY = re.compile(r"(next|prev|previous|up)\b|(back|forward|return|go) to\b", re.IGNORECASE)
OWN_CLASSES = frozenset("headerlink toc-backref doc-backlink permalink selflink indexterm".split())

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
QUOTES = re.compile('["`“”„«»¶]')
BRACKETS = re.compile(r"[()\[\]]")
EDGES = ".,;:!?'\u2018…§→←↑\u2013—-*•|/"  # \u2018 opens a quotation, \u2013 is a dash
# "Section 5.4, Constraints", "5.4. Constraints", "A.2 Constraints"
NUMBERED = re.compile(
    r"^((?i:section|chapter|appendix|part|table|figure|example|step|note|item|annex)\s+"
    r"(\d[\w.-]*|[A-Z](\.\d[\w.-]*)?)|\d+([.-]\d+)*|[A-Z](\.\d+)+|[IVX]+[.:)])[.:,)]?(\s+|$)"
)
IDENTIFIER = re.compile(
    r"_|\w[(\[]|::|->|[A-Za-z]\w*\.[A-Za-z]|\w:\w|^[-+/.]+\w|/.*/|[$@\\<>={}|~^*%&#]"
)
CAMEL = re.compile(r"[a-z]\d*[A-Z]|[A-Z]{2,}[a-z]{2}")
NO_WORD = re.compile(r"\d|/")
WORD = re.compile(r"[^\W\d_]{3}")
# A text that has only such words names no subject.
IDLE = frozenset(
    """
    a above after all also an and another any are as at back before begin beginning below bottom
    by can chapter click closer complete contents continue description detail details direct
    discussion document documentation documents download earlier edit elsewhere end entry example
    examples explained figure file first following for forward from full further glossary go guide
    here his home how html i if in index info information instructions introduction is it its last
    later learn licence license link links list listing local look main man manual manuals me menu
    more my new next no not note notes now of official on one online onwards or original other our
    overview page pages paragraph part pdf permalink please prev previous read readme reference
    references refer related report return same search section sections see show site so some
    source start step subsection such summary table text that the their them then there these they
    this to toc top topic topics tutorial under up us use version via view was we web website were
    what when where which who why will with you your
    """.split()
)


@dataclass(frozen=True)
class AnchorQuery:
    """A query and its relevant pages.

    Fields
        text: in lower case, with single spaces
        relevant: the pages that links with this text lead to; 2 for the one that most links lead
            to, 1 for the others"""

    text: str
    relevant: Mapping[Path, int]


@dataclass(frozen=True)
class Link:
    """A link from one page of a manual to another."""

    text: str  # as it is written, with single spaces
    source: int  # number of the page that has it
    target: int  # number of the page that it leads to


def links_between(pages: Sequence[Path]) -> list[Link]:
    """The links that the pages have to each other, without links of navigation."""
    known = _Known(pages)
    return [link for number in range(len(pages)) for link in _links_of(number, known)]


def queries_from(
    links: Iterable[Link],
    pages: Sequence[Path],
    most_per_target: int = 3,
    seed: int = 0,
    least_links: int = 1,
) -> list[AnchorQuery]:
    """The queries that `links` between `pages` make, in an order that only `seed` and the queries
    themselves decide. No page is relevant for more than `most_per_target` of them, so that pages
    with many links do not outweigh the others. At least `least_links` pages must link with a text
    to one page: two that agree are better evidence than one."""
    require(most_per_target >= 1, f"most_per_target must be 1 or more, got {most_per_target}")
    room = Counter({number: most_per_target for number in range(len(pages))})
    found = []
    targets_of = _targets(links, len(pages))
    for text in sorted(targets_of, key=lambda text: _shuffled(text, seed)):
        targets = targets_of[text]
        if max(targets.values(), default=0) < least_links:
            continue
        if len(targets) > MOST_TARGETS or any(room[target] == 0 for target in targets):
            continue
        room.subtract(targets.keys())
        best = min(targets, key=lambda target: (-targets[target], str(pages[target])))
        relevant = {pages[target]: 2 if target == best else 1 for target in sorted(targets)}
        found.append(AnchorQuery(text, relevant))
    return found


def _targets(links: Iterable[Link], pages: int) -> dict[str, dict[int, int]]:
    """For each query, how many pages link to each of its targets."""
    sources: dict[tuple[str, int], set[int]] = defaultdict(set)
    cleaned: dict[str, str] = {}
    for link in links:
        if link.text not in cleaned:
            cleaned[link.text] = query_text(link.text)
        if text := cleaned[link.text]:
            sources[text, link.target].add(link.source)
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for (text, target), linking in sources.items():
        if len(linking) <= max(MENU_PAGES, MOST_SHARE * pages):
            found[text][target] = len(linking)
    return found


def _shuffled(text: str, seed: int) -> bytes:
    return blake2b(f"{seed} {text}".encode(errors="replace"), digest_size=8).digest()


def query_text(anchor: str) -> str:
    """The query that the text of a link is, or "" if nobody would search for it."""
    text = " ".join(QUOTES.sub(" ", anchor.replace("\u2019", "'")).split())
    text = NUMBERED.sub("", text.lstrip("(§\u2018 "))
    if any(map(IDENTIFIER.search, text.split())) or WAY.match(text):
        return ""
    words = [word.strip(EDGES) for word in BRACKETS.sub(" ", text).split()]
    words = [word for word in words if word]
    if not 0 < len(words) <= MOST_WORDS:
        return ""
    if all(map(_is_name, words)) or all(word.lower() in IDLE for word in words):
        return ""
    letters = "".join(words)
    if not any(map(WORD.search, words)) or sum(map(str.isalpha, letters)) < 0.7 * len(letters):
        return ""
    return " ".join(words).lower()


def _is_name(word: str) -> bool:
    """Whether a word alone looks like a name: camelCase, CAPITALS, with digits, part of a path."""
    return word.isupper() or bool(CAMEL.search(word)) or bool(NO_WORD.search(word))


@dataclass
class _Known:
    """The pages of a manual, found by the address of a link."""

    pages: Sequence[Path]
    paths: list[str] = field(init=False)
    _exact: dict[str, int] = field(init=False)
    _folded: dict[str, int | None] = field(init=False)  # None: several differ in case alone
    _resolved: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = [os.path.abspath(page) for page in self.pages]
        self._exact = {os.path.realpath(path): n for n, path in enumerate(self.paths)}
        self._exact |= {path: n for n, path in enumerate(self.paths)}
        self._folded = {}
        for number, path in enumerate(self.paths):
            alone = path.lower() not in self._folded
            self._folded[path.lower()] = number if alone else None

    def number(self, folder: str, address: str) -> int | None:
        """The page at an address that is relative to a folder; None if there is none."""
        key = folder, address
        if key not in self._resolved:
            self._resolved[key] = self._looked_up(folder, unquote(address).replace("\0", ""))
        return self._resolved[key]

    def _looked_up(self, folder: str, address: str) -> int | None:
        path = os.path.normpath(os.path.join(folder, address))
        for name in (path, f"{path}{os.sep}index.html", path.removesuffix(".gz")):
            if name in self._exact:
                return self._exact[name]
        if os.path.islink(path):  # another name of a page
            return self._exact.get(os.path.realpath(path))
        return self._folded.get(path.lower())


def _links_of(number: int, known: _Known) -> Iterator[Link]:
    tree = _parsed(known.pages[number])
    folder = os.path.dirname(known.paths[number])
    if (base := tree.css_first("base[href]")) is not None:
        address = _path_of(base.attributes.get("href"))
        folder = os.path.normpath(os.path.join(folder, unquote(address).replace("\0", "")))
    inside: dict[int, bool] = {}
    for node in tree.css("a[href]"):
        attributes = node.attributes
        if not (address := _path_of(attributes.get("href"))):
            continue
        target = known.number(folder, address)
        if target is None or target == number or _is_way(attributes):
            continue
        if not _is_navigation(node.parent, inside) and not _is_code(node):
            yield Link(" ".join(node.text().split()), number, target)


def _is_navigation(node: Any, inside: dict[int, bool]) -> bool:
    """Whether an element is a part of navigation or of code. `inside` has what is known of the
    page's elements; most links share theirs."""
    passed = []
    while node is not None and node.mem_id not in inside and not _is_container(node):
        passed.append(node.mem_id)
        node = node.parent
    found = node is not None and inside.get(node.mem_id, True)
    inside.update(dict.fromkeys(passed, found))
    return found


def _is_container(node: Any) -> bool:
    if node.tag in TAGS:
        return True
    attributes = node.attributes
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}".split()
    return not NAMES.isdisjoint(names) or attributes.get("role") in ROLES


def _path_of(href: str | None) -> str:
    """The path of a relative address; "" if it leads elsewhere, or to a place on the same page."""
    if not href or SCHEME.match(href := href.strip()):
        return ""
    return href.partition("#")[0].partition("?")[0]


def _is_way(attributes: Mapping[str, str | None]) -> bool:
    """Whether a link says of itself that it is for finding the way."""
    relation = (attributes.get("rel") or "").lower().split()
    if "accesskey" in attributes or not RELATIONS.isdisjoint(relation):
        return True
    classes = attributes.get("class") or ""
    return bool(WAY_CLASS.search(classes)) or not OWN_CLASSES.isdisjoint(classes.split())


def _is_code(node: Any) -> bool:
    """Whether the whole text of a link is set as code."""
    first = node.css_first(CODE)
    return first is not None and len(first.text().strip()) >= len(node.text().strip())


def _parsed(page: Path) -> Any:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise Mistake("reading HTML needs selectolax: pip install 'foltr[device]'") from None
    try:
        return LexborHTMLParser(html_decoded(page.read_bytes()))
    except OSError:  # removed in the meantime
        return LexborHTMLParser("")
