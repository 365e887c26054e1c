"""The command line: parses, calls, prints."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from foltr.cli.audit import audit
from foltr.cli.evidence import clean, report, status, sweep, watch
from foltr.cli.privacy import privacy as privacy_ledger
from foltr.cli.tools import plain, told, use_files
from foltr.cli.unlearn import unlearn
from foltr.errors import Mistake, did_you_mean

app = typer.Typer(
    help="Simulate federated online learning to rank, fast enough for research.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(
    help="Data sets: what is here, what they are, and how to add one.", no_args_is_help=True
)
app.add_typer(data_app, name="data")


def field(metavar: str, meaning: str, default: str) -> Any:
    """An option for a field of `Experiment`, which checks it: here everything is text."""
    return typer.Option(metavar=metavar, help=f"{meaning} Default: {default}", show_default=False)


@app.command()
@told
def run(
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file with any of the fields below.")
    ] = None,
    data: Annotated[
        str | None, field("SPEC", "Queries, documents and labels.", "Synthetic()")
    ] = None,
    partition: Annotated[
        str | None, field("SPEC", "Which client holds, judges and does what.", "IID()")
    ] = None,
    users: Annotated[str | None, field("SPEC", "How they click.", "Cascade()")] = None,
    ranker: Annotated[str | None, field("SPEC", "What scores documents.", "Linear()")] = None,
    learner: Annotated[str | None, field("SPEC", "From clicks to an update.", "PDGD()")] = None,
    attack: Annotated[str | None, field("SPEC", "What malicious clients do.", "none")] = None,
    malicious: Annotated[
        str | None, field("INT", "How many of the clients are malicious.", "0")
    ] = None,
    roaming: Annotated[
        str | None, field("BOOL", "Draw the malicious anew in each round.", "false")
    ] = None,
    aggregator: Annotated[
        str | None, field("SPEC", "From updates to a direction.", "Mean()")
    ] = None,
    optimizer: Annotated[str | None, field("SPEC", "From a direction to a step.", "SGD()")] = None,
    privacy: Annotated[
        str | None, field("SPEC", "What is done so that messages tell less.", "none")
    ] = None,
    channel: Annotated[
        str | None, field("SPEC", "How messages travel, if not in the clear.", "none")
    ] = None,
    baseline: Annotated[
        str | None, field("SPEC", "Learn from labels instead, as a level.", "none")
    ] = None,
    unlearning: Annotated[
        str | None, field("SPEC", "How to forget those who leave.", "none")
    ] = None,
    leaving: Annotated[
        str | None, field("TEXT", "Who leaves, by groups: [[3], [7]], or malicious.", "nobody")
    ] = None,
    clients: Annotated[str | None, field("INT", "Devices in the federation.", "100")] = None,
    participation: Annotated[
        str | None, field("FLOAT", "Part of the clients in each round.", "1.0")
    ] = None,
    dropout: Annotated[
        str | None, field("FLOAT", "Chance that a message is lost.", "none")
    ] = None,
    rounds: Annotated[str | None, field("INT", "How often the server updates.", "100")] = None,
    history: Annotated[
        str | None, field("INT", "Rounds between updates that devices store.", "none")
    ] = None,
    evaluate_every: Annotated[
        str | None, field("INT", "Rounds from one evaluation to the next.", "10")
    ] = None,
    empty: Annotated[
        str | None, field("TEXT", "Queries without a relevant document: skip, zero, one.", "skip")
    ] = None,
    seed: Annotated[str | None, field("INT", "Same seed, same bits.", "1")] = None,
    use: Annotated[
        list[Path] | None, typer.Option(help="A Python file with components of your own.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local (compiled) or debug (plain definitions).")
    ] = "local",
    threads: Annotated[
        str, typer.Option(metavar="INT", help="The results do not depend on it.")
    ] = "1",
    out: Annotated[Path, typer.Option(help="Where run folders are kept.")] = Path("runs"),
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Keep the measures of each held-out query.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the final measures as one line of JSON.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Run one experiment: a TOML file, options, or both (options win). Stopped or killed, the same
    command resumes.

    A SPEC is a component with its fields, as in --learner 'PDGD(lr=0.1, sessions=5)': `foltr list`
    names them all, `foltr show PDGD` explains one."""
    given = {
        "data": data, "partition": partition, "users": users, "ranker": ranker, "learner": learner,
        "attack": attack, "malicious": malicious, "roaming": roaming, "aggregator": aggregator,
        "optimizer": optimizer, "privacy": privacy, "channel": channel, "baseline": baseline,
        "unlearning": unlearning, "leaving": leaving, "clients": clients,
        "participation": participation, "dropout": dropout, "rounds": rounds, "history": history,
        "evaluate_every": evaluate_every, "empty": empty, "seed": seed,
    }  # fmt: skip
    from foltr.cli.run_command import run_command

    fields = {name: plain(value) for name, value in given.items() if value is not None}
    run_command(file, fields, use or [], engine, plain(threads), out, per_query, json, quiet)


