"""The updates that devices store every few rounds, so that a client can be unlearned later.

In a simulation they are two arrays in the run's folder, written in place during the run. A resumed
run writes the same rows again. On real devices each row stays on its device."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.errors import Mistake, require
from foltr.core.system.files import regular, writing

CLIENTS, UPDATES = "history-clients.npy", "history-updates.npy"
NOBODY = -1


@dataclass(frozen=True, eq=False)
class History:
    """The stored rounds 0, every, 2 every, ... of `rounds`."""

    every: int
    rounds: int
    clients: Array  # (stored, n) int32 participants; NOBODY where there were fewer than n
    updates: Array  # (stored, n, d) float32 the update of each
    stands: Array | None = None  # (stored,) `stand_for`, if two histories were joined

    @classmethod
    def of(
        cls, folder: Path | None, every: int, rounds: int, n: int, d: int, begun: bool = False
    ) -> History:
        """An empty history for a new run, or what an interrupted run has written so far. `begun`:
        the run goes on, so that its history must be there."""
        stored = -(-rounds // every)
        clients, updates = (stored, n), (stored, n, d)
        if folder is None:
            return cls(
                every, rounds, np.full(clients, NOBODY, np.int32), np.zeros(updates, np.float32)
            )
        places = (
            _place(folder / CLIENTS, clients, np.int32, begun),
            _place(folder / UPDATES, updates, np.float32, begun),
        )
        return cls(every, rounds, *places)

    @classmethod
    def read(cls, folder: Path, every: int, rounds: int, d: int, written: str) -> History:
        """The history that a finished run stored; raises if its checksum (`sum`) is not
        `written`."""
        try:
            clients, updates = (_mapped(folder / name, "r") for name in (CLIENTS, UPDATES))
            if (
                clients.ndim != 2
                or len(clients) != -(-rounds // every)
                or updates.shape != (*clients.shape, d)
            ):
                raise ValueError(f"shapes {clients.shape} and {updates.shape}")
            found = cls(every, rounds, clients, updates)
            if found.sum() != written:
                raise ValueError("it is not as it was written")
        except (OSError, ValueError, EOFError) as error:
            lost = f"the history of {folder} cannot be read ({error})"
            raise Mistake(f"{lost}: delete the folder, and make the run again") from None
        return found

    def sum(self) -> str:
        """A checksum of everything stored, to detect damage."""
        checksum = blake2b(digest_size=8)
        for part in (self.clients, self.updates):
            for row in part:
                checksum.update(row.tobytes())
        return checksum.hexdigest()

    def keep(self, t: int, sent: Cohort) -> None:
        """Store the messages of round t, if it is one of the stored rounds."""
        if t % self.every == 0:
            row, n = t // self.every, len(sent)
            self.clients[row, :n], self.clients[row, n:] = sent.clients, NOBODY
            self.updates[row, :n] = sent.updates

    def flush(self) -> None:
        for part in (self.clients, self.updates):
            if isinstance(part, np.memmap):
                part.flush()

    @property
    def stand_for(self) -> Array:
        """The number of rounds from each stored round to the next: (stored,), `every` except for
        the last."""
        if self.stands is not None:
            return self.stands
        return np.minimum(self.every, self.rounds - self.every * np.arange(len(self.clients)))

    def then(self, later: History) -> History:
        """This history followed by a later one."""
        parts, n = (self, later), max(self.clients.shape[1], later.clients.shape[1])
        clients = [
            np.pad(p.clients, ((0, 0), (0, n - p.clients.shape[1])), constant_values=NOBODY)
            for p in parts
        ]
        updates = [np.pad(p.updates, ((0, 0), (0, n - p.updates.shape[1]), (0, 0))) for p in parts]
        stands = np.concatenate([p.stand_for for p in parts])
        rounds = self.rounds + later.rounds
        return History(
            self.every, rounds, np.concatenate(clients), np.concatenate(updates), stands
        )

    def with_any(self, clients: Array) -> Array:
        """The stored rounds in which any of these clients took part."""
        return np.flatnonzero(np.isin(self.clients, clients).any(axis=1))

    def took_part(self, row: int, clients: Array) -> Array:
        """Those of `clients` that took part in a stored round, in ascending order."""
        return np.intersect1d(self.clients[row], clients)

    def sent(self, row: int, clients: Array) -> Array:
        """The updates that these clients, all of which took part, sent in a stored round: (n, d)
        float64."""
        order = np.argsort(self.clients[row], kind="stable")
        place = order[np.searchsorted(self.clients[row], clients, sorter=order)]
        return self.updates[row][place].astype(np.float64)


def _place(file: Path, shape: tuple[int, ...], kind: type, begun: bool) -> Array:
    with writing(file):
        there = _fitting(file, shape, kind)
        if there is not None:
            return there
        lost = f"{file} is gone or damaged, and the run was begun with it"
        require(not begun, f"{lost}: delete {file.parent} to start again")
        aside = file.with_suffix(".new")
        try:
            mapped = np.lib.format.open_memmap(aside, mode="w+", dtype=kind, shape=shape)
            if sys.platform == "linux":
                # a full disk raises here instead of crashing a later round
                with open(aside, "r+b") as whole:
                    os.posix_fallocate(whole.fileno(), 0, aside.stat().st_size)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        del mapped  # some systems cannot rename a mapped file
        aside.replace(file)
        return _mapped(file, "r+")


def _mapped(file: Path, mode: Literal["r", "r+"]) -> Array:
    regular(file).close()
    return np.load(file, mmap_mode=mode)


def _fitting(file: Path, shape: tuple[int, ...], kind: type) -> Array | None:
    try:
        there = _mapped(file, "r+")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return there if there.shape == shape and there.dtype == kind else None
