"""What all commands share."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from foltr.errors import Mistake, explained

GIVEN = (
    "A Python file with components of your own. No other code is loaded, whatever the TOML file"
    " names."
)


def told(command: Callable[..., None]) -> Callable[..., None]:
    """A user's mistake is one message and exit code 2; an interruption says how to go on."""

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # who read us has left: no more to say
        except (Mistake, FloatingPointError, MemoryError, OSError) as error:
            print(f"foltr: {explained(error)}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            print(
                f"\nfoltr: {str(stop) or 'stopped before anything was made; nothing is lost'}",
                file=sys.stderr,
            )
            raise typer.Exit(128 + getattr(stop, "signum", 2)) from None

    return call


def plain(text: str) -> Any:
    """A number, a truth or a list if it is one, as in a TOML file."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    if text in ("true", "false"):
        return text == "true"
    with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ast.literal_eval(text) if text.startswith("[") else text
    return text


def use_files(files: list[Path] | None) -> None:
    from foltr.runs.user_files import use as load

    for file in files or []:
        load(file)
