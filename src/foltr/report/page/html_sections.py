"""The sections of the page as HTML, from its content. They are complete without a script.

Every text of a run passes `escape`. Scripts find elements by class and data-* attributes. Colours
are classes (c0 .. c7 a colour, d1 .. d3 dashes): the page allows no style attribute."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from foltr.core.system.tables import MINUS, NONE, count
from foltr.report.chapters.registry import Block, Cell, TableCell
from foltr.report.matrix import BETTER, BETTER_HERE, MARK_MEANING, WORSE
from foltr.report.measures import HEADLINES
from foltr.report.page.content import MARK_CLASS
from foltr.report.provenance import Row

Content = dict[str, Any]
GLANCED = 12  # more conditions than that have no card at the top
EXPLAINED = 20  # more reasons than that are not shown below a table
SPREAD = (
    "± is one standard deviation over runs. It shows how much runs differ, not how precise the"
    " mean is."
)
SIGNIFICANT = {  # of the highest mean, which is never worse than the baseline
    BETTER: "significant ",
    BETTER_HERE: "significant over runs, but not over data splits ",
    "": "not significant",
}
NEEDS_SCRIPT = (
    "<p class='quiet needs-no-js'>A script shows this table: there are too many methods to write"
    " it out.</p>"
)
TIMES = "\u00d7"
DOT = " <span class=dot>·</span> "


def sections(content: Content) -> dict[str, str]:
    """The page's sections."""
    notes = "".join(block_html(block) for block in content["blocks"] if not block.chapter)
    return {
        "head": _head(content),
        "glance": _glance(content),
        "results": _chapters(content["blocks"]),
        "matrix": comparison(content, matrix_tables(content)),
        "notes": notes or _quiet("The runs recorded no notes."),
        "provenance": _provenance(content["provenance"]),
    }


def waiting_sections(title: str, message: str) -> dict[str, str]:
    """The sections before there is anything to show."""
    empty = dict.fromkeys(("glance", "matrix", "notes", "provenance"), _quiet("Nothing yet."))
    head = f"<h1>{escape(title)}</h1><p class=sub>{escape(message)}</p>"
    return {"head": head, "results": "", **empty}


def _quiet(text: str) -> str:
    return f"<p class=quiet>{escape(text)}</p>"


def _number(value: Any, decimals: int) -> str:
    """A number of the content, which may be absent or infinite."""
    if value is None:
        return NONE
    return f"{value:.{decimals}f}" if isinstance(value, int | float) else str(value)


def _spread(entry: Content, decimals: int) -> str:
    return "" if entry.get("sd") is None else f" <small>± {_number(entry['sd'], decimals)}</small>"


def _method(content: Content, method: int) -> str:
    """A sample of a method's line, and its label."""
    colour, dash = content["methods"][method]["style"]
    line = f'<i class="s c{colour} d{dash}" data-m="{method}"></i>'
    return line + escape(content["methods"][method]["label"])


def _short_name(name: str) -> str:
    """A measure's name without its explanation in brackets."""
    return name.partition(" (")[0]


def _mark(mark: str) -> str:
    """The mark of a test. A screen reader reads its meaning."""
    if not mark:
        return ""
    kind, text = MARK_CLASS[mark], MARK_MEANING[mark]
    return f'<span class={kind} role=img aria-label="{text}" title="{text}">{mark}</span>'


