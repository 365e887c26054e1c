"""The folder of a server's state. One of an earlier foltr, which had many files, is converted:

agreement.json   the agreement
checkpoint.npz   the server's state after the last round
models/          the models of the last rounds, by round
rounds.jsonl     a line per round
asked.jsonl      for `separation`: the clients that were asked in the last rounds
contributed.ids  the clients whose updates may be in the model
took_part.jsonl  for unlearning: the clients that answered in the rounds that devices stored
forgotten.json   the nodes and clients that were unlearned, or wait for it
roster.json      the nodes so far
seed.txt         the seed
backups.jsonl    the backups that were made
restored.json    the mark of a restored state

First a copy of these files is kept beside the folder. Then `state.db` is written, whole or not at
all, and the files are deleted. An interrupted conversion is made again."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core.errors import Mistake, require
from foltr.core.federation import State
from foltr.core.system.files import content_of, write_whole, writing
from foltr.core.system.lock import FILE as LOCK
from foltr.core.system.lock import only_one
from foltr.core.system.log import Tell
from foltr.core.system.private import replacing_private
from foltr.deployment.protocol.frames import read_ids
from foltr.deployment.server.state import FILE, Forgotten, Restored, ServerState, plan_of
from foltr.simulation.runs.folder import UNREADABLE, why

AGREEMENT, CHECKPOINT, ROUNDS = "agreement.json", "checkpoint.npz", "rounds.jsonl"
ASKED, CONTRIBUTED, TOOK_PART = "asked.jsonl", "contributed.ids", "took_part.jsonl"
FORGOTTEN, ROSTER, SEED = "forgotten.json", "roster.json", "seed.txt"
BACKUPS, RESTORED = "backups.jsonl", "restored.json"
BACKED_UP = (  # the files of a backup that an earlier foltr made; and models
    AGREEMENT, CHECKPOINT, FORGOTTEN, ROUNDS, ASKED, CONTRIBUTED, TOOK_PART, ROSTER, SEED,
)  # fmt: skip
MODEL = re.compile(r"models/(\d{8,12})\.npy")
MANY = 10**9  # models: all are kept
CONVERTED = "converted"  # named value: the files were not all deleted yet
Files = Mapping[str, bytes]  # name in the folder -> content


def open_state(folder: Path, tell: Tell) -> ServerState:
    """The state in a folder. A folder that is empty or missing is begun; one of an earlier foltr
    is converted; any other is refused."""
    file, old = folder / FILE, folder / AGREEMENT
    if old.exists() and not file.exists():
        with only_one(folder, "server"):
            if not file.exists():
                _convert(folder, tell)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        empty = file.exists() or all(each.name == LOCK for each in folder.iterdir())
        require(empty, f"state = {folder} has files of others: name a folder of its own")
        folder.chmod(0o700)  # also if it existed
        file.touch(mode=0o600)
        file.chmod(0o600)
    state = ServerState(file)
    if state.about(CONVERTED) is not None:
        _delete_old(folder)
        state.delete_about(CONVERTED)
    both = f"{folder} has {FILE}, and {AGREEMENT} of an earlier foltr: move one of them away"
    require(not old.exists(), both)
    return state


def _convert(folder: Path, tell: Tell) -> None:
    """Convert the files of an earlier foltr, after a copy of them was made beside the folder."""
    files = {name: content_of(folder / name) for name in _old_files(folder)}
    copy = folder.with_name(f"{folder.name}-before-{FILE}.tar")
    state = converted(files, f"{folder}/")
    with replacing_private(copy) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name in files:
            archive.add(folder / name, name)
    now = state.load()
    state.add_backup(copy, 0 if now is None else now.t, "")
    state.set_about(CONVERTED, b"1")
    write_state(folder, state)
    tell(f"converted the state of an earlier foltr into {folder / FILE}; its files are in {copy}")


def write_state(folder: Path, state: ServerState) -> None:
    """Write a state that is in memory into a folder: whole, or not at all."""
    write_whole(folder / FILE, state.copy())


def _old_files(folder: Path) -> Iterator[str]:
    names = (*BACKED_UP, BACKUPS, RESTORED)
    yield from (name for name in names if (folder / name).exists())
    models = (f"models/{file.name}" for file in (folder / "models").glob("*"))
    yield from sorted(name for name in models if MODEL.fullmatch(name))


def _delete_old(folder: Path) -> None:
    with writing(folder):
        for name in _old_files(folder):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "models", ignore_errors=True)


def converted(files: Files, where: str) -> ServerState:
    """The state in these files of an earlier foltr, in memory. `where` begins their names in error
    messages."""
    state = ServerState(None)
    with state.together():
        for name, content in sorted(files.items()):
            try:
                _convert_file(state, name, content)
            except Mistake:
                raise
            except UNREADABLE as error:
                raise Mistake(f"{where}{name} cannot be read ({why(error)})") from None
        if CONTRIBUTED not in files and state.rounds():
            state.set_about("contributors", b"unknown")
    return state


def _convert_file(state: ServerState, name: str, content: bytes) -> None:
    if name == AGREEMENT:
        state.set_about("agreement", content.strip())
    elif name == ROSTER:
        state.set_about("roster", json.dumps(json.loads(content)).encode())
    elif name == SEED:
        state.set_about("seed", str(int(content)).encode())
    elif name == CHECKPOINT:
        state.save(_checkpoint(content))
    elif found := MODEL.fullmatch(name):
        with io.BytesIO(content) as file:
            params = np.lib.format.read_array(file, allow_pickle=False)
        state.keep_model(int(found[1]), params, keep=MANY)
    elif name == ROUNDS:
        for line in _lines(content):
            state.add_round(line)
    elif name == ASKED:
        for line in _lines(content):
            state.add_asked(line["round"], np.array(line["clients"], np.int64), oldest=0)
    elif name == TOOK_PART:
        for line in _lines(content):
            state.add_participants(line["round"], np.array(line["clients"], np.int64))
    elif name == CONTRIBUTED:
        state.add_contributors(read_ids(content))
    elif name == FORGOTTEN:
        state.set_forgotten(_forgotten(json.loads(content)))
    elif name == RESTORED:
        state.set_restored(_restored(json.loads(content)))
    elif name == BACKUPS:
        for about in _lines(content):
            state.add_backup(Path(about["path"]), about["round"], about["made"])


def _checkpoint(content: bytes) -> State:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        names = sorted(stored.files, key=lambda name: (len(name), name))  # 2 before 10
        parts = {
            family: tuple(stored[name] for name in names if name.startswith(f"{family}."))
            for family in ("aggregator", "optimizer")
        }
        withheld = int(stored["withheld"]) if "withheld" in names else 0
        return State(params=stored["params"], t=int(stored["t"]), withheld=withheld, **parts)


def _forgotten(about: dict[str, Any]) -> Forgotten:
    """The content of `forgotten.json`. An early foltr left lists out that had nothing in them."""
    plan = about.pop("plan", None)
    numbers = ("since", "compared", "restarted")
    values: dict[str, Any] = {
        name: int(value) if name in numbers else tuple(dict.fromkeys(value))
        for name, value in about.items()
    }
    return Forgotten(**values, plan=None if plan is None else plan_of(plan))


def _restored(mark: dict[str, Any]) -> Restored:
    whole = "the state was restored only in part: move its files away, and `foltr restore` again"
    require(mark.pop("complete", False) is True, whole)
    decided = "the server was stopped while it continued: start it once with the foltr of before"
    require("decided" not in mark, decided)
    return Restored(**{**mark, "round": int(mark["round"])})


def _lines(content: bytes) -> Iterator[dict[str, Any]]:
    """The lines of JSON that begin with a round, without those that a crash has cut."""
    for line in content.decode().splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("round"), int):
            yield found
