"""`foltr restore`: restore the state of a server from a backup, into an empty folder.

Everything is checked before anything is written. The restored state is marked with the file
`restored.json`, because nodes may have answered rounds since the backup was made, and they answer
no round twice. The server continues only when it is known after which round
(`deployment/server/continuing.py`).

A node that was forgotten after the backup was made is marked in the roster, which is not part of
the state folder. `foltr serve` forgets such a node again."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import foltr
from foltr.core.errors import Mistake, require
from foltr.core.system.files import regular, text_of, write_whole, writing
from foltr.core.system.lock import FILE as LOCK
from foltr.core.system.log import Tell
from foltr.core.system.private import replacing_private
from foltr.deployment.guarantee import only_one
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import parse_roster, read_roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.state import (
    AGREEMENT,
    ASKED,
    CONTRIBUTED,
    FORGOTTEN,
    RANKER,
    ROSTER,
    ROUNDS,
    SEED,
    TOOK_PART,
)
from foltr.deployment.settings import beside, read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.folder import UNREADABLE

MARK = "restored.json"


def restore(backup: Path, file: Path, code: Code, tell: Tell = print) -> Manifest:
    """Restore the state of the server of a settings file. Returns what the backup says about
    itself."""
    agreed, table = read_server(file, code)
    about, files = read_backup(backup)
    check_federation(backup, about, files, agreed)
    path, state = beside(file, table.roster), beside(file, table.state)
    copy = parse_roster(files[ROSTER_COPY], f"the roster in {backup}")
    roster = read_roster(path) if path.exists() else copy
    require(
        roster.follows(copy),
        f"{path} does not fit the roster in {backup}: a node was removed or changed. Restore its"
        " entry; or move the file away, and the roster of the backup is used",
    )
    check_empty(state, file)  # before anything is changed there
    with writing(state):
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.chmod(0o700)
    missing = not path.exists()
    with only_one(state, "restored server"):
        clear_unfinished(state)
        check_empty(state, file)
        kept = {state / name: content for name, content in files.items() if name != ROSTER_COPY}
        _write(state, backup, about, kept | ({path: files[ROSTER_COPY]} if missing else {}))
    if missing:
        tell(
            f"{path} did not exist: it is the roster of the backup now. Nodes that were added,"
            " revoked or forgotten since then, and keys that were replaced, are not in it: see"
            f" `foltr keys list --roster {path}`"
        )
    for line in warnings(roster, copy, files):
        tell(line)
    return about


def check_empty(state: Path, file: Path) -> None:
    """Refuse a state folder with files, except those of an interrupted restore."""
    if state.exists() and not is_unfinished(read_mark(state)):
        with writing(state):
            others = [found.name for found in state.iterdir() if found.name != LOCK]
        full = f"{state} is not empty: move its files away, or set another state in {file}"
        require(not others, full)


def check_federation(
    backup: Path, about: Manifest, files: dict[str, bytes], agreed: Agreement
) -> None:
    """Refuse a backup of another federation."""
    text = files[AGREEMENT].decode("utf-8", "replace")
    found = agreed.differences(text, "in the settings", "in the backup")
    if found or about.federation != agreed.id.hex():
        differ = "; ".join(found) or "its manifest names another one"
        raise Mistake(f"{backup} is of another federation: {differ}")


def warnings(roster: Roster, copy: Roster, files: dict[str, bytes]) -> Iterable[str]:
    """What has happened to nodes since the backup was made."""
    try:
        about = json.loads(files.get(FORGOTTEN, b"{}"))
        known = {*about.get("nodes", ()), *about.get("pending", ())}
    except UNREADABLE as error:
        raise Mistake(f"{FORGOTTEN} in the backup cannot be read: {error}") from None
    before = {seat.name: seat for seat in copy.seats}
    for seat in roster.seats:
        if seat.forgotten and seat.name not in known:
            yield (
                f"{seat.name} was forgotten after this backup was made: `foltr serve` forgets it"
                " again, before the next round"
            )
        elif seat.revoked and not (seat.name in before and before[seat.name].revoked):
            if seat.name not in known:
                yield (
                    f"{seat.name} was revoked after this backup was made. If it was forgotten,"
                    f" too: foltr serve FILE --forget {seat.name}"
                )


def _write(state: Path, backup: Path, about: Manifest, files: dict[Path, bytes]) -> None:
    """Write these files, or nothing in the state folder."""
    mark: dict[str, Any] = {
        "backup": str(backup.resolve()),
        "round": about.round,
        "made": about.made,
        "restored": now_text(),
        "complete": False,
    }
    try:
        replace_mark(state, mark)
        with writing(state):
            (state / "models").mkdir(mode=0o700)
        for file, content in files.items():
            write_whole(file, content)
        replace_mark(state, {**mark, "complete": True})
    except BaseException:
        _remove(state)
        raise


def clear_unfinished(state: Path) -> None:
    """Remove what an interrupted restore has left."""
    if is_unfinished(read_mark(state)):
        _remove(state)


def _remove(state: Path) -> None:
    """Delete what a restore has written; its mark last."""
    found = [path for path in state.iterdir() if path.name not in (LOCK, MARK)]
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    (state / MARK).unlink(missing_ok=True)


def read_mark(state: Path) -> dict[str, Any] | None:
    """The mark of a restored state; None if there is none."""
    file = state / MARK
    if not file.exists():
        return None
    try:
        mark = json.loads(text_of(file))
        return {**mark, "round": int(mark["round"])}
    except UNREADABLE as error:
        raise Mistake(f"{file} cannot be read ({error}): restore the backup again") from None


def is_unfinished(mark: dict[str, Any] | None) -> bool:
    return mark is not None and mark.get("complete") is not True


def replace_mark(state: Path, mark: Mapping[str, Any]) -> None:
    """Replace the mark of a restored state."""
    write_whole(state / MARK, json.dumps(mark) + "\n")


def remove_mark(state: Path) -> None:
    """Remove the mark: the server continues."""
    with writing(state / MARK):
        (state / MARK).unlink(missing_ok=True)


# The file of a backup: a tar archive with a manifest, which lists the size and the hash of
# every other file.

FORMAT = 1  # of the archive
MANIFEST, SUM = "manifest.json", "manifest.sha256"
ROSTER_COPY, CHECKPOINT = "roster.toml", "checkpoint.npz"
STATE = (
    AGREEMENT,
    CHECKPOINT,
    FORGOTTEN,
    ROUNDS,
    ASKED,
    CONTRIBUTED,
    TOOK_PART,
    ROSTER,
    SEED,
    RANKER,
)
NEEDED = {AGREEMENT, CHECKPOINT, ROSTER, ROSTER_COPY}
MODEL = re.compile(r"models/\d{8,12}\.npy")
MOST_BYTES = 1 << 24  # of the manifest


@dataclass(frozen=True)
class Manifest:
    """What a backup says about itself."""

    federation: str  # `Agreement.id`, as hexadecimal digits
    round: int  # rounds that were done
    made: str  # when, in UTC
    foltr: str = foltr.__version__
    format: int = FORMAT


def is_known(name: str) -> bool:
    """Whether a backup may have a file of this name. A name never leads out of the folder."""
    return name in STATE or name == ROSTER_COPY or MODEL.fullmatch(name) is not None


def write_backup(path: Path, about: Manifest, files: Mapping[str, bytes]) -> None:
    """Write a backup. An interruption or a full disk leaves no file."""
    if path.exists() or path.is_symlink():
        raise Mistake(f"{path} exists, and backups are never overwritten: choose another name")
    listed = {name: {"size": len(c), "sha256": _sum(c)} for name, c in sorted(files.items())}
    manifest = json.dumps({**asdict(about), "files": listed}, indent=1).encode() + b"\n"
    members = {MANIFEST: manifest, SUM: f"{_sum(manifest)}\n".encode(), **files}
    when = int(datetime.fromisoformat(about.made).timestamp())
    with replacing_private(path) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for member, content in members.items():
                info = tarfile.TarInfo(member)
                info.size, info.mode, info.mtime = len(content), 0o600, when
                archive.addfile(info, io.BytesIO(content))


def read_backup(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Read a backup, and check every byte of it against the manifest."""
    try:
        with regular(path.resolve()) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            members = _members(archive)
            about, files = _checked(members)
    except FileNotFoundError:
        raise Mistake(f"there is no file {path}: give a backup that `foltr backup` made") from None
    except (OSError, tarfile.TarError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Mistake(f"{path} is no backup, or is damaged ({why}): use another one") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Mistake(f"{path} is no backup, or is damaged ({error}): use another one") from None
    return about, files


def _members(archive: tarfile.TarFile) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for info in archive:
        known = is_known(info.name) or info.name in (MANIFEST, SUM)
        plain = info.isreg() and not info.issparse()  # holes would be read as zeros, without end
        if not plain or not known or info.name in found:
            raise ValueError(f"it has an unexpected member {info.name[:100]!r}")
        opened = archive.extractfile(info)
        assert opened is not None  # a regular file
        found[info.name] = opened.read()
        if len(found[info.name]) != info.size:
            raise ValueError(f"{info.name} is cut")
    return found


def _checked(members: dict[str, bytes]) -> tuple[Manifest, dict[str, bytes]]:
    if not {MANIFEST, SUM} <= members.keys():
        raise ValueError("it has no manifest")
    text, sum = members.pop(MANIFEST), members.pop(SUM)
    if len(text) > MOST_BYTES or sum.decode().strip() != _sum(text):
        raise ValueError("its manifest is not as it was written")
    said: dict[str, Any] = json.loads(text)
    files = said.pop("files")
    require(
        said.get("format") == FORMAT,
        f"its format is {said.get('format')}, and this foltr reads {FORMAT}: update foltr",
    )
    about = Manifest(**said)
    if members.keys() != files.keys() or not members.keys() >= NEEDED:
        raise ValueError("files are missing")
    for name, content in members.items():
        if files[name] != {"size": len(content), "sha256": _sum(content)}:
            raise ValueError(f"{name} is not as it was written")
    return about, members


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sum(content: bytes) -> str:
    return sha256(content).hexdigest()
