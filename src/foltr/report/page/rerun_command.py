"""The command that makes a run again, with every field given."""

from __future__ import annotations

import shlex
from typing import Any

from foltr.results import Recorded

COMMAND = "foltr run"


def command(run: Recorded) -> str:
    return " ".join([COMMAND, *(f"{name} {value}" for name, value in options(run).items())])


def options(run: Recorded) -> dict[str, str]:
    """Options and their values, quoted for a shell: {"--data": "'Synthetic(queries=60)'",
    "--seed": "1", ...}."""
    found = {
        f"--{name.replace('_', '-')}": quoted(_as_text(value))
        for name, value in run.config.items()
    }
    if run.use:
        found["--use"] = " --use ".join(map(quoted, run.use))
    if run.final.get("engine", "local") != "local":  # the default
        found["--engine"] = quoted(str(run.final["engine"]))
    return found


def quoted(text: str) -> str:
    """A text as one word of a shell. Specs hold single quotes, so double quotes are used where
    they are safe: they are easier to read."""
    if "'" in text and not set(text) & set('"$`\\!\n'):
        return f'"{text}"'
    return shlex.quote(text)


def _as_text(value: Any) -> str:
    """A value as the command line reads it. A number is written by its repr, which loses
    nothing."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
