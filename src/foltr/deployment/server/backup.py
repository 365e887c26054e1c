"""`foltr backup`: a consistent copy of a server's state, even while the server runs.

The files of the state folder are read again until none of them has changed during the reading. The
copy is then the state of one moment. A server can continue from it as it continues after it was
killed at that moment. This does not need the messages of the SuperLink, so they are not copied.
Private keys are not copied either."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core.errors import Mistake, require
from foltr.core.system.files import content_of, writing
from foltr.core.system.log import Tell
from foltr.deployment.keys.roster_file import parse_roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.restore import (
    AGREEMENT,
    CHECKPOINT,
    ROSTER,
    ROSTER_COPY,
    STATE,
    Manifest,
    is_unfinished,
    now_text,
    read_mark,
    write_backup,
)
from foltr.deployment.settings import beside, read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.folder import UNREADABLE, why

PATIENCE = 60.0  # seconds after which copying is given up if the state keeps changing
PAUSE = 0.05  # seconds until the state is read again
NOTES = "backups.jsonl"  # in the state folder: the backups that were made
Stamp = tuple[int, int, int]


def backup(file: Path, code: Code, out: Path, tell: Tell = print) -> Path:
    """Back up the state of the server of a settings file. `out` is the file to be made
    (NAME.tar), or a folder in which it gets a name. Returns its path."""
    agreed, table = read_server(file, code)
    state, roster = beside(file, table.state), beside(file, table.roster)
    missing = f"{state} has no state of a server: check state in {file}"
    require((state / AGREEMENT).is_file() and (state / CHECKPOINT).is_file(), missing)
    half = f"{state} was restored only in part: run `foltr restore` again"
    require(not is_unfinished(read_mark(state)), half)
    inside = out.resolve().is_relative_to(state.resolve())
    require(not inside, f"{out} is in the state folder itself: choose a place outside of it")
    folder = out if out.suffix != ".tar" else out.parent
    require(out.is_dir() or folder.is_dir(), f"there is no folder {folder}: make it first")
    files = snapshot(state, roster)
    found = agreed.differences(files[AGREEMENT].decode(), "in the settings", "in the folder")
    require(not found, f"{state} is the state of another federation: {'; '.join(found)}")
    about = Manifest(agreed.id.hex(), rounds_in(files[CHECKPOINT], state), now_text())
    path = out / file_name(agreed, about) if out.is_dir() else out
    write_backup(path, about, files)
    try:
        _note(state, path, about)
    except Mistake as error:
        tell(f"the backup is complete, but could not be noted in {state}: {error}")
    return path


def file_name(agreed: Agreement, about: Manifest) -> str:
    made = datetime.fromisoformat(about.made)
    return f"foltr-{agreed.id.hex()[:12]}-round-{about.round:06d}-{made:%Y%m%dT%H%M%SZ}.tar"


def snapshot(state: Path, roster: Path, patience: float = PATIENCE) -> dict[str, bytes]:
    """The files of a state folder and the roster, as they were at one moment. Models are
    never changed, so only new ones are read again."""
    until, read = time.monotonic() + patience, dict[Path, tuple[Stamp, bytes]]()
    while True:
        try:
            before = dict(_stamps(state, roster))
            for path, stamp in before.items():
                if path not in read or read[path][0] != stamp:
                    read[path] = stamp, content_of(path.resolve())
            if dict(_stamps(state, roster)) == before:
                break
        except FileNotFoundError:
            pass  # a model was deleted, or a file replaced
        except OSError as error:
            raise Mistake(f"cannot read {state}: {error.strerror or error}") from None
        require(
            time.monotonic() < until,
            f"the files of {state} changed all the time for {patience:g} s: try again, or stop"
            " the server first",
        )
        time.sleep(PAUSE)
    files = {_name(path, state, roster): read[path][1] for path in before}
    require(ROSTER in files, f"{state} has no {ROSTER}: start the server once")
    require(ROSTER_COPY in files, f"there is no roster {roster}: check roster in the settings")
    parse_roster(files[ROSTER_COPY], str(roster))
    return files


def _stamps(state: Path, roster: Path) -> Iterator[tuple[Path, Stamp]]:
    """Every file of a backup that exists, and values that change when it is written."""
    models = sorted((state / "models").glob("[0-9]*.npy"))
    for path in (*(state / name for name in STATE), *models, roster):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        yield path, (found.st_mtime_ns, found.st_size, found.st_ino)


def _name(path: Path, state: Path, roster: Path) -> str:
    return ROSTER_COPY if path == roster else path.relative_to(state).as_posix()


def rounds_in(checkpoint: bytes, state: Path) -> int:
    """The number of finished rounds in a checkpoint."""
    try:
        with np.load(io.BytesIO(checkpoint), allow_pickle=False) as stored:
            return int(stored["t"])
    except UNREADABLE as error:
        raise Mistake(f"{state / CHECKPOINT} cannot be read ({why(error)})") from None


def _note(state: Path, path: Path, about: Manifest) -> None:
    line = {"path": str(path.resolve()), "round": about.round, "made": about.made}
    with writing(state / NOTES), open(state / NOTES, "a") as file:
        file.write(json.dumps(line) + "\n")


def known_backups(state: Path) -> list[dict[str, Any]]:
    """The backups of a state folder that still exist where `foltr backup` wrote them."""
    try:
        lines = (state / NOTES).read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            about = json.loads(line)
            if Path(about["path"]).exists():
                found.append(about)
        except (ValueError, KeyError, TypeError, OSError):
            continue  # cut by a crash
    return found
