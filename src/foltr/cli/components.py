"""`foltr list` and `foltr show`: the components that an experiment is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Use, trusted_code
from foltr.errors import Mistake, did_you_mean

if TYPE_CHECKING:
    from foltr.spec import Registry


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
    """Explain one component: its formula, its fields and its publication."""
    import inspect

    from foltr.spec import described, find

    trusted_code(use).load(None, [])
    family, cls = find(name)
    print(f"{name} ({family.family})\n\n{inspect.getdoc(cls)}\n")
    lines = [f"  {field}: {kind} = {default}" for field, kind, default in described(cls)]
    print("\n".join(["types and defaults:", *lines]) if lines else "no fields")
    about = inspect.getdoc(inspect.getmodule(cls))
    print(f"\n{about}" if about else "")


def first_sentence(cls: type) -> str:
    import re

    text = " ".join((cls.__doc__ or "").split())
    return re.split(r"(?<=\S\.) ", text, maxsplit=1)[0]  # not at the dot of a product


def families() -> dict[Registry, str]:
    """All families, each with the name of the field of `Experiment` that takes its components."""
    from dataclasses import fields
    from typing import get_args

    from foltr.experiment import Experiment
    from foltr.spec import FAMILIES, hints_of

    hints = hints_of(Experiment)
    names = {
        kind: field.name
        for field in fields(Experiment)
        for kind in (hints[field.name], *get_args(hints[field.name]))
    }
    return {registry: names[registry.protocol] for registry in FAMILIES}


def family_of(name: str) -> Registry:
    """A family by its own name or by that of its field: rankers or ranker, sources or data."""
    known = families()
    named = {field: registry for registry, field in known.items()}
    named |= {registry.folder: registry for registry in known}
    if name not in named:
        raise Mistake(f"no family is called {name!r}: {did_you_mean(name, named)}")
    return named[name]
