"""The command line: registers the commands, one module each."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from foltr.cli import data, device, keys
from foltr.cli.audit import audit
from foltr.cli.backup import backup
from foltr.cli.check import check
from foltr.cli.clean import clean
from foltr.cli.components import list_components, show
from foltr.cli.demo import demo
from foltr.cli.export import export
from foltr.cli.gateway import gateway
from foltr.cli.node import node
from foltr.cli.plan import plan
from foltr.cli.privacy import privacy
from foltr.cli.report import report, watch
from foltr.cli.restore import restore
from foltr.cli.run import run
from foltr.cli.serve import serve
from foltr.cli.simulate_devices import simulate_devices
from foltr.cli.status import status
from foltr.cli.sweep import sweep
from foltr.cli.tools import with_error_messages
from foltr.cli.unlearn import unlearn

app = typer.Typer(
    help="Simulate federated online learning to rank: run, compare and audit experiments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "demo": demo,
    "list": list_components,
    "show": show,
    "sweep": sweep,
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
for name, command in COMMANDS.items():
    app.command(name)(with_error_messages(command))
app.add_typer(data.app, name="data")
app.add_typer(device.app, name="device")
app.add_typer(keys.app, name="keys")


def _print_version(asked: bool) -> None:
    if asked:
        from foltr import __version__

        print(f"foltr {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot print a character gets a question mark, not a traceback
            stream.reconfigure(errors="replace")
    app()
