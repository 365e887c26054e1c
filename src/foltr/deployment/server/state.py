"""The state of a federation's server: a folder on disk.

agreement.json   the agreement: a folder belongs to one federation
ranker.json      the model when the server last stopped, for `foltr.load_ranker`
checkpoint.npz   the server's state after the last round
models/          the models of the last rounds, by round
rounds.jsonl     a line per round: clients asked and answered, failures, bytes, seconds
asked.jsonl      for `separation`: the clients that were asked in the last rounds
contributed.ids  the clients whose updates may be in the model
took_part.jsonl  for unlearning: the clients that answered in the rounds that devices stored
forgotten.json   the nodes that were unlearned, the first round that can be restored, and the
                 round from which the guard compares models
roster.json      the nodes so far, to detect a node that was removed or changed
seed.txt         seed of the initial model and of the choice of clients, if the settings have none
running.lock     lock of the server that uses the folder
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.federation import State
from foltr.core.scoring import numbered
from foltr.core.system.files import content_of, regular, text_of, write_whole, writing
from foltr.core.system.lock import FILE as LOCK
from foltr.deployment.keys.roster import Roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import read_ids, write_ids
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.folder import UNREADABLE, Folder, why
from foltr.simulation.runs.trained import TrainedRanker

CONTRIBUTED = "contributed.ids"
SEED, ROSTER, RANKER = "seed.txt", "roster.json", "ranker.json"
AGREEMENT, ROUNDS, ASKED, TOOK_PART, FORGOTTEN = (
    "agreement.json",
    "rounds.jsonl",
    "asked.jsonl",
    "took_part.jsonl",
    "forgotten.json",
)
NO_MEMORY = np.empty((1, 0), np.float32)


@dataclass(frozen=True)
class ServerState:
    """The state folder `path` of a server."""

    path: Path

    def open(self, agreed: Agreement) -> None:
        """Make the folder, or check that it belongs to this federation."""
        file = self.path / AGREEMENT
        known = file.exists()
        if known:
            found = agreed.differences(text_of(file), "in the settings", "in the folder")
            other = f"{self.path} is the state of another federation: {'; '.join(found)}"
            require(not found, f"{other}. Use another state folder, or its original settings")
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            empty = known or all(each.name == LOCK for each in self.path.iterdir())
            require(empty, f"state = {self.path} has files of others: name a folder of its own")
            self.path.chmod(0o700)  # also if it existed
            (self.path / "models").mkdir(exist_ok=True, mode=0o700)
        if not known:
            write_whole(file, agreed.text + "\n")

    def check_roster(self, roster: Roster) -> None:
        """Refuse a roster from which a node was removed or in which one was changed, because the
        numbers of clients would change. New nodes are stored, and keys that replaced others."""
        file = self.path / ROSTER
        seats = [[seat.name, seat.clients, seat.key.decode()] for seat in roster.seats]
        known = json.loads(text_of(file)) if file.exists() else []
        same = "a node was removed or changed: restore its entry, and revoke it instead"
        fits = len(seats) >= len(known) and all(
            now[:2] == before[:2] and before[2].encode() in (seat.key, *seat.replaced)
            for now, before, seat in zip(seats, known, roster.seats, strict=False)
        )
        require(fits, f"the roster does not fit {self.path}: {same}")
        if seats != known:
            write_whole(file, json.dumps(seats) + "\n")

    def seed(self, given: int | None) -> int:
        """The seed of the server's random draws: the given one, or one that is drawn once and
        stored."""
        if given is not None:
            return given
        file = self.path / SEED
        if not file.exists():
            write_whole(file, f"{secrets.randbits(63)}\n")
        try:
            return int(text_of(file))
        except UNREADABLE as error:
            raise Mistake(f"{file} cannot be read ({why(error)})") from None

    def save(self, state: State) -> None:
        Folder(self.path).checkpoint(state, NO_MEMORY, Metrics(), (0.0, 0.0))

    def load(self) -> State | None:
        found = Folder(self.path).resume()
        return None if found is None else found[0]

    def keep_model(self, t: int, params: Array, keep: int) -> None:
        """Store the model after t rounds, and delete the oldest ones beyond `keep`."""
        buffer = io.BytesIO()
        np.save(buffer, params, allow_pickle=False)
        write_whole(self._model(t), buffer.getvalue())
        for old in self.models()[:-keep]:
            self._model(old).unlink(missing_ok=True)

    def models(self) -> list[int]:
        """The rounds after which a model is kept."""
        names = (file.stem for file in (self.path / "models").glob("*.npy"))
        return sorted(int(name) for name in names if name.isdigit())

    def model(self, t: int) -> Array:
        known = self.models()
        nearest = f"choose one of rounds {known[0]} .. {known[-1]}" if known else "there are none"
        require(t in known, f"no model of round {t} is kept: {nearest}")
        try:
            with regular(self._model(t)) as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except UNREADABLE as error:
            raise Mistake(f"{self._model(t)} cannot be read ({why(error)})") from None

    def _model(self, t: int) -> Path:
        return self.path / "models" / f"{t:08d}.npy"

    def add_round(self, about: dict[str, Any]) -> None:
        self._append(ROUNDS, about)

    def rounds(self) -> list[dict[str, Any]]:
        return list(self._lines(ROUNDS))

    def add_asked(self, t: int, clients: Array, oldest: int) -> None:
        """Store which clients are asked in round t. Rounds before `oldest` are deleted."""
        lines = [line for line in self._lines(ASKED) if line["round"] >= oldest]
        lines.append({"round": t, "clients": clients.tolist()})
        write_whole(self.path / ASKED, "".join(json.dumps(line) + "\n" for line in lines))

    def asked_between(self, oldest: int, t: int) -> Array:
        """The clients that were asked in the rounds oldest .. t - 1, in ascending order."""
        found = [line["clients"] for line in self._lines(ASKED) if oldest <= line["round"] < t]
        return np.unique(np.array([id for ids in found for id in ids], np.int64))

    def contributors(self) -> Array | None:
        """The clients whose updates may be in the model, in ascending order; None if the state is
        of a foltr that did not store them."""
        file = self.path / CONTRIBUTED
        if not file.exists():
            return None if self.rounds() else np.empty(0, np.int64)
        return read_ids(content_of(file))

    def set_contributors(self, clients: Array) -> None:
        write_whole(self.path / CONTRIBUTED, write_ids(clients))

    def add_contributors(self, clients: Array) -> None:
        known = self.contributors()
        if known is not None and not np.isin(clients, known).all():
            self.set_contributors(np.union1d(known, clients))

    def add_participants(self, t: int, clients: Array) -> None:
        self._append(TOOK_PART, {"round": t, "clients": clients.tolist()})

    def participants(self) -> dict[int, Array]:
        """Stored round -> the clients that answered, since the last unlearning."""
        found = {line["round"]: np.array(line["clients"], int) for line in self._lines(TOOK_PART)}
        return dict(sorted(found.items()))

    @property
    def forgotten(self) -> dict[str, Any]:
        """The names of nodes that were unlearned, and the first round that can be restored."""
        file = self.path / FORGOTTEN
        if not file.exists():
            return {"nodes": [], "pending": [], "since": 0}
        try:
            return dict(json.loads(text_of(file)))
        except UNREADABLE as error:
            raise Mistake(f"{file} cannot be read ({why(error)})") from None

    def set_forgotten(self, about: dict[str, Any]) -> None:
        write_whole(self.path / FORGOTTEN, json.dumps(about) + "\n")

    def erase_models(self) -> None:
        """Delete all models, and temporary files that a crash left."""
        models = (self.path / "models").iterdir()
        for file in (self.path / RANKER, *models, *self.path.glob(".*")):
            if file.is_file():
                file.unlink(missing_ok=True)

    def save_ranker(self, agreed: Agreement, params: Array) -> Path:
        """Save the model as a file that `foltr.load_ranker` reads, with the names of the features
        if they are more than numbers. Returns its path."""
        model, width = params.astype(np.float32), len(agreed.features)
        names = None if agreed.features == numbered(width) else agreed.features
        TrainedRanker(agreed.ranker, model, width, names).save(self.path / RANKER)
        return self.path / RANKER

    def set_participants(self, took_part: dict[int, Array]) -> None:
        lines = [{"round": t, "clients": ids.tolist()} for t, ids in took_part.items()]
        write_whole(self.path / TOOK_PART, "".join(json.dumps(line) + "\n" for line in lines))

    def _append(self, name: str, about: dict[str, Any]) -> None:
        line = (json.dumps(about) + "\n").encode()
        file = self.path / name
        with writing(file), open(file, "ab") as opened:
            if opened.tell() and not _ends_a_line(file):
                opened.write(b"\n")  # a crash cut the last line: it is skipped when read
            opened.write(line)
            opened.flush()
            os.fsync(opened.fileno())

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        file = self.path / name
        if not file.exists():
            return
        for line in text_of(file).splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue  # cut by a crash
            if isinstance(found, dict) and isinstance(found.get("round"), int):
                yield found


def _ends_a_line(file: Path) -> bool:
    with open(file, "rb") as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read(1) == b"\n"
