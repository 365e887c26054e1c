"""Makes the two reference pages from the code when the site is built, so that they cannot rot (a
hook of mkdocs)."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import typer

from foltr.cli.app import app
from foltr.spec import FAMILIES, described


def on_page_markdown(markdown: str, **_: Any) -> str:
    for mark, make in {
        "<!-- every command -->": commands,
        "<!-- every component -->": components,
    }.items():
        if mark in markdown:
            markdown = markdown.replace(mark, "\n".join(make()))
    return markdown


def commands() -> Iterator[str]:
    """Every command with its help, arguments and options."""
    for name, command in named(typer.main.get_command(app), "foltr"):
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        options = [param for param in command.params if param.param_type_name == "option"]
        usage = [name, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])]
        yield f"\n## {name}\n\n{inspect.cleandoc(command.help or '')}\n\n"
        yield f"```text\n{' '.join(usage)}\n```\n"
        yield from _table("argument", ((_argument(param), _meaning(param)) for param in arguments))
        yield from _table("option", ((_option(param), _meaning(param)) for param in options))


def named(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands below a command, each with all words of its name."""
    inner = getattr(command, "commands", None)  # of a group
    if inner is None:
        yield name, command
    for word, part in (inner or {}).items():
        yield from named(part, f"{name} {word}")


def _argument(param: Any) -> str:
    shown = (param.metavar or param.name).upper().strip("[]")
    return shown if param.required else f"[{shown}]"


def _option(param: Any) -> str:
    return ", ".join(param.opts) + (f" {param.metavar}" if param.metavar else "")


def _meaning(param: Any) -> str:
    said, default = " ".join((param.help or "").split()), param.default
    known = (
        param.required
        or default is None
        or default == []
        or isinstance(default, bool)
        or "Default:" in said
    )
    return said if known else f"{said} Default: {default}"


def _table(kind: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    told = [f"| `{name}` | {_escaped(text)} |" for name, text in rows]
    if told:
        yield "\n".join([f"| {kind} | |", "|---|---|", *told, ""])


def _escaped(text: str) -> str:
    """Plain text as Markdown that shows it so; what stands between backticks is left alone."""
    parts = " ".join(text.split()).split("`")
    return "`".join(
        part if i % 2 else re.sub(r"([\\|<*_])", r"\\\1", part) for i, part in enumerate(parts)
    )


def components() -> Iterator[str]:
    """Every component of every family: what it computes, its fields, where it was published."""
    for family in FAMILIES:
        yield f"\n## {family.folder}\n"
        for name, cls in family.members().items():
            yield f"\n### {name}\n"
            yield from _paragraphs(inspect.getdoc(cls) or "")
            yield from _table(
                "field",
                ((field, f"{kind} = {default}") for field, kind, default in described(cls)),
            )
            yield from _paragraphs(inspect.getdoc(inspect.getmodule(cls)) or "")


def _paragraphs(text: str) -> Iterator[str]:
    """A docstring as Markdown: prose, indented lines as text blocks, `Fields` as a list."""
    for part in filter(None, text.split("\n\n")):
        lines = part.splitlines()
        if lines[0] == "Fields":
            fields = textwrap.dedent("\n".join(lines[1:]))
            items = re.findall(r"^(\w+): (.*(?:\n .*)*)", fields, re.M)
            yield "\n".join(f"- `{name}`: {_escaped(meaning)}" for name, meaning in items) + "\n"
            continue
        for indented, group in groupby(lines, key=lambda line: line.startswith("    ")):
            block = "\n".join(group)
            yield f"```text\n{block}\n```\n" if indented else f"{_escaped(block)}\n"
