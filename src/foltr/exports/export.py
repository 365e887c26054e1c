"""Writes a trained ranker in a format: `foltr.export`, `foltr export`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foltr.errors import Mistake, did_you_mean, require, shown
from foltr.exports.formats import FORMATS, Format
from foltr.exports.model import Model
from foltr.runs.result import Result
from foltr.runs.saved import trained_in
from foltr.runs.trained import TrainedRanker, load_ranker
from foltr.runs.user_files import Code
from foltr.scoring.normalisation import PerQuery
from foltr.system.files import write_whole
from foltr.system.paths import given_path

if TYPE_CHECKING:
    from foltr.exports.estimator import RankerEstimator

NAME = "ranker"  # of a model that was given none


@dataclass(frozen=True, eq=False)
class Exported:
    """What was written, and how to use it."""

    model: Model
    format: Format
    out: Path
    new: bool  # False if the file was there, with the same content


def export(
    ranker: TrainedRanker | Result | str | Path,
    to: str,
    out: str | Path | None = None,
    names: tuple[str, ...] | None = None,
    name: str | None = None,
    normalize: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write a trained ranker for other programs. Returns the path of the file.

    ranker: a trained ranker, a result, a file of `TrainedRanker.save`, or the folder of a run or
        of a server's state
    to: 'json', 'onnx', 'opensearch', 'elasticsearch', 'python' or 'sklearn'
    out: the file, or a folder for it; None for ranker.json, ranker.onnx, ... in the working
        directory
    names: names of the features, instead of those of the ranker
    name: name of the model
    normalize: the model normalises features per query. For a ranker that was trained on such
        features and does not store that
    overwrite: replace an existing file whose content differs

    If the ranker stores how its features were normalised, the model takes raw features and
    normalises them in the same way. Otherwise it takes features that are normalised already. Its
    scores differ from those of the ranker by at most 1e-6 of the largest absolute score of the
    query, on the rankers and documents of the tests. Raises a Mistake if the format cannot
    represent the ranker."""
    return exported(ranker, to, out, names, name, normalize, overwrite).out


def exported(
    ranker: TrainedRanker | Result | str | Path,
    to: str,
    out: str | Path | None = None,
    names: tuple[str, ...] | None = None,
    name: str | None = None,
    normalize: bool = False,
    overwrite: bool = False,
    code: Code | None = None,
) -> Exported:
    """As `export`, with more about what was written. `code`: the files of components that may be
    loaded for a run."""
    require(to in FORMATS, f"no format is called {to!r}: {did_you_mean(str(to), FORMATS)}")
    if isinstance(ranker, str | Path):
        path = given_path(ranker)
        called = path.resolve().name.removesuffix(".json")
        trained = trained_in(path, code or Code(trusted=False))
    else:
        called, trained = NAME, ranker.trained if isinstance(ranker, Result) else ranker
        one = "export takes a trained ranker, a result or a path"
        require(isinstance(trained, TrainedRanker), f"{one}, got {shown(ranker)}")
    called = (called if called.isprintable() else NAME) if name is None else name
    plain = f"the name of a model must be printable text, got {shown(called)}"
    require(bool(called) and called.isprintable(), plain)
    model = Model(_completed(trained, names, normalize), called)
    chosen = FORMATS[to]
    file = given_path(chosen.file if out is None else out)
    file = file / chosen.file if file.is_dir() else file
    content = chosen.content(model, file)
    return Exported(model, chosen, file, _write(file, content, overwrite))


def _completed(
    trained: TrainedRanker, names: tuple[str, ...] | None, normalize: bool
) -> TrainedRanker:
    """The ranker, with names and normalisation that the caller gave."""
    if names is not None:
        trained = replace(trained, names=names)
    if normalize:
        own = trained.normalisation
        other = f"the ranker has a normalisation of its own ({own}): leave normalize out"
        require(own in (None, PerQuery()), other)
        trained = replace(trained, normalisation=PerQuery())
    return trained


def _write(out: Path, content: bytes, overwrite: bool) -> bool:
    """Write the file, unless it exists with the same content. A file with other content is
    replaced only with `overwrite`. Returns whether it was written."""
    if out.exists():
        require(out.is_file(), f"{out} is no regular file: choose another --out")
        try:
            same = out.read_bytes() == content
        except OSError as error:
            raise Mistake(f"cannot read {out}: {error.strerror}") from None
        if same:
            return False
        require(overwrite, f"{out} exists and differs: choose another --out, or add --overwrite")
    write_whole(out, content)
    return True


def load_estimator(path: str | Path) -> RankerEstimator:
    """A scikit-learn estimator of the ranker in a file that `foltr export --to sklearn` or
    `TrainedRanker.save` wrote. Its `predict(X, groups=None)` gives scores of raw features."""
    try:
        from foltr.exports.estimator import RankerEstimator
    except ImportError as error:
        install = "pip install 'foltr[export]'"
        raise Mistake(f"estimators need scikit-learn: {install} ({error})") from None
    return RankerEstimator(load_ranker(path))
