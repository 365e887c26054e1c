"""The page as one HTML file that loads nothing from the network.

Its content policy allows only its own script and style sheet, by their hashes. Text of a run that
got into the page as markup would do nothing."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

from foltr.core.system.web import asset, policy
from foltr.report.page.content import content_without_curves
from foltr.report.page.html_sections import comparison, matrix_tables, sections
from foltr.report.page.packed_curves import BUDGET, packed_curves
from foltr.report.study import Study

OWN = "foltr.report.page"  # whose `assets` are those of this page alone
SHARED_SCRIPTS = ("uplot.js", "base.js")
SCRIPTS = (  # in this order, after the shared ones
    "curves.js",
    "charts.js",
    "legend.js",
    "table.js",
    "evidence.js",
    "downloads.js",
    "live.js",
    "start.js",
)
SHARED_STYLES = ("uplot.css", "page.css")
FOR_SCRIPT = (  # the parts of the content that the script needs
    "title",
    "baseline",
    "methods",
    "conditions",
    "cells",
    "runs",
    "matrices",
    "marks",
    "curves",
    "downloads",
)
TARGET = 470_000  # bytes of a page; curves get fewer points to stay below
# bytes of the comparison's tables; if there are more, only the first table is written as HTML and
# the others are compressed
PLAIN_TABLES = 120_000


class PageParts(NamedTuple):
    """What fills the template of the page."""

    title: str
    sections: dict[str, str]
    data: dict[str, Any] | None  # for the script


def page(study: Study, made: datetime | None = None) -> str:
    """The page of a study. The larger the rest of the page, the fewer points its curves get."""
    content = {**content_without_curves(study, made), "curves": []}
    room = TARGET - len(filled_template(page_parts(content)))
    content["curves"] = packed_curves(study, min(BUDGET, room))
    return filled_template(page_parts(content))


def page_parts(content: dict[str, Any]) -> PageParts:
    """The content as HTML sections, and as data for the script."""
    parts = sections(content)
    data = {name: content[name] for name in FOR_SCRIPT}
    if len(parts["matrix"]) > PLAIN_TABLES:
        data["panels"] = matrix_tables(content)
        parts["matrix"] = comparison(content, data["panels"][:1])
    return PageParts(content["title"], parts, data)


def filled_template(parts: PageParts, live: bool = False) -> str:
    script = asset(*SHARED_SCRIPTS) + "\n" + asset(*SCRIPTS, of=OWN)
    style = asset(*SHARED_STYLES)
    slots = {
        **parts.sections,
        "title": escape(parts.title),
        "policy": policy(script, style, live),
        "style": style,
        "script": script,
        "data": compressed(parts.data),
        "live": "live" if live else "file",
        "licence": escape(asset("uplot.LICENSE")),
    }
    whole = re.sub(r"\{\{(\w+)\}\}", lambda slot: slots[slot[1]], asset("page.html", of=OWN))
    # names of files may hold bytes that are no character
    return whole.encode("utf-8", "backslashreplace").decode()


def compressed(data: Any) -> str:
    """JSON, compressed by gzip, in base64: no character of it has a meaning in HTML."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
