"""The identity of a run, the name of its folder, and how such a folder is recognised."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from pathlib import Path

from foltr.experiment import Experiment
from foltr.runs.folder import CONFIG, FAILED, RESULT, RESULTS
from foltr.runs.lock import FILE as LOCK
from foltr.runs.user_files import classes_behind, sources_behind
from foltr.world.dataset import Dataset

RUN_FILES = (CONFIG, RESULT)  # either shows that a folder holds a run
CLASS = r"[^\W\d]\w*"
FOLDER_NAME = re.compile(rf"{CLASS}-{CLASS}(-{CLASS})?-(?P<identity>[0-9a-f]{{16}})")


def identity(
    e: Experiment, train: Dataset, test: Dataset, validation: Dataset | None = None
) -> str:
    """A hash of the resolved config, the data's content (with that of the validation queries, if
    they are used), all source files that are not foltr's, RESULTS, and the revisions of components
    that have one. It does not depend on threads, paths or the engine."""
    parts = [
        RESULTS,
        e.config(),
        train.content,
        test.content,
        sorted(filter(None, sources_behind(e).values())),
    ]
    if validation is not None:
        parts.append({"validation": validation.content})
    if found := revisions(e):  # an empty one more would be another identity for every run
        parts.append(found)
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


def revisions(e: Experiment) -> dict[str, int]:
    """The revisions of components whose results have changed since their first version: a class
    sets `revision: ClassVar[int]` when its results change, and the CHANGELOG says why."""
    numbers = {cls.__name__: getattr(cls, "revision", 1) for cls in classes_behind(e)}
    return {name: number for name, number in sorted(numbers.items()) if number != 1}


def folder_name(e: Experiment, its_identity: str) -> str:
    """MQ2008-PDGD-Linear-0123456789abcdef, or MQ2008-LeastSquares-0123456789abcdef for a
    baseline."""
    parts = (e.data, e.learner, e.ranker) if e.baseline is None else (e.data, e.baseline)
    return "-".join([*(type(part).__name__ for part in parts), its_identity])


def identity_in(name: str) -> str | None:
    """The identity in a name that `folder_name` made; None for any other name."""
    found = FOLDER_NAME.fullmatch(name)
    return found["identity"] if found else None


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not. Its name may be any: folders are renamed and
    sent to others."""
    return any((folder / file).exists() for file in RUN_FILES)


def folders_with_runs(path: Path) -> list[Path]:
    """The folders directly below `path` that hold a run, whatever their names."""
    return sorted({file.parent for name in RUN_FILES for file in path.glob(f"[!.]*/{name}")})


def folders_of_foltr(path: Path) -> list[Path]:
    """The folders directly below `path` that foltr made for runs: known by their names and their
    content. foltr deletes no other folder."""
    named = [
        folder for folder in path.iterdir() if identity_in(folder.name) and not folder.is_symlink()
    ]
    files = (*RUN_FILES, FAILED, LOCK)
    return sorted(folder for folder in named if any((folder / name).is_file() for name in files))
