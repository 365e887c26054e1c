"""Reads files that are text as they are: plain text, data, logs, source code, and markup whose
headings one regular expression finds (reStructuredText, AsciiDoc, Org, LaTeX, Texinfo).

The headings of source code are the names that it defines. They are found by regular expressions
that work on one line: a definition that is missed is still in the body."""

from __future__ import annotations

import re
from pathlib import PurePath

from foltr.device.content import MOST_CHARACTERS, decoded, document
from foltr.device.text import Text

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
