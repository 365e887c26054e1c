"""The exact command that makes a run again, every field explicit."""

from __future__ import annotations

import shlex
from typing import Any

from foltr.results import Recorded

COMMAND = "foltr run"


def arguments(run: Recorded) -> dict[str, str]:
    """Options and their values, quoted for a shell: {"--data": "'Synthetic(queries=60)'",
    "--seed": "1", ...}."""
    found = {option(name): quoted(_plain(value)) for name, value in run.config.items()}
    if run.use:
        found["--use"] = " --use ".join(map(quoted, run.use))
    if run.final.get("engine", "local") != "local":  # the default
        found["--engine"] = quoted(str(run.final["engine"]))
    return found


def command(run: Recorded) -> str:
    return " ".join([COMMAND, *(f"{name} {value}" for name, value in arguments(run).items())])


def quoted(text: str) -> str:
    """One word of a shell. Specs hold single quotes, so double ones are easier to read where they
    are safe."""
    if "'" in text and not set(text) & set('"$`\\!\n'):
        return f'"{text}"'
    return shlex.quote(text)


def option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _plain(value: Any) -> str:
    """As the command line reads it: a number by its repr, which loses nothing; yes or no as in a
    file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
