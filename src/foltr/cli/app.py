"""The command line: registers the commands, one module each."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from foltr.cli import data, device, keys
from foltr.cli.audit import audit
from foltr.cli.backup import backup, check, restore
from foltr.cli.components import list_components, show
from foltr.cli.demo import demo
from foltr.cli.deploy import gateway, node, serve, simulate_devices
from foltr.cli.export import export
from foltr.cli.plan import plan
from foltr.cli.privacy import privacy
from foltr.cli.report import report, watch
from foltr.cli.run import ExperimentCommand, run
from foltr.cli.status import clean, status
from foltr.cli.sweep import sweep
from foltr.cli.tools import with_error_messages
from foltr.cli.tune import tune
from foltr.cli.unlearn import unlearn

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "demo": demo,
    "list": list_components,
    "show": show,
    "sweep": sweep,
    "tune": tune,
    "status": status,
    "report": report,
    "watch": watch,
    "clean": clean,
    "export": export,
    "audit": audit,
    "unlearn": unlearn,
    "privacy": privacy,
    "serve": serve,
    "node": node,
    "gateway": gateway,
    "simulate-devices": simulate_devices,
    "check": check,
    "backup": backup,
    "restore": restore,
    "plan": plan,
}
GROUPS = {"data": data.app, "device": device.app, "keys": keys.app}


def _print_version(asked: bool) -> None:
    if asked:
        from foltr import __version__

        print(f"foltr {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def command_line(*names: str) -> typer.Typer:
    """The command line with the commands of these names."""
    made = typer.Typer(
        help="Simulate federated online learning to rank: run, compare and audit experiments.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    made.callback()(options)
    for name in names:
        if name in COMMANDS:
            kind = ExperimentCommand if name == "run" else None
            made.command(name, cls=kind)(with_error_messages(COMMANDS[name]))
        else:
            made.add_typer(GROUPS[name], name=name)
    return made


app = command_line(*COMMANDS, *GROUPS)


def open_closed_streams() -> None:
    """Give a stream that the caller has closed (`foltr run >&-`) the null device: a file that is
    opened later must not take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def main() -> None:
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot print a character gets a question mark, not a traceback
            stream.reconfigure(errors="replace")
    # A faster start. Imports make many objects and no garbage: collect it less often. Threads of
    # OpenBLAS sleep while they wait. Only the command that is called is described to typer.
    gc.set_threshold(50_000)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    (command_line(named) if named in COMMANDS else app)()
