"""Blocks as HTML. As everywhere on the page, every text of a run passes `escape`."""

from __future__ import annotations

from html import escape
from typing import Any

from foltr.report.entries import BETTER, BETTER_HERE, SAID, WORSE, WORSE_HERE

Model = dict[str, Any]
KIND = {BETTER: "up", WORSE: "down", BETTER_HERE: "up", WORSE_HERE: "down"}


def sign(entry: Model) -> str:
    """The mark of a test, which a screen reader says in words."""
    if "mark" not in entry:
        return ""
    kind, said = KIND[entry["mark"]], SAID[entry["mark"]]
    return f'<span class={kind} role=img aria-label="{said}" title="{said}">{entry["mark"]}</span>'


def results(blocks: list[Model]) -> str:
    """Blocks of a chapter, under its heading."""
    chapters: dict[str, list[Model]] = {}
    for block in blocks:
        if "chapter" in block:
            chapters.setdefault(block["chapter"], []).append(block)
    return "".join(
        f'<section aria-labelledby="chapter-{i}"><h2 id="chapter-{i}">{escape(name)}</h2>'
        f"{''.join(box(block, f'{i}.{k}') for k, block in enumerate(parts))}</section>"
        for i, (name, parts) in enumerate(chapters.items())
    )


def box(block: Model, number: str = "") -> str:
    """`number`: of a block that can be folded, to find it again."""
    names, *rows = block["rows"] or [[]]
    label, grid = escape(block["title"]), "chapter" in block
    head = "".join(f"<th scope=col>{_breakable(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{_first(row[0], grid)}{''.join(map(_entry, row[1:]))}</tr>" for row in rows
    )
    kind = "grid" if grid else "plain"
    table = (
        f"<table class={kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        if rows
        else ""
    )
    framed = (
        f'<div class=scroll role=region aria-label="{label}" tabindex=0>{table}</div>'
        if table
        else ""
    )
    told = f"<p>{escape(block['text'])}</p>" if block["text"] else ""
    if "folded" in block:
        name = f"<summary><h3>{label}</h3></summary>"
        return f'<details class=block id="fold-{number}">{name}{told}{framed}</details>'
    return f"<article class=block><h3>{label}</h3>{told}{framed}</article>"


def _first(cell: Any, grid: bool) -> str:
    """Of a grid it stays in sight."""
    return f"<th scope=row>{_breakable(cell)}</th>" if grid else _entry(cell)


def _breakable(name: str) -> str:
    """Specs have no spaces, and narrow columns."""
    return escape(name).replace("(", "(<wbr>")


def _entry(cell: Any) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    text = f"<b>{escape(cell['text'])}</b>" if "best" in cell else escape(cell["text"])
    aside = f" <small>{escape(cell['aside'])}</small>" if "aside" in cell else ""
    below = f" <small class=below>{escape(cell['below'])}</small>" if "below" in cell else ""
    shade = f" class=h{cell['shade']}" if "shade" in cell else ""
    return f"<td{shade}>{text}{sign(cell)}{aside}{below}</td>"
