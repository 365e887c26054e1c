"""`foltr status` and `foltr clean`: what lies in a folder of runs, and what of it can go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foltr.errors import Mistake
from foltr.results import Runs, Skipped, load_runs
from foltr.runs.folder import Folder
from foltr.runs.lock import FILE as CLAIM
from foltr.runs.lock import Busy, Claim, claimed
from foltr.sweeps.heartbeat import forget_old
from foltr.sweeps.state import Overview, Sweeps

IDENTITY = re.compile(r"^\w+-\w+-\w+-[0-9a-f]{16}$")  # the name of a run's folder
ASIDE = ".*.[0-9]*.[0-9]*"  # what `write_whole` leaves behind when it is killed


def run_folders(path: Path) -> list[Path]:
    """Folders that are a run's by name and content, finished or not: foltr deletes nothing
    else."""
    if not path.is_dir():
        raise Mistake(f"no runs at {path}: it is not a folder")
    marks = ("config.toml", "result.json", "failed.json", CLAIM)
    named = [
        folder
        for folder in path.iterdir()
        if IDENTITY.search(folder.name) and not folder.is_symlink()
    ]
    return sorted(folder for folder in named if any((folder / mark).is_file() for mark in marks))


@dataclass(frozen=True)
class Status:
    sweeps: tuple[Overview, ...]
    runs: Runs
    running: tuple[Path, ...]
    interrupted: tuple[Path, ...]  # can be gone on with
    failed: tuple[tuple[Path, str], ...]

    @property
    def unread(self) -> list[Skipped]:
        """What is neither a result nor known to have failed."""
        failed = {path for path, _ in self.failed}
        return [skipped for skipped in self.runs.skipped if skipped.path not in failed]


def status(path: Path) -> Status:
    folders = run_folders(path)
    open_ones = [folder for folder in folders if not (folder / "result.json").exists()]
    running = [folder for folder in open_ones if claimed(folder) is not None]
    failed = [
        (folder, why)
        for folder in open_ones
        if folder not in running and (why := Folder(folder).failure())
    ]
    out = {*running, *(folder for folder, _ in failed)}
    interrupted = [folder for folder in open_ones if folder not in out]
    return Status(
        tuple(Sweeps(path).overviews()),
        load_runs(path),
        tuple(running),
        tuple(interrupted),
        tuple(failed),
    )


@dataclass(frozen=True)
class Removal:
    path: Path
    why: str
    run: Path | None = None  # the run's folder that it is, or lies in
    finished: bool = False  # whether that run was


def removals(
    path: Path, interrupted: bool = False, finished: bool = False, damaged: bool = False
) -> Iterator[Removal]:  # fmt: skip
    """What `clean` would remove. Never a run that is being made; those that may still be wanted
    only when told."""
    now, folders = status(path), run_folders(path)
    done = [folder for folder in folders if (folder / "result.json").exists()]
    for folder in folders:
        if folder not in now.running:
            yield from (
                Removal(file, "half-written", folder, folder in done)
                for file in folder.glob(ASIDE)
            )
    for folder, why in [*((folder, f"failed: {error}") for folder, error in now.failed),
                        *((folder, "interrupted") for folder in now.interrupted)]:  # fmt: skip
        if not (folder / "checkpoint.npz").exists():
            yield Removal(
                folder,
                why if why != "interrupted" else "stopped before anything was saved",
                folder,
            )
        elif interrupted:
            yield Removal(folder, why, folder)
    if finished:
        yield from (Removal(folder, "finished", folder, True) for folder in done)
        yield from (Removal(overview.record.path, "record of a sweep") for overview in now.sweeps)
    elif damaged:
        unreadable = {folder: why for folder, why in now.runs.skipped if "cannot be read" in why}
        yield from (
            Removal(folder, unreadable[folder], folder, True)
            for folder in done
            if folder in unreadable
        )


def remove(path: Path, found: list[Removal]) -> Iterator[Removal]:
    """Remove them one by one, runs under their claim and only if they are as they were; those that
    really went."""
    forget_old(path)
    for removal in found:
        if removal.run is None:
            removal.path.unlink(missing_ok=True)
            yield removal
        elif removal.run.exists() and _removed(removal, removal.run):
            yield removal


def _removed(removal: Removal, run: Path) -> bool:
    try:
        with Claim(run).held(wait=False):
            if (run / "result.json").exists() != removal.finished:
                return False  # somebody finished it meanwhile
            if removal.path == run:
                shutil.rmtree(run)
            else:
                removal.path.unlink(missing_ok=True)
    except Busy:
        return False
    return True
