"""`foltr status` and `foltr clean`: the sweeps and runs in a folder, their states, and how to
delete what is no longer useful."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.core.errors import Mistake

if TYPE_CHECKING:
    from foltr.report.results import Runs, Skipped
    from foltr.simulation.sweeps.state import Overview

PARTLY_WRITTEN = ".*.[0-9]*.[0-9]*"  # files that `write_whole` leaves behind when it is killed


def status(runs: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """Show which sweeps and runs of a folder are finished, running, interrupted, failed
    or damaged."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foltr.simulation.sweeps.state import failure_lines, time_left

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
        from foltr.simulation.runs.folder import Folder

        return [folder for folder in self.folders if Folder(folder).is_finished]


def states_of(path: Path) -> States:
    from foltr.core.system.lock import claimed
    from foltr.report.results import load_runs
    from foltr.simulation.runs.folder import Folder
    from foltr.simulation.runs.identity import folders_of_foltr
    from foltr.simulation.sweeps.state import Sweeps

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


def clean(
    runs: Annotated[Path, typer.Argument(help="A folder of runs.")],
    interrupted: Annotated[
        bool, typer.Option("--interrupted", help="Also runs that could be continued.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Also finished runs and the records of sweeps.")
    ] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also finished runs whose files are damaged.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete. Without it, only list what would be deleted.")
    ] = False,
) -> None:
    """List what is no longer useful in a folder of runs, and delete it with --yes.

    Listed by default: failed runs, interrupted runs without a checkpoint, and partly written
    files.

    Interrupted runs with a checkpoint are included only with --interrupted, finished runs only
    with --finished, and finished runs whose files are damaged only with --damaged: the command
    that made a damaged run makes it again. A run in progress is never deleted."""
    states = states_of(runs)
    planned = list(deletions(states, interrupted, finished, damaged))
    count = 0
    for deletion in delete(runs, planned) if yes else planned:
        print(f"{'deleted' if yes else 'would delete'}: {deletion.path} ({deletion.why})")
        count += 1
    if not planned:
        print("nothing to delete")
    else:
        print(f"{count} deleted" if yes else f"{count} in total: add --yes to delete them")
    if states.damaged and not (damaged or finished):
        print(
            f"{len(states.damaged)} damaged: the command that made a run makes it again, or"
            " --damaged deletes it"
        )


@dataclass(frozen=True)
class Deletion:
    path: Path
    why: str
    run: Path | None = None  # the run folder that is deleted, or contains the file
    finished: bool = False  # whether that run was finished


def deletions(
    states: States, interrupted: bool = False, finished: bool = False, damaged: bool = False
) -> Iterator[Deletion]:
    """What `clean` would delete: never a run in progress, and what may still be useful only if
    asked for."""
    from foltr.simulation.runs.folder import Folder

    done = states.finished
    for folder in states.folders:
        if folder not in states.running:
            for file in folder.glob(PARTLY_WRITTEN):
                yield Deletion(file, "partly written", folder, folder in done)
    for folder, error in states.failed:
        if interrupted or not Folder(folder).has_checkpoint:
            yield Deletion(folder, f"failed: {error}", folder)
    for folder in states.interrupted:
        if not Folder(folder).has_checkpoint:
            yield Deletion(folder, "interrupted without a checkpoint", folder)
        elif interrupted:
            yield Deletion(folder, "interrupted", folder)
    if finished:
        yield from (Deletion(folder, "finished", folder, True) for folder in done)
        yield from (Deletion(sweep.record.path, "record of a sweep") for sweep in states.sweeps)
        for sweep in states.sweeps:
            path = sweep.record.path
            tuned = path.with_name(path.name.replace(".tuning.", ".tuned."))
            if tuned != path and tuned.is_file():
                yield Deletion(tuned, "record of chosen runs")
    elif damaged:
        why = {skipped.path: skipped.why for skipped in states.damaged}
        for folder in (folder for folder in done if folder in why):
            yield Deletion(folder, without_path(folder, why[folder]), folder, True)


def delete(path: Path, found: list[Deletion]) -> Iterator[Deletion]:
    """Delete them one by one; yields those that were deleted. A run is deleted under its lock, and
    only if it is still in the state that was seen."""
    from foltr.simulation.sweeps.workers import forget_old

    forget_old(path)
    for deletion in found:
        if deletion.run is None:
            deletion.path.unlink(missing_ok=True)
            yield deletion
        elif deletion.run.exists() and _deleted(deletion, deletion.run):
            yield deletion


def _deleted(deletion: Deletion, run: Path) -> bool:
    from foltr.core.system.lock import Busy, Claim
    from foltr.simulation.runs.folder import Folder

    try:
        with Claim(run).held(wait=False):
            if Folder(run).is_finished != deletion.finished:
                return False  # another process has finished it meanwhile
            if deletion.path == run:
                shutil.rmtree(run)
            else:
                deletion.path.unlink(missing_ok=True)
    except Busy:
        return False
    return True
