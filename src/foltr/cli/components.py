"""`foltr list` and `foltr show`: the components that an experiment is made of."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Use, trusted_code
from foltr.core.errors import Mistake, did_you_mean

if TYPE_CHECKING:
    from foltr.core.spec import Registry


def list_components(
    family: Annotated[
        str | None,
        typer.Argument(help="One family only: by its name (rankers) or its option (ranker)."),
    ] = None,
    use: Use = None,
) -> None:
    """List all components by family."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    trusted_code(use).load(None, [])
    table = Table.grid(padding=(0, 2))
    for registry in families() if family is None else [family_of(family)]:
        table.add_row(f"[bold]{registry.folder}[/bold]", f"[dim]--{families()[registry]}[/dim]")
        for name, cls in registry.members().items():
            table.add_row(f"  {name}", Text(first_sentence(cls)))
    Console().print(table)


def show(
    name: Annotated[str, typer.Argument(help="A component, e.g. PDGD.")], use: Use = None
) -> None:
    """Explain one component: its formula, its fields and its publication. `Experiment` is what all
    are part of."""
    from foltr.core.spec import find
    from foltr.experiment import Experiment

    trusted_code(use).load(None, [])
    for registry, option in families().items():
        if name in (registry.folder, option):
            raise Mistake(f"{name} is a family of components: write foltr list {name}")
    if name != "Experiment":
        registry, cls = find(name)
        family = registry.family
    else:
        family, cls = "experiment", Experiment
    print(f"{name} ({family}{'' if fields(cls) else ', no fields'})\n")
    width = min(95, shutil.get_terminal_size().columns)
    before, after = (wrapped(part, width) for part in around_fields(cls))
    parts = ["\n".join(explained_fields(cls, width)), after]
    print("\n\n".join(filter(None, [before, *parts])))


def explained_fields(cls: type, width: int) -> Iterator[str]:
    """Lines that name each field with its type, its default and its meaning."""
    if fields(cls):
        yield "Fields"
    for field, meaning in described(cls):
        yield from _wrap(field, width, 4, 6)
        yield from _wrap(meaning, width, 8, 8)


def wrapped(text: str, width: int) -> str:
    """Paragraphs as wide as a terminal. Indented lines, which are formulas and tables, stay as
    they are."""
    return "\n\n".join("\n".join(_lines(part, width)) for part in text.split("\n\n"))


def _lines(paragraph: str, width: int) -> Iterator[str]:
    for kept, lines in groupby(paragraph.splitlines(), key=lambda line: line.startswith("    ")):
        block = list(lines)
        yield from block if kept else _wrap(" ".join(block), width)


def _wrap(text: str, width: int, first: int = 0, others: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * others,
        break_on_hyphens=False,
        break_long_words=False,
    )


def described(cls: type) -> Iterator[tuple[str, str]]:
    """Each field with type and default as they are written, and its meaning: what its metadata
    (of an experiment) or the docstring say of it under `Fields`, or nothing."""
    from foltr.core.spec import brief

    said = next((part for part in _paragraphs(cls) if part.startswith("Fields\n")), "")
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {5}.*)*)", said, re.MULTILINE))
    for field in fields(cls):
        kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        kind = re.sub(r"^Part\[(.*)\]$", r"\1", kind)
        made = field.default_factory
        value = field.default if made is MISSING else made()
        usual = brief(value) if is_dataclass(value) else repr(value)
        default = " (required)" if value is MISSING else f" = {usual}"
        meaning = field.metadata.get("help", meanings.get(field.name, ""))
        yield f"{field.name}: {kind}{default}", " ".join(meaning.split())


def around_fields(cls: type) -> tuple[str, str]:
    """The docstring of a component before its part `Fields`, and after it."""
    parts = _paragraphs(cls)
    at = [i for i, part in enumerate(parts) if part.startswith("Fields\n")] or [len(parts)]
    return "\n\n".join(parts[: at[0]]), "\n\n".join(parts[at[0] + 1 :])


def _paragraphs(cls: type) -> list[str]:
    return (inspect.getdoc(cls) or "").split("\n\n")


def first_sentence(cls: type) -> str:
    text = " ".join((cls.__doc__ or "").split())
    return re.split(r"(?<=\S\.) ", text, maxsplit=1)[0]  # not at the dot of a product


def families() -> dict[Registry, str]:
    """All families, each with the name of the option that takes its components: a field of
    `Experiment`, or `measures`."""
    from typing import get_args

    from foltr.core.spec import FAMILIES, hints_of
    from foltr.experiment import Experiment

    hints = hints_of(Experiment)
    names = {
        kind: field.name
        for field in fields(Experiment)
        for kind in (hints[field.name], *get_args(hints[field.name]))
    }
    return {registry: names.get(registry.protocol, registry.folder) for registry in FAMILIES}


def family_of(name: str) -> Registry:
    """A family by its own name or by that of its field: rankers or ranker, sources or data."""
    known = families()
    named = {field: registry for registry, field in known.items()}
    named |= {registry.folder: registry for registry in known}
    if name not in named:
        raise Mistake(f"no family is called {name!r}: {did_you_mean(name, named)}")
    return named[name]
