"""`foltr status`: the sweeps and runs in a folder, and their states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.errors import Mistake

if TYPE_CHECKING:
    from foltr.results import Runs, Skipped
    from foltr.sweeps.state import Overview


def status(runs: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """Show which sweeps and runs of a folder are finished, running, interrupted, failed
    or damaged."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foltr.sweeps.panel import failure_lines, time_left

    found = states_of(runs)
    table = Table("sweep", "runs", "done", "running", "failed", "damaged", "time left")
    for sweep in found.sweeps:
        state = sweep.look()
        counts = (len(state.running), len(state.failed), len(state.damaged))
        numbers = map(str, (state.planned, state.done, *counts))
        table.add_row(Text(sweep.record.title), *numbers, time_left(state))
    if found.sweeps:
        Console().print(table)
    print(
        f"{len(found.runs)} finished runs, {len(found.running)} running,"
        f" {len(found.interrupted)} interrupted, {len(found.failed)} failed,"
        f" {len(found.damaged)} damaged, {len(found.unreadable)} unreadable"
    )
    for line in failure_lines([(path.name, error) for path, error in found.failed]):
        print(line)
    for path, why, _ in found.damaged:
        print(f"damaged: {path.name} {without_path(path, why)}")
    for path, why, _ in found.unreadable:
        print(f"skipped: {path.name}: {why}")


def without_path(path: Path, message: str) -> str:
    """A message about a folder, where the folder is named beside it."""
    return message.removeprefix(f"{path} ")


@dataclass(frozen=True)
class States:
    """What is in a folder of runs."""

    sweeps: tuple[Overview, ...]
    runs: Runs  # finished
    folders: tuple[Path, ...]  # of all runs that foltr made here, finished or not
    running: tuple[Path, ...]
    interrupted: tuple[Path, ...]  # can be continued
    failed: tuple[tuple[Path, str], ...]  # with the error

    @property
    def damaged(self) -> list[Skipped]:
        """Finished runs whose files are damaged, or cannot be read."""
        return [skipped for skipped in self.runs.skipped if skipped.damaged]

    @property
    def unreadable(self) -> list[Skipped]:
        """Neither finished, failed nor damaged."""
        failed = {path for path, _ in self.failed}
        others = [skipped for skipped in self.runs.skipped if not skipped.damaged]
        return [skipped for skipped in others if skipped.path not in failed]

    @property
    def finished(self) -> list[Path]:
        from foltr.runs.folder import Folder

        return [folder for folder in self.folders if Folder(folder).is_finished]


def states_of(path: Path) -> States:
    from foltr.results import load_runs
    from foltr.runs.folder import Folder
    from foltr.runs.identity import folders_of_foltr
    from foltr.runs.lock import claimed
    from foltr.sweeps.state import Sweeps

    if not path.is_dir():
        raise Mistake(f"no runs at {path}: it is not a folder")
    folders = folders_of_foltr(path)
    unfinished = [folder for folder in folders if not Folder(folder).is_finished]
    running = [folder for folder in unfinished if claimed(folder) is not None]
    stopped = [folder for folder in unfinished if folder not in running]
    failed = [(folder, error) for folder in stopped if (error := Folder(folder).failure())]
    return States(
        tuple(Sweeps(path).overviews()),
        load_runs(path),
        tuple(folders),
        tuple(running),
        tuple(folder for folder in stopped if folder not in dict(failed)),
        tuple(failed),
    )
