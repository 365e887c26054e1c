"""The log of a process, and settings that it reads again while it runs. A log has lines of text,
or one JSON object per line:

    12:00:31 round 3 of 80: 4 of 4 clients answered, 0.2 s
    {"time":"2026-11-30T11:00:31.250Z","level":"info","process":"server","event":"round", ...}

Code that logs calls a function with one line of text. An `Event` is such a line with more fields,
which only the JSON form contains."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, TextIO, TypeVar

from foltr.core.errors import Mistake
from foltr.core.system.files import strict_json

Tell = Callable[[str], None]
Level = Literal["info", "warning", "error"]
FORMS = ("text", "json")
T = TypeVar("T")
Stamp = tuple[int, int, int] | None


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


class Reloaded(Generic[T]):
    """A value that is read again when its files change. `value` is the current one.

    read: makes the value from the files; raises a Mistake if they do not fit together, and then
        the earlier value stays. Files that are replaced one after the other do not fit for a
        moment, so a problem is logged only if it is still there at the next call of `refresh`.
    tell: writes a line of the log."""

    def __init__(self, files: Iterable[Path], read: Callable[[], T], tell: Tell) -> None:
        self.files, self._read, self._tell = tuple(files), read, tell
        self._seen = self._stamps()  # before the files are read: a later change is noticed
        self._failed: tuple[Stamp, ...] | None = None
        self.value = read()

    def refresh(self) -> bool:
        """Read the files again if they have changed. Returns whether there is a new value."""
        now = self._stamps()
        if now == self._seen:
            return False
        try:
            self.value = self._read()
        except (Mistake, OSError) as error:
            if now == self._failed:
                self._seen = now  # told now, and not again until the files change
                why = f"{error}: what was read before stays in use"
                self._tell(Event(f"a changed file cannot be used: {why}", "reload", "warning"))
            self._failed = now
            return False
        self._seen, self._failed = now, None
        return True

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(map(_stamp, self.files))


def _stamp(file: Path) -> Stamp:
    """What changes when a file is replaced or written; None if there is no file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
