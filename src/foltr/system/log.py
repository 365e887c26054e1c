"""The log of a process: lines of text, or one JSON object per line.

    12:00:31 round 3 of 80: 4 of 4 clients answered, 0.2 s
    {"time":"2026-11-30T11:00:31.250Z","level":"info","process":"server","event":"round", ...}

Code that logs calls a function with one line of text. An `Event` is such a line with more fields,
which only the JSON form contains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from foltr.system.strict_json import strict_json

Tell = Callable[[str], None]
Level = Literal["info", "warning", "error"]
FORMS = ("text", "json")


class Event(str):
    """A line of a log, with its kind, its level and fields such as the round. It is a `str`, and
    can be used as one."""

    kind: str
    level: Level
    fields: dict[str, Any]

    def __new__(cls, text: str, kind: str, level: Level = "info", /, **fields: Any) -> Event:
        made = super().__new__(cls, text)
        made.kind, made.level, made.fields = kind, level, fields
        return made


def text_line(text: str, now: datetime) -> str:
    """A line for people: the local time and the text."""
    return f"{now:%H:%M:%S} {text}"


def json_line(text: str, process: str, now: datetime) -> str:
    """A line for programs: one JSON object. It is ASCII, so no text can end the line or move the
    cursor of a terminal."""
    event = text if isinstance(text, Event) else Event(text, "note")
    about = {
        "time": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z",
        "level": event.level,
        "process": process,
        "event": event.kind,
        "text": str.__str__(event),
    }
    return strict_json({**about, **{k: v for k, v in event.fields.items() if k not in about}})


def writer(
    form: str,
    process: str,
    out: TextIO | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
) -> Tell:
    """A function that writes a line to standard output, or to `out`. A line is one write, so that
    the lines of two threads do not mix."""

    def tell(text: str) -> None:
        now, stream = clock(), sys.stdout if out is None else out
        line = json_line(text, process, now) if form == "json" else text_line(text, now)
        stream.write(f"{line}\n")
        stream.flush()

    return tell
