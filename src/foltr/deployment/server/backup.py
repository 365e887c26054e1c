"""`foltr backup` and `foltr restore`: a copy of a server's state as it is at one moment, even
while the server runs; and a server that begins with such a copy.

SQLite itself makes the copy. A server can continue from it as it continues after it was killed at
that moment. This does not need the messages of the SuperLink, so they are not copied. Private keys
are not copied either.

A restored state is marked (`ServerState.restored`), because nodes may have answered rounds since
the backup was made, and they answer no round twice. The server continues only when it is known
after which round (`deployment/server/continuing.py`).

A node that was forgotten after the backup was made is marked in the roster, which is not part of
the state. `foltr serve` forgets such a node again."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import foltr
from foltr.core.errors import Mistake, require
from foltr.core.system.files import content_of, regular, write_whole, writing
from foltr.core.system.lock import FILE as LOCK
from foltr.core.system.lock import only_one
from foltr.core.system.log import Tell
from foltr.core.system.private import replacing_private
from foltr.core.system.state_file import Unusable
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import parse_roster, read_roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server import state_folder
from foltr.deployment.server.state import FILE, RANKER, Forgotten, Restored, ServerState
from foltr.deployment.settings import beside, read_server
from foltr.experiment.user_files import Code


def backup(file: Path, code: Code, out: Path, tell: Tell = print) -> Path:
    """Back up the state of the server of a settings file. `out` is the file to be made
    (NAME.tar), or a folder in which it gets a name. Returns its path."""
    agreed, table = read_server(file, code)
    folder, roster = beside(file, table.state), beside(file, table.roster)
    old = f"{folder} is the state of an earlier foltr: start the server once, which converts it"
    require((folder / FILE).is_file() or not (folder / state_folder.AGREEMENT).is_file(), old)
    require((folder / FILE).is_file(), f"{folder} has no state of a server: check state in {file}")
    inside = out.resolve().is_relative_to(folder.resolve())
    require(not inside, f"{out} is in the state folder itself: choose a place outside of it")
    parent = out if out.suffix != ".tar" else out.parent
    require(out.is_dir() or parent.is_dir(), f"there is no folder {parent}: make it first")
    require(roster.exists(), f"there is no roster {roster}: check roster in the settings")
    state = ServerState(folder / FILE)
    content = state.copy()
    copy = ServerState.from_copy(content)
    found = agreed.differences(copy.agreement, "in the settings", "in the folder")
    require(not found, f"{folder} is the state of another federation: {'; '.join(found)}")
    now = copy.load()
    if now is None:
        raise Mistake(f"{folder} has no rounds yet: start the server once")
    about = Manifest(agreed.id.hex(), now.t, now_text())
    path = out / file_name(agreed, about) if out.is_dir() else out
    listed = content_of(roster.resolve())
    parse_roster(listed, str(roster))
    ranker = {RANKER: content_of(folder / RANKER)} if (folder / RANKER).exists() else {}
    write_backup(path, about, {FILE: content, ROSTER_COPY: listed, **ranker})
    try:
        state.add_backup(path, about.round, about.made)
    except Mistake as error:
        tell(f"the backup is complete, but could not be noted in {folder}: {error}")
    return path


def file_name(agreed: Agreement, about: Manifest) -> str:
    made = datetime.fromisoformat(about.made)
    return f"foltr-{agreed.id.hex()[:12]}-round-{about.round:06d}-{made:%Y%m%dT%H%M%SZ}.tar"


def restore(backup: Path, file: Path, code: Code, tell: Tell = print) -> Manifest:
    """Restore the state of the server of a settings file into an empty folder. Returns what the
    backup says about itself. Everything is checked before anything is written."""
    agreed, table = read_server(file, code)
    about, files = read_backup(backup)
    state = _state_in(backup, about, files)
    found = agreed.differences(state.agreement, "in the settings", "in the backup")
    if found or about.federation != agreed.id.hex():
        differ = "; ".join(found) or "its manifest names another one"
        raise Mistake(f"{backup} is of another federation: {differ}")
    path, folder = beside(file, table.roster), beside(file, table.state)
    copy = parse_roster(files[ROSTER_COPY], f"the roster in {backup}")
    missing = not path.exists()
    roster = copy if missing else read_roster(path)
    require(
        roster.follows(copy),
        f"{path} does not fit the roster in {backup}: a node was removed or changed. Restore its"
        " entry; or move the file away, and the roster of the backup is used",
    )
    check_empty(folder, file)  # before anything is changed there
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    made = str(backup.resolve())
    state.set_restored(Restored(made, about.round, about.made, restored=now_text()))
    with only_one(folder, "restored server"):
        check_empty(folder, file)
        if missing:
            write_whole(path, files[ROSTER_COPY])
        if RANKER in files:
            write_whole(folder / RANKER, files[RANKER])
        state_folder.write_state(folder, state)
    if missing:
        tell(
            f"{path} did not exist: it is the roster of the backup now. Nodes that were added,"
            " revoked or forgotten since then, and keys that were replaced, are not in it: see"
            f" `foltr keys list --roster {path}`"
        )
    for line in warnings(roster, copy, state.forgotten):
        tell(line)
    return about


def check_empty(folder: Path, file: Path) -> None:
    """Refuse a state folder with files."""
    if folder.exists():
        with writing(folder):
            others = [found.name for found in folder.iterdir() if found.name != LOCK]
        full = f"{folder} is not empty: move its files away, or set another state in {file}"
        require(not others, full)


def warnings(roster: Roster, copy: Roster, forgotten: Forgotten) -> Iterable[str]:
    """What has happened to nodes since the backup was made."""
    known = {*forgotten.nodes, *forgotten.pending}
    before = {seat.name: seat for seat in copy.seats}
    for seat in roster.seats:
        if seat.name in known:
            continue
        if seat.forgotten:
            yield (
                f"{seat.name} was forgotten after this backup was made: `foltr serve` forgets it"
                " again, before the next round"
            )
        elif seat.revoked and not (seat.name in before and before[seat.name].revoked):
            yield (
                f"{seat.name} was revoked after this backup was made. If it was forgotten,"
                f" too: foltr serve FILE --forget {seat.name}"
            )


# The file of a backup: a tar archive with a manifest, which lists the size and the hash of
# every other file.

FORMAT = 2  # of the archive
MANIFEST, SUM, ROSTER_COPY = "manifest.json", "manifest.sha256", "roster.toml"
# format -> the files that a backup needs; format 1 has those of a state folder of an earlier foltr
NEEDED = {
    1: {state_folder.AGREEMENT, state_folder.CHECKPOINT, state_folder.ROSTER, ROSTER_COPY},
    2: {FILE, ROSTER_COPY},
}
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
    known = {FILE, RANKER, ROSTER_COPY, *state_folder.BACKED_UP}
    return name in known or state_folder.MODEL.fullmatch(name) is not None


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
            return _checked(_members(archive))
    except FileNotFoundError:
        raise Mistake(f"there is no file {path}: give a backup that `foltr backup` made") from None
    except (OSError, tarfile.TarError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Mistake(f"{path} is no backup, or is damaged ({why}): use another one") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Mistake(f"{path} is no backup, or is damaged ({error}): use another one") from None


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
        said.get("format") in NEEDED,
        f"its format is {said.get('format')}, and this foltr reads 1 to {FORMAT}: update foltr",
    )
    about = Manifest(**said)
    if members.keys() != files.keys() or not members.keys() >= NEEDED[about.format]:
        raise ValueError("files are missing")
    for name, content in members.items():
        if files[name] != {"size": len(content), "sha256": _sum(content)}:
            raise ValueError(f"{name} is not as it was written")
    return about, members


def _state_in(backup: Path, about: Manifest, files: Mapping[str, bytes]) -> ServerState:
    """The state in the files of a backup, in memory."""
    if about.format == 1:
        old = {name: content for name, content in files.items() if name != ROSTER_COPY}
        return state_folder.converted(old, f"{backup}: ")
    try:
        return ServerState.from_copy(files[FILE])
    except Unusable as error:
        raise Mistake(f"{backup} is no backup, or is damaged ({error}): use another one") from None


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sum(content: bytes) -> str:
    return sha256(content).hexdigest()
