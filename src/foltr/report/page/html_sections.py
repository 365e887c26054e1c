"""The sections of the page as HTML, from its model: complete without a script, which only adds to
them.

Every text of a run passes `escape`. Scripts find things by class and data-* attributes, colours by
class (c0 .. c7 is a hue, d1 .. d3 kinds of dashes): the page allows no style attribute."""

from __future__ import annotations

from html import escape
from typing import Any

from foltr.report.page.html_blocks import KIND, box, results, sign
from foltr.report.entries import BETTER, BETTER_HERE, SAID, WORSE
from foltr.report.number_format import MINUS, NONE

Model = dict[str, Any]
GLANCED = 12  # conditions whose highest mean is told at a glance
EXPLAINED = 20  # reasons for refused tests that are spelt out below a table
SPREAD = (
    "± is one standard deviation over runs: how much runs differ, not how well the mean is known"
)
SIGNIFICANT = {
    BETTER: "significant ",
    BETTER_HERE: "significant on these splits, not on other queries ",
    "": "not significant",
}  # of the highest mean, which is never worse
TIMES = "\u00d7"


def sections(model: Model, spelt: int | None = None) -> dict[str, str]:
    """The page's sections. `spelt`: so many tables of the comparison are spelt out, the others
    left to a script."""
    return {
        "head": _head(model),
        "glance": _glance(model),
        "results": results(model["blocks"]),
        "matrix": _matrices(model, spelt),
        "notes": (
            "".join(box(block) for block in model["blocks"] if "chapter" not in block)
            or _nothing("No run had anything to say.")
        ),
        "provenance": _provenance(model["provenance"]),
    }


def waiting(title: str, message: str) -> dict[str, str]:
    """The sections before there is anything to show."""
    empty = dict.fromkeys(("glance", "matrix", "notes", "provenance"), _nothing("Nothing yet."))
    return {
        "head": f"<h1>{escape(title)}</h1><p class=sub>{escape(message)}</p>",
        "results": "",
        **empty,
    }


def _swatch(model: Model, method: int) -> str:
    hue, dash = model["methods"][method]["style"]
    return f'<i class="s c{hue} d{dash}" data-m="{method}"></i>'


def shown(value: Any, decimals: int) -> str:
    """A number of the model, which may be absent or infinite."""
    return (
        NONE
        if value is None
        else f"{value:.{decimals}f}"
        if isinstance(value, int | float)
        else str(value)
    )


def _nothing(text: str) -> str:
    return f"<p class=quiet>{escape(text)}</p>"


def _head(model: Model) -> str:
    facts = [
        model["glance"]["counted"],
        *([f"only runs with {model['selection']}"] if model["selection"] else []),
        f"baseline: {model['methods'][model['baseline']]['label']}",
        f"{model['made']} UTC",
    ]
    told = " <span class=dot>·</span> ".join(escape(fact) for fact in facts)
    return f"<h1>{escape(model['title'])}</h1><p class=sub>{told}</p>"


def _glance(model: Model) -> str:
    glance = model["glance"]
    speed = glance["interactions"] / glance["seconds"] if glance["seconds"] else 0.0
    stats = [
        (f"{glance['runs']:,}", "runs", glance["counted"].split(" ", 2)[2]),
        (
            f"{glance['methods']} {TIMES} {glance['conditions']}",
            f"methods {TIMES} conditions",
            _each(glance),
        ),
        (_large(glance["interactions"]), "interactions", "lists shown to simulated users"),
        (
            _duration(glance["seconds"]),
            "compute time",
            f"{_large(speed)} interactions a second" if speed else "",
        ),
    ]
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b><span>{escape(more)}</span></dd></div>"
        for value, name, more in stats
    )
    return f"<dl class=stats>{tiles}</dl>{_bests(model)}"


def _each(glance: Model) -> str:
    """How many runs a cell has, and that some have none."""
    (low, high), empty = glance["per_cell"], glance["empty_cells"]
    runs = f"{_count(low, 'run')}" if low == high else f"{low:,} to {high:,} runs"
    gaps = (
        f", {empty:,} of {glance['methods'] * glance['conditions']:,} cells empty" if empty else ""
    )
    return f"{runs} in {'each' if low == high and not empty else 'a'} cell{gaps}"


def _bests(model: Model) -> str:
    """A card per condition: the method of the highest mean, by each headline measure."""
    cards: dict[int, list[str]] = {}
    for best in model["glance"]["best"]:
        for row in best["rows"]:
            cards.setdefault(row["condition"], []).append(_winner(model, best, row))
    if not cards:
        return ""
    shown = [
        f"<article><h3>{escape(model['conditions'][c])}</h3>{''.join(rows)}</article>"
        for c, rows in sorted(cards.items())[:GLANCED]
    ]
    left = len(cards) - len(shown)
    more = (
        _nothing(f"and {_count(left, 'condition')} more in the comparison below")
        if left > 0
        else ""
    )
    rows = [row for best in model["glance"]["best"] for row in best["rows"]]
    about = _nothing(f"{SPREAD}.") if any(row["sd"] is not None for row in rows) else ""
    cards_of = f"<div class=cards>{''.join(shown)}</div>"
    return f"<h3 class=over>Highest mean in each condition</h3>{about}{cards_of}{more}"


