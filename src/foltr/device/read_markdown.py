"""Reads Markdown line by line. Headings, code fences, links and front matter are understood; a
parser of all of Markdown would find no more words, and takes many times as long."""

from __future__ import annotations

import re
from html import unescape

from foltr.device.content import MOST_CHARACTERS, decoded, document
from foltr.device.text import Text

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
