"""From a LETOR file to a `Dataset`: parsed and normalised once, cached, opened as memory maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core.errors import Mistake
from foltr.core.scoring import PerQuery
from foltr.core.world.dataset import Dataset, padded
from foltr.data import cache
from foltr.data import text_files as stamps
from foltr.data.letor import Reading, read, shape_of


def load(path: Path, reading: Reading, normalize: bool) -> Dataset:
    """The data set of one file. If `reading.grades` is None, it has as many grades as its labels
    need, at least two."""
    content = stamps.content(path)
    key = {"letor": content, "normalize": normalize, **asdict(reading)}
    found = cache.kept(key, partial(_write, path, content, reading, normalize))
    grades = reading.grades or max(2, found.facts["largest_label"] + 1)
    return Dataset(
        storage=found.arrays["storage"],
        width=found.facts["width"],
        labels=found.arrays["labels"],
        offsets=found.arrays["offsets"],
        grades=grades,
        query_ids=found.arrays["query_ids"],
        content=found.content,
        document_ids=found.arrays.get("document_ids"),
        normalisation=PerQuery() if normalize else None,
    )


def _write(
    path: Path, content: str, reading: Reading, normalize: bool, folder: Path
) -> Mapping[str, Any]:
    """Parse a file into the arrays of a cache folder, with one piece in memory at a time."""
    from foltr.kernels.letor import normalize_queries

    before, width = stamps.stamp(path), shape_of(path, reading).width
    lengths, labels, query_ids, document_ids = [], [], [], []
    with cache.RowWriter(folder / "storage.npy", padded(width), np.float32) as storage:
        for piece in read(path, reading):
            bounds = np.append(piece.starts, len(piece.labels))
            if normalize:
                normalize_queries(piece.storage, width, bounds)
            storage.append(piece.storage)
            lengths.append(np.diff(bounds))
            labels.append(piece.labels)
            query_ids.append(piece.query_ids)
            document_ids.append(piece.document_ids)
    if stamps.stamp(path) != before or stamps.content(path) != content:
        raise Mistake(f"{path} changed while it was read; try again when it is complete")
    names = np.concatenate(document_ids)
    np.save(folder / "labels.npy", np.concatenate(labels)[None])
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))
    np.save(folder / "query_ids.npy", np.concatenate(query_ids))
    if (names != b"").any():
        np.save(folder / "document_ids.npy", names)
    return {
        "width": width,
        "largest_label": int(max(part.max() for part in labels)),
        "from": path.name,
    }


def with_grades(data: Dataset, grades: int) -> Dataset:
    """The same data set with the number of grades that all splits together have."""
    if grades == data.grades:
        return data
    digest = blake2b(f"{data.content} {grades}".encode(), digest_size=16).hexdigest()
    return replace(data, grades=grades, content=digest)
