"""Blocks of chapters and notes as HTML. Every text of a run passes `escape`."""

from __future__ import annotations

from html import escape
from typing import Any

from foltr.report.matrix import BETTER, BETTER_HERE, MARK_MEANING, WORSE, WORSE_HERE

Content = dict[str, Any]
MARK_CLASS = {BETTER: "up", WORSE: "down", BETTER_HERE: "up", WORSE_HERE: "down"}


def mark_html(entry: Content) -> str:
    """The mark of a test. A screen reader reads its meaning."""
    if "mark" not in entry:
        return ""
    kind, text = MARK_CLASS[entry["mark"]], MARK_MEANING[entry["mark"]]
    return f'<span class={kind} role=img aria-label="{text}" title="{text}">{entry["mark"]}</span>'


def chapters_html(blocks: list[Content]) -> str:
    """The blocks of each chapter, under its heading."""
    chapters: dict[str, list[Content]] = {}
    for block in blocks:
        if "chapter" in block:
            chapters.setdefault(block["chapter"], []).append(block)
    return "".join(_chapter(i, name, parts) for i, (name, parts) in enumerate(chapters.items()))


def _chapter(i: int, name: str, blocks: list[Content]) -> str:
    parts = "".join(block_html(block, f"{i}.{k}") for k, block in enumerate(blocks))
    return (
        f'<section aria-labelledby="chapter-{i}">'
        f'<h2 id="chapter-{i}">{escape(name)}</h2>{parts}'
        "</section>"
    )


def block_html(block: Content, number: str = "") -> str:
    """`number` identifies a block that can be folded."""
    title = escape(block["title"])
    text = f"<p>{escape(block['text'])}</p>" if block["text"] else ""
    body = text + _table(block, title)
    if "folded" in block:
        summary = f"<summary><h3>{title}</h3></summary>"
        return f'<details class=block id="fold-{number}">{summary}{body}</details>'
    return f"<article class=block><h3>{title}</h3>{body}</article>"


def _table(block: Content, title: str) -> str:
    names, *rows = block["rows"] or [[]]
    if not rows:
        return ""
    in_chapter = "chapter" in block
    head = "".join(f"<th scope=col>{_breakable(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{_first_cell(row[0], in_chapter)}{''.join(map(_cell, row[1:]))}</tr>" for row in rows
    )
    return (
        f'<div class=scroll role=region aria-label="{title}" tabindex=0>'
        f"<table class={'grid' if in_chapter else 'plain'}>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        "</table></div>"
    )


def _first_cell(cell: Any, in_chapter: bool) -> str:
    """The first cell of a row. In a chapter it names the row and stays visible."""
    return f"<th scope=row>{_breakable(cell)}</th>" if in_chapter else _cell(cell)


def _breakable(name: str) -> str:
    """A spec has no spaces, and the column may be narrow: lines may break after a bracket."""
    return escape(name).replace("(", "(<wbr>")


def _cell(cell: Any) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    text = f"<b>{escape(cell['text'])}</b>" if "best" in cell else escape(cell["text"])
    aside = f" <small>{escape(cell['aside'])}</small>" if "aside" in cell else ""
    below = f" <small class=below>{escape(cell['below'])}</small>" if "below" in cell else ""
    shade = f" class=h{cell['shade']}" if "shade" in cell else ""
    return f"<td{shade}>{text}{mark_html(cell)}{aside}{below}</td>"
