"""`foltr status` and `foltr clean`: what lies in a folder of runs, and what of it can go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foltr.claim import FILE as CLAIM
from foltr.claim import claimed
from foltr.errors import Mistake
from foltr.files import told
from foltr.lease import forget_old
from foltr.overview import Overview, Sweeps
from foltr.record import Folder
from foltr.results import Runs, load_runs

IDENTITY = re.compile(r"^\w+-\w+-\w+-[0-9a-f]{16}$")  # the name of a run's folder
ASIDE = ".*.[0-9]*.[0-9]*"  # what `write_whole` leaves behind when it is killed


def run_folders(path: Path) -> list[Path]:
    """Folders that are a run's by name and content, finished or not: foltr deletes nothing else."""
    if not path.is_dir():
        raise Mistake(f"no runs at {path}: it is not a folder")
    marks = ("config.toml", "result.json", "failed.json", CLAIM)
    named = [folder for folder in path.iterdir() if IDENTITY.search(folder.name) and not folder.is_symlink()]
    return sorted(folder for folder in named if any((folder / mark).is_file() for mark in marks))


@dataclass(frozen=True)
class Status:
    sweeps: tuple[Overview, ...]
    runs: Runs
    running: tuple[Path, ...]
    interrupted: tuple[Path, ...]  # can be gone on with
    failed: tuple[tuple[Path, str], ...]


def status(path: Path) -> Status:
    folders = run_folders(path)
    open_ones = [folder for folder in folders if not (folder / "result.json").exists()]
    running = [folder for folder in open_ones if claimed(folder) is not None]
    failed = [(folder, why) for folder in open_ones if folder not in running and (why := Folder(folder).failure())]
    out = {*running, *(folder for folder, _ in failed)}
    interrupted = [folder for folder in open_ones if folder not in out]
    return Status(tuple(Sweeps(path).overviews()), load_runs(path), tuple(running), tuple(interrupted), tuple(failed))


@dataclass(frozen=True)
class Removal:
    path: Path
    why: str


def removals(path: Path, interrupted: bool, finished: bool, damaged: bool = False) -> Iterator[Removal]:
    """What `clean` would remove. Never a run that is being made; those that may still be wanted only when told."""
    now = status(path)
    for folder in run_folders(path):
        if folder not in now.running:
            yield from (Removal(file, "half-written") for file in folder.glob(ASIDE))
    for folder, error in now.failed:
        yield Removal(folder, f"failed: {error}")
    for folder in now.interrupted:
        if not (folder / "checkpoint.npz").exists():
            yield Removal(folder, "stopped before anything was saved")
        elif interrupted:
            yield Removal(folder, "interrupted")
    if damaged:
        ours = set(run_folders(path))
        yield from (Removal(p, why) for p, why in now.runs.skipped if p in ours and "cannot be read" in why)
    if finished:
        yield from (Removal(folder, "finished") for folder in run_folders(path) if (folder / "result.json").exists())
        yield from (Removal(overview.record.path, "record of a sweep") for overview in now.sweeps)


def remove(path: Path, found: list[Removal]) -> None:
    """Remove those that nobody has begun to work on meanwhile."""
    forget_old(path)
    for removal in found:
        with told(removal.path):
            if removal.path.is_file():
                removal.path.unlink()
            elif removal.path.is_dir() and claimed(removal.path) is None:
                shutil.rmtree(removal.path)
