"""A user's own LETOR files, one per intent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.spec import source
from foltr.core.world.dataset import Dataset
from foltr.data import cache, files
from foltr.data import collection as lookup
from foltr.data.collection import known_split
from foltr.data.letor import Reading, line_of, wrong

SPLITS = ("train", "test")
CHUNK = 1 << 14  # rows compared at a time


@source
@dataclass(frozen=True)
class Intents:
    """Read your own folder of LETOR files, one per intent: equal lines, different labels.

    The files are 1.txt, 2.txt, ... `labels` of the data set has one row per file, in the order of
    the names (numbers by value). There is no held-out set: both splits have the same queries.

    Fields
        path: the folder; relative to the working directory, or else below a folder of FOLTR_DATA
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)
        sparse: whether features that a line leaves out are zeros; otherwise they are an error
        grades: number of relevance grades, labels 0 .. grades - 1 (2 .. 128), or None for what the
            files have
    """

    path: str
    normalize: bool = False
    sparse: bool = False
    grades: int | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        known_split(split, SPLITS)
        paths = intent_files(lookup.own_path(self.path))
        reading = Reading(sparse=self.sparse, grades=self.grades)
        parts = [files.load(path, reading, self.normalize) for path in paths]
        key = {"intents": [part.content for part in parts]}
        found = cache.kept(key, partial(_stack, paths, parts))
        first = replace(parts[0], labels=found.arrays["labels"], content=found.content)
        return files.with_grades(first, max(part.grades for part in parts))


def intent_files(folder: Path) -> list[Path]:
    """The .txt files of a folder in the order of their names, numbers first and by value."""
    paths = [path for path in folder.glob("*.txt") if path.is_file()]
    if not paths:
        raise Mistake(
            f"{folder} has no .txt files; put one LETOR file per intent there: 1.txt, 2.txt, ..."
        )
    return sorted(
        paths, key=lambda path: (not path.stem.isdecimal(), path.stem.zfill(20), path.name)
    )


def _stack(paths: list[Path], parts: list[Dataset], folder: Path) -> dict[str, Any]:
    for path, part in zip(paths[1:], parts[1:], strict=True):
        if (row := first_difference(parts[0], part)) is not None:
            raise wrong(
                path,
                line_of(path, row),
                f"not the document of {paths[0]}, line {line_of(paths[0], row)}: files of intents"
                " must have the same lines but for the labels",
            )
    np.save(folder / "labels.npy", np.concatenate([part.labels for part in parts]))
    return {"intents": [path.name for path in paths]}


def first_difference(a: Dataset, b: Dataset) -> int | None:
    """The first row in which two data sets differ in more than the label, or None."""
    rows = min(a.documents, b.documents)
    if a.width != b.width:
        return 0
    suspects = [rows if a.documents != b.documents else None]
    queries = [np.repeat(data.query_ids, np.diff(data.offsets))[:rows] for data in (a, b)]
    suspects.append(_first_true(queries[0] != queries[1]))
    if a.document_ids is not None and b.document_ids is not None:
        suspects.append(_first_true(a.document_ids[:rows] != b.document_ids[:rows]))
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        other = _first_true((a.storage[start:stop] != b.storage[start:stop]).any(axis=1))
        if other is not None:
            suspects.append(start + other)
            break
    return min((row for row in suspects if row is not None), default=None)


def _first_true(flags: Array) -> int | None:
    return int(np.argmax(flags)) if flags.any() else None
