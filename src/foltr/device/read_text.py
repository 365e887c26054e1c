"""Reads files that are text as they are: plain text, data, logs, source code, and markup whose
headings one regular expression finds (reStructuredText, AsciiDoc, Org, LaTeX, Texinfo).

The headings of source code are the names that it defines. They are found by regular expressions
that work on one line: a definition that is missed is still in the body."""

from __future__ import annotations

import re
from html import unescape
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING

from foltr.core.errors import Mistake
from foltr.device.content import (
    MOST_CHARACTERS,
    MOST_DECODED,
    Text,
    Unread,
    decoded,
    decoded_as,
    document,
    is_marked,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

NAME = r"[^\W\d]\w*"
# `def name`, `export async function name`, `pub(crate) fn name`, `public static class Name`
KEYWORD = re.compile(
    r"^[ \t]{0,40}(?:(?:export|default|async|public|private|protected|internal|static|abstract"
    r"|final|sealed|partial|data|open|override|virtual|unsafe|extern|const|inline|local|pub"
    r"(?:\([a-z]+\))?)[ \t]+){0,5}"
    r"(?:def|class|function|func|fun|fn|sub|struct|enum|union|interface|trait|protocol|module"
    r"|namespace|type|record|object|macro_rules!|defmodule|defp|package|procedure)[ \t]*\*?[ \t]+"
    rf"(?:\([^()\n]{{0,80}}\)[ \t]*)?(?:self\.)?({NAME})",
    re.MULTILINE,
)
# `static int name(`, at the begin of a line; or a method with modifiers, as in Java and C#
C_LIKE = re.compile(
    r"^(?:[ \t]{1,16}(?=public|private|protected|static|internal|virtual|override))?"
    r"(?!(?:else|return|typedef|if|for|while|switch|using|new|throw|delete|goto|case)\b)"
    rf"(?:[\w:<>,\[\]]{{1,80}}[ \t*&]{{1,4}}){{1,6}}?({NAME})[ \t]?\((?![^\n]{{0,200}};[ \t]*$)",
    re.MULTILINE,
)
ARROW = re.compile(
    rf"^[ \t]{{0,16}}(?:export[ \t]+)?(?:const|let|var)[ \t]+({NAME})[ \t]*=[ \t]*"
    r"(?:async[ \t]*)?(?:function\b|\([^()\n]{0,200}\)[ \t]*=>|\w+[ \t]*=>)",
    re.MULTILINE,
)
SHELL = re.compile(rf"^[ \t]{{0,16}}(?:function[ \t]+)?({NAME})[ \t]*\(\)", re.MULTILINE)
SQL = re.compile(
    r"^[ \t]{0,16}create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:temporary[ \t]+|unique[ \t]+)?"
    r"(?:table|view|function|procedure|trigger|index|type|schema)[ \t]+"
    rf"(?:if[ \t]+not[ \t]+exists[ \t]+)?[\"`\[]?({NAME}(?:\.{NAME}){{0,2}})",
    re.MULTILINE | re.IGNORECASE,
)
LISP = re.compile(
    r"^\((?:def|define|defun|defmacro|defn|defclass|defvar|defgeneric|defmethod)"
    r"[ \t]+\(?([^\s()]{1,100})",
    re.MULTILINE,
)
MAKE = re.compile(r"^([A-Za-z][\w./-]{0,80})[ \t]*:(?!=)", re.MULTILINE)

CODE: dict[str, tuple[re.Pattern[str], ...]] = {
    "py pyi pyx rb ex exs jl nim rs go swift kt kts scala pl pm lua php hs ml mli fs": (KEYWORD,),
    "c h cc cpp cxx hh hpp hxx cu m mm java cs d": (KEYWORD, C_LIKE),
    "js mjs cjs jsx ts tsx mts vue svelte dart": (KEYWORD, ARROW),
    "sh bash zsh ksh fish": (SHELL, KEYWORD),
    "sql psql": (SQL,),
    "el lisp clj cljs scm rkt": (LISP,),
    "mk make": (MAKE,),
    "r tcl vim awk sed ps1 bat asm s f f90 f95 for pas ada adb ads vhd vhdl v sv proto thrift"
    " graphql cmake css scss sass less gradle groovy erl hrl zig cob elm": (KEYWORD,),
}
UNDERLINED = re.compile(
    r"^[ \t]?(\S[^\n]{0,300})\n([=\-~^\"'`#*+.:_<>!$%&])\2{2,300}[ \t]*$", re.MULTILINE
)
PROSE: dict[str, tuple[re.Pattern[str], ...]] = {
    "rst rest": (UNDERLINED,),
    "adoc asciidoc": (re.compile(r"^={1,6}[ \t]+(\S[^\n]{0,300})$", re.MULTILINE),),
    "org": (re.compile(r"^\*{1,8}[ \t]+(\S[^\n]{0,300})$", re.MULTILINE),),
    "tex latex sty ltx": (
        re.compile(r"\\(?:title|part|chapter|(?:sub){0,2}section)\*?\{([^{}\n]{1,300})\}"),
    ),
    "texi texinfo": (
        re.compile(
            r"^@(?:settitle|chapter|unnumbered|appendix|(?:sub){0,2}section)[ \t]+"
            r"(\S[^\n]{0,300})$",
            re.MULTILINE,
        ),
    ),
}
CODE_BY_SUFFIX = {f".{one}": found for many, found in CODE.items() for one in many.split()}
PROSE_BY_SUFFIX = {f".{one}": found for many, found in PROSE.items() for one in many.split()}
CODE_NAMES = {"makefile": (MAKE,), "gnumakefile": (MAKE,), "rakefile": (KEYWORD,)}
# text without headings that are known; other suffixes are looked at
TEXT_SUFFIXES = frozenset(
    f".{one}"
    for one in "txt text log csv tsv json jsonl ndjson toml ini cfg conf yaml yml xml properties"
    " list diff patch po srt vtt bib ics vcf tab dat in am ac nfo 1 2 3 4 5 6 7 8 9".split()
)
MOST_NAMES = 2000  # of what a file of source code defines


def says_text(name: str) -> bool:
    """Whether the suffix of a file says that it is read here."""
    suffix = PurePath(name).suffix.lower()
    tables = CODE_BY_SUFFIX, PROSE_BY_SUFFIX, TEXT_SUFFIXES
    return any(suffix in table for table in tables) or name.lower() in CODE_NAMES


def read_plain(data: bytes, name: str) -> Text:
    """The document of a file of text or source code."""
    body = decoded(data).replace("\r\n", "\n")[: MOST_CHARACTERS + 1]
    suffix = PurePath(name).suffix.lower()
    patterns = CODE_NAMES.get(name.lower()) or CODE_BY_SUFFIX.get(suffix)
    if patterns is not None:
        return document("code", name, "", _found(patterns, body), body)
    headings = _found(PROSE_BY_SUFFIX.get(suffix, ()), body)
    return document("text", name, next(iter(headings), ""), headings, body)


def _found(patterns: tuple[re.Pattern[str], ...], body: str) -> list[str]:
    """Headings in their order, each once."""
    found = {one.start(1): one.group(1) for pattern in patterns for one in pattern.finditer(body)}
    return list(dict.fromkeys(found[at] for at in sorted(found)))[:MOST_NAMES]


# Reads Markdown line by line. Headings, code fences, links and front matter are understood; a
# parser of all of Markdown would find no more words, and takes many times as long.

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
CLOSING = re.compile(r"(?<![^ \t])#+$")  # what may end a heading
UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
NO_PARAGRAPH = re.compile(r"\s*(?:[-*+>|]|\d+[.)])(?:\s|$)")  # a list, a quotation or a table
DEFINITION = re.compile(r" {0,3}\[[^\[\]]+\]:\s*\S+.*")  # of where a link leads
LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)?\)|\[[^\[\]]*\])")
TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]*)?/?>|<!--[^<>]*-->")
ENTITY = re.compile(r"&#?\w{1,32};")
MATTER = ("---", "+++")  # the lines around front matter, YAML or TOML
MATTER_TITLE = re.compile(r"title\s*[:=]\s*(.+)", re.IGNORECASE)
MOST_MATTER = 200  # lines


