"""The page: one self-contained HTML file, which asks the network for nothing.

Its content policy allows this script and this style sheet by their hash, and nothing else: text of
a run that came through as markup would still do nothing."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from datetime import datetime
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from foltr.report.page.content import without_curves
from foltr.report.page.html_sections import panels, sections
from foltr.report.study import Study
from foltr.report.page.packed_curves import BUDGET, thinned

SCRIPTS = (
    "uplot.js",
    "base.js",
    "curves.js",
    "charts.js",
    "legend.js",
    "table.js",
    "evidence.js",
    "downloads.js",
    "live.js",
    "start.js",
)
STYLES = ("uplot.css", "page.css")
FOR_SCRIPT = (
    "title",
    "baseline",
    "methods",
    "conditions",
    "cells",
    "runs",
    "matrices",
    "curves",
    "downloads",
)
TARGET = 470_000  # bytes of a page, as far as thinning its curves can keep it
# bytes of tables; where there are more, only the first is spelt out and the others are packed
PLAIN_PANELS = 120_000


def page(study: Study, made: datetime | None = None) -> str:
    """The page of a study. Where it holds much else the curves get fewer points, so that it stays
    small."""
    found = {**without_curves(study, made), "curves": []}
    title = str(found["title"])
    room = TARGET - len(filled(*divided(found), title))
    found["curves"] = thinned(study, min(BUDGET, room))
    return filled(*divided(found), title)


def divided(found: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """A model as sections, and what a script needs of it."""
    parts, data = sections(found), {name: found[name] for name in FOR_SCRIPT}
    if len(parts["matrix"]) > PLAIN_PANELS:
        parts, data["panels"] = sections(found, spelt=1), panels(found)
    return parts, data


def filled(
    parts: dict[str, str], data: dict[str, Any] | None, title: str, live: bool = False
) -> str:
    """The page of some sections, with data for its script."""
    script, style = asset(*SCRIPTS), asset(*STYLES)
    slots = {
        **parts,
        "title": escape(title),
        "policy": _policy(script, style, live),
        "style": style,
        "script": script,
        "data": packed(data),
        "live": "live" if live else "file",
        "licence": escape(asset("uplot.LICENSE")),
    }
    whole = re.sub(r"\{\{(\w+)\}\}", lambda slot: slots[slot[1]], asset("page.html"))
    return whole.encode(
        "utf-8", "backslashreplace"
    ).decode()  # names of files may hold what is no character


def packed(data: Any) -> str:
    """JSON, gzipped, in base64: holds no character that HTML knows."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def asset(*names: str) -> str:
    """Files beside the page's code, one after the other."""
    folder = files("foltr.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8").strip() for name in names)


def _policy(script: str, style: str, live: bool) -> str:
    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; connect-src"
        f" {connect}; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
