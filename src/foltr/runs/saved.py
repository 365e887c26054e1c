"""The trained ranker that a path holds: of a run, of a deployed server, or in a file."""

from __future__ import annotations

from pathlib import Path

from foltr.errors import Mistake, near, require
from foltr.experiment import Experiment
from foltr.runs.config import load_finished
from foltr.runs.folder import ENVIRONMENT, Folder
from foltr.runs.identity import folders_with_runs, holds_run
from foltr.runs.result import trained_by
from foltr.runs.trained import TrainedRanker, features_of, load_ranker
from foltr.runs.user_files import Code
from foltr.scoring.normalisation import Normalisation

RANKER = "ranker.json"  # in the state folder of a server
WANTED = f"give the folder of a run, the state folder of a server, or a {RANKER}"


def trained_in(path: Path, code: Code) -> TrainedRanker:
    """The ranker of a run's folder, of a server's state folder, or of a file that
    `TrainedRanker.save` wrote. No other code is loaded than that of `code`."""
    if holds_run(path):
        return _of_run(path, code)
    if path.is_file() or (path / RANKER).is_file():
        code.load(None, ())
        return load_ranker(path if path.is_file() else path / RANKER)
    if runs := folders_with_runs(path):
        number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        raise Mistake(f"{path} is a folder of {number}: give one, such as {runs[0]}")
    if path.is_dir():
        stops = f"(a server writes {RANKER} when it stops)"
        raise Mistake(f"{path} holds no ranker: {WANTED} {stops}")
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    meant = near(path.name, beside)
    hint = f"did you mean {path.parent / meant}?" if meant else WANTED
    raise Mistake(f"{path} does not exist: {hint}")


def _of_run(path: Path, code: Code) -> TrainedRanker:
    e, folder = load_finished(path, code), Folder(path)
    return trained_by(e, folder.params(), *_features(e, folder))


def _features(
    e: Experiment, folder: Folder
) -> tuple[int, tuple[str, ...] | None, Normalisation | None]:
    """How many features there are, their names and their normalisation: as the run recorded them,
    or as its data has them if an earlier foltr made the run."""
    about = folder.environment().get("features")
    if about is None:
        try:
            data = e.data.load("train")
        except Mistake as mistake:
            before = f"{folder.path} was made by an earlier foltr, and its features are not in it"
            raise Mistake(f"{before}: its data is needed. {mistake}") from None
        return data.width, data.names, data.normalisation
    known = isinstance(about, dict) and isinstance(about.get("number"), int)
    wrong = f"{folder.path / ENVIRONMENT}: features cannot be read: make the run again"
    require(known, wrong)
    return about["number"], *features_of(about, about["number"])
