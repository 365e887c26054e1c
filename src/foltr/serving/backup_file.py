"""The file of a backup: a tar archive with a manifest, which lists the size and the hash of every
other file.

    manifest.json     format, federation, round, time, sizes and hashes
    manifest.sha256   the hash of the manifest
    agreement.json, checkpoint.npz, ...   the files of the server's state folder
    models/00000042.npy                   its models
    roster.toml                           the roster

The file is written whole or not at all, and only its owner can read it."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import foltr
from foltr.errors import Mistake, require
from foltr.serving.state import (
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
from foltr.system.files import regular
from foltr.system.private import replacing_private

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
