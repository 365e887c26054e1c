"""What makes two runs the same one, and what its folder is called."""

from __future__ import annotations

import json
from hashlib import blake2b

from foltr.experiment import Experiment
from foltr.runs.folder import RESULTS
from foltr.runs.user_files import classes_behind, sources_behind
from foltr.world.dataset import Dataset


def identity(e: Experiment, train: Dataset, test: Dataset) -> str:
    """Of the resolved config, the data's content, all sources that are not foltr's, RESULTS, and
    the revisions of components that have one; not of threads, paths or engine."""
    parts = [
        RESULTS,
        e.config(),
        train.content,
        test.content,
        sorted(filter(None, sources_behind(e).values())),
    ]
    if found := revisions(e):  # an empty one more would be another identity for every run
        parts.append(found)
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


def revisions(e: Experiment) -> dict[str, int]:
    """Of the components that give other bits than the first of their name did: a class says
    `revision: ClassVar[int]` when its mechanism changes, and the CHANGELOG why."""
    numbers = {cls.__name__: getattr(cls, "revision", 1) for cls in classes_behind(e)}
    return {name: number for name, number in sorted(numbers.items()) if number != 1}


def folder_name(e: Experiment, its_identity: str) -> str:
    parts = (e.data, e.learner, e.ranker) if e.baseline is None else (e.data, e.baseline)
    return "-".join([*(type(part).__name__ for part in parts), its_identity])