def _scroll_table(kind: str, label: str, heads: str, rows: str) -> str:
    """A table that scrolls inside the page where it is too wide."""
    return (
        f'<div class=scroll role=region aria-label="{escape(label)}" tabindex=0>'
        f"<table class={kind}><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


# ---- head and key numbers


def _head(content: Content) -> str:
    facts = [
        content["counted"],
        *([f"only runs with {content['selection']}"] if content["selection"] else []),
        f"baseline: {content['methods'][content['baseline']]['label']}",
        f"{content['made']} UTC",
    ]
    text = DOT.join(escape(fact) for fact in facts)
    return f"<h1>{escape(content['title'])}</h1><p class=sub>{text}</p>"


def _glance(content: Content) -> str:
    interactions, seconds = content["interactions"], content["seconds"]
    speed = interactions / seconds if seconds else 0.0
    sizes = f"{len(content['methods'])} {TIMES} {len(content['conditions'])}"
    tiles = (
        ("runs", f"{len(content['runs']['names']):,}", content["counted"].split(" ", 2)[2]),
        (f"methods {TIMES} conditions", sizes, _runs_per_cell(content)),
        ("interactions", _large(interactions), "lists shown to simulated users"),
        (
            "compute time",
            _duration(seconds),
            f"{_large(speed)} interactions a second" if speed else "",
        ),
    )
    written = "".join(
        f"<div><dt>{escape(name)}</dt>"
        f"<dd><b>{escape(value)}</b><span>{escape(more)}</span></dd></div>"
        for name, value, more in tiles
    )
    return f"<dl class=stats>{written}</dl>{_highest_means(content)}"


def _runs_per_cell(content: Content) -> str:
    """How many runs a cell has, and how many cells have none."""
    sizes = [len(runs) for runs in content["cells"].values()]
    low, high = min(sizes), max(sizes)
    cells = len(content["methods"]) * len(content["conditions"])
    empty = cells - len(sizes)
    runs = count(low, "run") if low == high else f"{low:,} to {high:,} runs"
    gaps = f", {empty:,} of {cells:,} cells empty" if empty else ""
    return f"{runs} in {'each' if low == high and not empty else 'a'} cell{gaps}"


def _highest_means(content: Content) -> str:
    """A card per condition: the method with the highest mean of each headline measure."""
    cards: list[str] = []
    has_spread = False
    headlines = [each for each in content["matrices"] if each["measure"] in HEADLINES]
    for c, name in enumerate(content["conditions"]):
        parts = []
        for matrix in headlines:
            best = [m for m in range(len(content["methods"])) if _is_best(matrix, m, c)]
            if best:
                has_spread |= matrix["entries"][f"{best[0]}.{c}"]["sd"] is not None
                parts.append(_highest_mean(content, matrix, best, c))
        if parts:
            cards.append(f"<article><h3>{escape(name)}</h3>{''.join(parts)}</article>")
    if not cards:
        return ""
    left = len(cards) - GLANCED
    more = _quiet(f"and {count(left, 'more condition')} in the comparison below")
    return (
        f"<h3 class=over>Highest mean in each condition</h3>{_quiet(SPREAD) if has_spread else ''}"
        f"<div class=cards>{''.join(cards[:GLANCED])}</div>{more if left > 0 else ''}"
    )


def _is_best(matrix: Content, method: int, condition: int) -> bool:
    return "best" in matrix["entries"].get(f"{method}.{condition}", {})


def _highest_mean(content: Content, matrix: Content, best: list[int], condition: int) -> str:
    """`best`: the method with the highest mean; all of them if several are equal."""
    method, *others = best
    entry, d = matrix["entries"][f"{method}.{condition}"], matrix["decimals"]
    equal = f" and {count(len(others), 'other')}" if others else ""
    if method == content["baseline"]:
        against = "the baseline"
    elif "test" in entry:
        difference, mark = entry["test"]["difference"], entry.get("mark", "")
        sign = "+" if difference >= 0 else MINUS
        significant = SIGNIFICANT.get(mark, SIGNIFICANT[""]) + _mark(mark)
        against = f"{sign}{abs(difference):.{d}f} against the baseline, {significant}"
    else:
        against = "not tested against the baseline"
    return (
        f"<div class=winner><p class=of>{escape(_short_name(matrix['name']))}</p>"
        f"<p class=value><b>{_number(entry['mean'], d)}</b>{_spread(entry, d)}</p>"
        f"<p class=who>{_method(content, method)}{equal}</p>"
        f"<p class=against>{against}</p></div>"
    )


# ---- the comparison


def matrix_tables(content: Content) -> list[str]:
    """The table of each measure, with its caption and its legend."""
    return [_table(content, each) for each in content["matrices"]]


def comparison(content: Content, tables: Sequence[str]) -> str:
    """The table of each measure, under tabs. Where `tables` has none, a script shows it."""
    matrices = content["matrices"]
    if not matrices:
        return _quiet("No run has a value of any measure.")
    tabs, panels = "", ""
    for i, each in enumerate(matrices):
        table = f">{tables[i]}" if i < len(tables) else f" data-packed>{NEEDS_SCRIPT}"
        measure, name = escape(each["measure"]), escape(_short_name(each["name"]))
        tabs += (
            f'<button role=tab id="tab-{i}" aria-controls="panel-{i}" data-measure="{measure}">'
            f"{name}</button>"
        )
        panels += (
            f'<div class=panel role=tabpanel id="panel-{i}" aria-labelledby="tab-{i}">'
            f"<h3>{escape(each['name'])}</h3><div class=inner{table}</div></div>"
        )
    return (
        '<div class="tabs needs-js" role=tablist aria-label="Measure of the comparison">'
        f"{tabs}</div>{panels}"
    )


def _table(content: Content, matrix: Content) -> str:
    heads = "<th scope=col><span>method</span></th>" + "".join(
        f"<th scope=col data-c={c}><span>{escape(name)}</span></th>"
        for c, name in enumerate(content["conditions"])
    )
    rows = "".join(_row(content, matrix, m) for m in range(len(content["methods"])))
    label = f"{matrix['name']}, a table"
    return (
        f"<p class=caption>{escape(matrix['caption'])}</p>"
        f"{_scroll_table('matrix', label, heads, rows)}{_legend(matrix)}"
    )


def _row(content: Content, matrix: Content, m: int) -> str:
    base = " <em>baseline</em>" if m == content["baseline"] else ""
    cells = "".join(_cell(matrix, f"{m}.{c}") for c in range(len(content["conditions"])))
    return f"<tr data-m={m}><th scope=row>{_method(content, m)}{base}</th>{cells}</tr>"


def _cell(matrix: Content, place: str) -> str:
    entry = matrix["entries"].get(place)
    if entry is None:
        return f"<td class=none>{NONE}</td>"
    d = matrix["decimals"]
    tag = "b" if entry.get("best") else "span"
    mean = f"<{tag}>{_number(entry['mean'], d)}</{tag}>"
    n = f" <small>{entry['unusual_n']}</small>" if "unusual_n" in entry else ""
    refused = f"<sup>{_letter(entry['refused'])}</sup>" if "refused" in entry else ""
    return (
        f"<td data-v={entry['mean']}><button class=cell data-at={place} aria-haspopup=dialog>"
        f"{mean}{_spread(entry, d)}{n}{_mark(entry.get('mark', ''))}{refused}</button></td>"
    )


def _legend(matrix: Content) -> str:
    """What the signs of a table mean, and why cells were not tested."""
    entries = matrix["entries"].values()
    parts = []
    if matrix["family"]:
        hollow = any("over_data" in entry for entry in entries)
        for mark, kind in MARK_CLASS.items():
            full = mark in (BETTER, WORSE)
            if full or hollow:
                than = " than the baseline" if full else ""
                parts.append(f"<span class={kind}>{mark}</span> {MARK_MEANING[mark]}{than}")
    if any("best" in entry for entry in entries):
        parts.append("<b>bold</b> best mean of its condition")
    if any("unusual_n" in entry for entry in entries):
        parts.append("n the number of runs, where most cells have another")
    if any(entry["sd"] is not None for entry in entries):
        parts.append("± one standard deviation over runs")
    refusals = "".join(
        f"<li><sup>{_letter(i)}</sup> not tested: {escape(why)}</li>"
        for i, why in enumerate(matrix["refusals"][:EXPLAINED])
    )
    left = len(matrix["refusals"]) - EXPLAINED
    refusals += f"<li>{left:,} more reasons: select the cell</li>" if left > 0 else ""
    key = f"<p class=key>{DOT.join(parts)}</p>" if parts else ""
    return key + (f"<ul class=refusals>{refusals}</ul>" if refusals else "")


def _letter(number: int) -> str:
    """a .. z, aa, ab ..."""
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


# ---- blocks of chapters and notes


def _chapters(blocks: list[Block]) -> str:
    """The blocks of each chapter, under its heading."""
    chapters: dict[str, list[Block]] = {}
    for block in blocks:
        if block.chapter:
            chapters.setdefault(block.chapter, []).append(block)
    return "".join(
        f'<section aria-labelledby="chapter-{i}"><h2 id="chapter-{i}">{escape(name)}</h2>'
        + "".join(block_html(block, f"{i}.{k}") for k, block in enumerate(parts))
        + "</section>"
        for i, (name, parts) in enumerate(chapters.items())
    )


def block_html(block: Block, number: str = "") -> str:
    """`number` identifies a block that can be folded."""
    title = escape(block.title)
    body = f"<p>{escape(block.text)}</p>" if block.text else ""
    if len(block.rows) > 1:
        names, *rows = block.rows
        heads = "".join(f"<th scope=col>{_breakable(name)}</th>" for name in names)
        lines = "".join(f"<tr>{_block_row(row, bool(block.chapter))}</tr>" for row in rows)
        body += _scroll_table("grid" if block.chapter else "plain", block.title, heads, lines)
    if block.folded:
        summary = f"<summary><h3>{title}</h3></summary>"
        return f'<details class=block id="fold-{number}">{summary}{body}</details>'
    return f"<article class=block><h3>{title}</h3>{body}</article>"


def _block_row(row: Sequence[TableCell], in_chapter: bool) -> str:
    """In a chapter the first cell names the row and stays visible."""
    first, *rest = row
    head = f"<th scope=row>{_breakable(first)}</th>" if in_chapter else _block_cell(first)
    return head + "".join(map(_block_cell, rest))


def _block_cell(cell: TableCell) -> str:
    if not isinstance(cell, Cell):
        return f"<td>{escape(cell)}</td>"
    text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
    aside = f" <small>{escape(cell.aside)}</small>" if cell.aside else ""
    below = f" <small class=below>{escape(cell.below)}</small>" if cell.below else ""
    shade = f" class=h{cell.shade}" if cell.shade else ""
    return f"<td{shade}>{text}{_mark(cell.mark)}{aside}{below}</td>"


def _breakable(name: Any) -> str:
    """A spec has no spaces, and the column may be narrow: lines may break after a bracket."""
    return escape(name).replace("(", "(<wbr>")


def _provenance(rows: list[Row]) -> str:
    facts = ""
    for label, lines in rows:
        text = "".join(f"<p>{escape(line)}</p>" for line in lines)
        facts += f"<div><dt>{escape(label)}</dt><dd>{text}</dd></div>"
    return f"<dl class=facts>{facts}</dl>"


def _large(n: float) -> str:
    """108.3 M"""
    for size, unit in ((1e9, " bn"), (1e6, " M"), (1e4, " k")):
        if n >= size:
            return f"{n / (1e3 if unit == ' k' else size):.3g}{unit}"
    return f"{n:,.0f}"


def _duration(seconds: float) -> str:
    """3 h 12 min"""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"