def _winner(model: Model, best: Model, row: Model) -> str:
    method, d = row["methods"][0], best["decimals"]
    others = f" and {_count(len(row['methods']) - 1, 'other')}" if len(row["methods"]) > 1 else ""
    if method == model["baseline"]:
        against = "the baseline"
    elif "test" in row:
        difference, mark = row["test"]["difference"], row.get("mark", "")
        told = f"{'+' if difference >= 0 else MINUS}{abs(difference):.{d}f} against the baseline"
        against = f"{told}, {SIGNIFICANT.get(mark, SIGNIFICANT[''])}{sign(row)}"
    else:
        against = "not tested against the baseline"
    return (
        f"<div class=winner><p class=of>{escape(_brief(best['name']))}</p>"
        f"<p class=value><b>{shown(row['mean'], d)}</b>{_spread(row, d)}</p>"
        f"<p class=who>{_swatch(model, method)}"
        f"{escape(model['methods'][method]['label'])}{others}</p>"
        f"<p class=against>{against}</p></div>"
    )


def _brief(name: str) -> str:
    """A measure's name without its explanation in brackets."""
    return name.partition(" (")[0]


def _spread(entry: Model, decimals: int) -> str:
    return "" if entry.get("sd") is None else f" <small>± {shown(entry['sd'], decimals)}</small>"


def _matrices(model: Model, spelt: int | None) -> str:
    if not model["matrices"]:
        return _nothing("No run has a value of any measure.")
    tabs = "".join(
        f'<button role=tab id="tab-{i}" aria-controls="panel-{i}"'
        f' data-measure="{escape(each["measure"])}">'
        f"{escape(_brief(each['name']))}</button>"
        for i, each in enumerate(model["matrices"])
    )
    shown = panels(model)
    if spelt is not None:
        left = (
            "<p class='quiet needs-no-js'>This table is shown by a script: there are too many"
            " methods to repeat.</p>"
        )
        shown[spelt:] = [left] * len(shown[spelt:])
    boxes = "".join(
        f'<div class=panel role=tabpanel id="panel-{i}" aria-labelledby="tab-{i}">'
        f"<h3>{escape(each['name'])}</h3>"
        f"<div class=inner{' data-packed' if spelt is not None and i >= spelt else ''}>"
        f"{shown[i]}</div></div>"
        for i, each in enumerate(model["matrices"])
    )
    return (
        '<div class="tabs needs-js" role=tablist aria-label="Measure of the'
        f' comparison">{tabs}</div>{boxes}'
    )


def panels(model: Model) -> list[str]:
    """The table of each measure, with what must be said of it."""
    return [_panel(model, each) for each in model["matrices"]]


def _panel(model: Model, each: Model) -> str:
    names = enumerate(model["conditions"])
    heads = "".join(
        f"<th scope=col data-c={c}><span>{escape(name)}</span></th>" for c, name in names
    )
    rows = "".join(_row(model, each, m) for m in range(len(model["methods"])))
    return (
        f"<p class=told>{escape(each['told'])}</p>"
        f'<div class=scroll role=region aria-label="{escape(each["name"])}, a table"'
        " tabindex=0><table class=matrix>"
        f"<thead><tr><th scope=col><span>method</span></th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
        f"{_legend(each)}"
    )


def _row(model: Model, each: Model, m: int) -> str:
    base = " <em>baseline</em>" if m == model["baseline"] else ""
    cells = "".join(_cell(each, f"{m}.{c}") for c in range(len(model["conditions"])))
    return (
        f"<tr data-m={m}><th scope=row>{_swatch(model, m)}"
        f"{escape(model['methods'][m]['label'])}{base}</th>{cells}</tr>"
    )


def _cell(each: Model, place: str) -> str:
    entry = each["entries"].get(place)
    if entry is None:
        return f"<td class=none>{NONE}</td>"
    d = each["decimals"]
    value = (
        f"<b>{shown(entry['mean'], d)}</b>"
        if entry.get("best")
        else f"<span>{shown(entry['mean'], d)}</span>"
    )
    odd = f" <small>{entry['odd']}</small>" if "odd" in entry else ""
    refused = f"<sup>{_letter(entry['refused'])}</sup>" if "refused" in entry else ""
    return (
        f"<td data-v={entry['mean']}><button class=cell data-at={place} aria-haspopup=dialog>"
        f"{value}{_spread(entry, d)}{odd}{sign(entry)}{refused}</button></td>"
    )


def _legend(each: Model) -> str:
    entries = each["entries"].values()
    hollow = any("over_data" in entry for entry in entries)
    marks = [mark for mark in KIND if hollow or mark in (BETTER, WORSE)] if each["family"] else []
    parts = [
        f"<span class={KIND[mark]}>{mark}</span>"
        f" {SAID[mark]}{' than the baseline' if mark in (BETTER, WORSE) else ''}"
        for mark in marks
    ]
    parts += (
        ["<b>bold</b> highest mean of its condition"]
        if any("best" in entry for entry in entries)
        else []
    )
    parts += (
        ["n where a cell has another number of runs"]
        if any("odd" in entry for entry in entries)
        else []
    )
    parts += (
        ["± one standard deviation over runs"]
        if any(entry["sd"] is not None for entry in entries)
        else []
    )
    refusals = "".join(
        f"<li><sup>{_letter(i)}</sup> not tested: {escape(why)}</li>"
        for i, why in enumerate(each["refusals"][:EXPLAINED])
    )
    left = len(each["refusals"]) - EXPLAINED
    refusals += f"<li>{left:,} more reasons: open the cell</li>" if left > 0 else ""
    key = f"<p class=key>{' <span class=dot>·</span> '.join(parts)}</p>" if parts else ""
    return key + (f"<ul class=refusals>{refusals}</ul>" if refusals else "")


def _letter(number: int) -> str:
    """a .. z, aa, ab ..."""
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def _provenance(rows: list[list[Any]]) -> str:
    told = "".join(
        f"<div><dt>{escape(label)}</dt>"
        f"<dd>{''.join(f'<p>{escape(line)}</p>' for line in lines)}</dd></div>"
        for label, lines in rows
    )
    return f"<dl class=facts>{told}</dl>"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


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