def read_markdown(data: bytes, name: str) -> Text:
    """The document of a Markdown file."""
    text = decoded(data)
    lines = text[:MOST_CHARACTERS].splitlines()
    title, begin = _front_matter(lines)
    headings, body = [], []
    for line, is_heading in _lines(lines[begin:]):
        body.append(line)
        if is_heading:
            headings.append(line)
    title = title or next(iter(headings), "")
    cut = len(text) > MOST_CHARACTERS
    return document("markdown", name, title, headings, "\n".join(body), cut=cut)


def _front_matter(lines: list[str]) -> tuple[str, int]:
    """The title in the front matter, and the line after it."""
    first = lines[0].rstrip() if lines else ""
    if first not in MATTER:
        return "", 0
    for end, line in enumerate(lines[1:MOST_MATTER], 1):
        if line.rstrip() == first or (first == "---" and line.rstrip() == "..."):
            found = filter(None, (MATTER_TITLE.fullmatch(line) for line in lines[1:end]))
            return next((one.group(1).strip(" \t\"'") for one in found), ""), end + 1
    return "", 0


def _lines(lines: list[str]) -> list[tuple[str, bool]]:
    """Every line of the text, and whether it is a heading. Fences and rules are empty lines."""
    found: list[tuple[str, bool]] = []
    fence = ""  # the one that is open
    for line in lines:
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
            found.append(("", False))
        elif mark and mark.group(1).startswith(fence) and not line[mark.end() :].strip():
            fence = ""
            found.append(("", False))
        elif fence:
            found.append((line, False))
        else:
            _add(found, line)
    return found