@app.command()
@told
def demo(
    out: Annotated[Path, typer.Option(help="Where the picture and the runs go.")] = Path(
        "foltr-demo"
    ),
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 1,
    threads: Annotated[int, typer.Option(help="The results do not depend on it.")] = 2,
) -> None:
    """Watch 100 devices learn to rank from clicks, beside a centralised learner: embedded data,
    under a minute."""
    from foltr.cli.demo import run_demo

    run_demo(out, seed, threads)


@app.command("list")
@told
def list_components(
    family: Annotated[str | None, typer.Argument(help="One family only, e.g. rankers.")] = None,
    use: Annotated[
        list[Path] | None, typer.Option(help="A Python file with components of your own.")
    ] = None,
) -> None:
    """List all components, by family."""
    from rich.console import Console
    from rich.table import Table

    from foltr.spec import FAMILIES

    use_files(use)
    folders = {registry.folder: registry for registry in FAMILIES}
    if family is not None and family not in folders:
        raise Mistake(f"no family is called {family!r}: {did_you_mean(family, folders)}")
    table = Table.grid(padding=(0, 2))
    for folder in [family] if family else folders:
        table.add_row(f"[bold]{folder}[/bold]")
        for name, cls in folders[folder].members().items():
            table.add_row(f"  {name}", (cls.__doc__ or "").strip().split("\n")[0])
    Console().print(table)


@app.command()
@told
def show(
    name: Annotated[str, typer.Argument(help="A component, e.g. PDGD.")],
    use: Annotated[
        list[Path] | None, typer.Option(help="A Python file with components of your own.")
    ] = None,
) -> None:
    """Explain one component: what it computes, its fields, where it was published."""
    import inspect

    from foltr.spec import described, find

    use_files(use)
    family, cls = find(name)
    print(f"{name} ({family.family})\n\n{inspect.getdoc(cls)}\n")
    lines = [f"  {field}: {kind} = {default}" for field, kind, default in described(cls)]
    print("\n".join(["fields:", *lines]) if lines else "no fields")
    about = inspect.getdoc(inspect.getmodule(cls))
    print(f"\n{about}" if about else "")


for command in (sweep, status, report, watch, clean, audit, unlearn):
    app.command()(told(command))
app.command("privacy")(told(privacy_ledger))


@data_app.command("list")
@told
def data_list() -> None:
    """Which data sets are known, and which are on this machine."""
    from rich.console import Console
    from rich.table import Table

    from foltr.data.catalogue import listing

    table = Table("name", "here", "queries", "documents", "features", "grades")
    for row in listing():
        counts = (
            f"{n:,}" if n is not None else ""
            for n in (row.queries, row.documents, row.features, row.grades)
        )
        table.add_row(row.name, "yes" if row.present else "no", *counts)
    Console().print(table)
    print("`foltr data info NAME` says where to get one; Synthetic() needs none.")


@data_app.command("info")
@told
def data_info(name: str) -> None:
    """What a data set is, where to get it, under which terms, and where to put it."""
    from foltr.data.catalogue import info

    print(info(name))


@data_app.command("add")
@told
def data_add(name: str, path: Path) -> None:
    """Check the files of a data set that you have, and remember where they are."""
    from foltr.data.catalogue import add

    add(name, path, print)


def _version(asked: bool) -> None:
    if asked:
        from foltr import __version__

        print(f"foltr {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that knows no bars gets question marks, not a traceback
    app()