def _add(found: list[tuple[str, bool]], line: str) -> None:
    """A line outside of fences; an underline makes the line before it a heading."""
    if mark := HEADING.match(line):
        found.append((_inline(CLOSING.sub("", line[mark.end() :].strip()).strip()), True))
    elif UNDERLINE.fullmatch(line):
        before, is_heading = found.pop() if found else ("", False)
        is_heading = is_heading or bool(before.strip() and not NO_PARAGRAPH.match(before))
        found.extend([(before, is_heading), ("", False)])
    elif not DEFINITION.fullmatch(line):
        found.append((_inline(line), False))


def _inline(line: str) -> str:
    """A line without markup: links and images are their texts."""
    if "[" in line:  # twice, for a link around an image
        line = LINK.sub(r"\1", LINK.sub(r"\1", line))
    if "<" in line:
        line = TAG.sub("", line)
    if "&" in line:
        line = ENTITY.sub(lambda found: unescape(found.group()), line)
    return line.replace("**", "").replace("`", "")


# Reads HTML with selectolax, whose parser builds the tree that browsers build.

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
ELEMENTS = {
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
    return title, headings, _html_lines(tree, nodes), cut


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


def _by_role(tree: LexborHTMLParser) -> dict[str, list[LexborNode]]:
    """Removes what is no text, and gives the other elements that matter, in their order."""
    nodes: dict[str, list[LexborNode]] = {role: [] for role in ELEMENTS}
    for node in tree.css(REPETITION):
        node.decompose()
    for node in tree.root.traverse() if tree.root else ():
        if role := ROLES.get(node.tag or ""):
            nodes[role].append(node)
    for node in nodes["noise"]:
        node.decompose()
    # what was inside of something removed has no parent now
    return {role: [node for node in found if node.parent] for role, found in nodes.items()}


def _html_lines(tree: LexborHTMLParser, nodes: dict[str, list[LexborNode]]) -> str:
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
