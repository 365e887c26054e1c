"""Writes a trained ranker in a format: `foltr.export`, `foltr export`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING

from foltr.core.errors import Mistake, did_you_mean, near, require, shown
from foltr.core.scoring import Normalisation, PerQuery, plain_layers
from foltr.core.system.files import given_path, write_whole
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from foltr.simulation.exports.model import Model
from foltr.simulation.exports.onnx_file import onnx_file
from foltr.simulation.exports.plugins import plugin_file
from foltr.simulation.exports.python_file import python_file
from foltr.simulation.runs.config import load_finished
from foltr.simulation.runs.folder import ENVIRONMENT, Folder
from foltr.simulation.runs.identity import folders_with_runs, holds_run
from foltr.simulation.runs.result import Result, trained_by
from foltr.simulation.runs.trained import TrainedRanker, about_features, features_of, load_ranker

if TYPE_CHECKING:
    from foltr.simulation.exports.estimator import RankerEstimator

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
    if name is not None:
        called = name
    elif not called.isprintable():
        called = NAME
    plain = f"the name of a model must be printable text, got {shown(called)}"
    require(bool(called) and called.isprintable(), plain)
    if names is not None:
        trained = replace(trained, names=names)
    if normalize:
        own = trained.normalisation
        other = f"the ranker has a normalisation of its own ({own}): leave normalize out"
        require(own in (None, PerQuery()), other)
        trained = replace(trained, normalisation=PerQuery())
    model, chosen = Model(trained, called), FORMATS[to]
    file = given_path(chosen.file if out is None else out)
    file = file / chosen.file if file.is_dir() else file
    content = chosen.content(model, file)
    return Exported(model, chosen, file, _write(file, content, overwrite))


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
        from foltr.simulation.exports.estimator import RankerEstimator
    except ImportError as error:
        install = "pip install 'foltr[export]'"
        raise Mistake(f"estimators need scikit-learn: {install} ({error})") from None
    return RankerEstimator(load_ranker(path))


@dataclass(frozen=True)
class Format:
    """A format of `foltr export`."""

    file: str  # the default name of the file
    content: Callable[[Model, Path], bytes]  # (model, file) -> content of the file
    usage: Callable[[Model, Path], str]  # (model, file) -> how to use the file, for the user


def _python(model: Model, out: Path) -> bytes:
    plain = out.stem.isascii() and out.stem.isidentifier() and not iskeyword(out.stem)
    own = out.suffix == ".py" and out.stem not in sys.stdlib_module_names  # it imports some
    require(plain and own, f"{out.name!r} could not be imported: name the file as in ranker.py")
    return python_file(model, out.stem)


def _load_ranker(model: Model, out: Path) -> str:
    return f"load it: foltr.load_ranker({str(out)!r})"


def _load_estimator(model: Model, out: Path) -> str:
    return f"load it: foltr.load_estimator({str(out)!r}).predict(documents)"


def _run_session(model: Model, out: Path) -> str:
    return (
        f"use it: onnxruntime.InferenceSession({str(out)!r}).run(None, {{'documents': matrix}})[0]"
        f", where matrix is float32 (documents, {model.features})"
    )


def _import(model: Model, out: Path) -> str:
    return f"check it: python {shlex.quote(str(out))}; use it: from {out.stem} import scores"


def _upload(model: Model, out: Path) -> str:
    url = "http://localhost:9200/_ltr/_featureset/FEATURESET/_createmodel"
    body = f"-H 'Content-Type: application/json' --data-binary @{shlex.quote(str(out))}"
    return (
        f"upload it: curl -X POST {url} {body}\n"
        "FEATURESET is your feature set: its features have the names of the ranker's. Use the"
        f' model in a rescore query: {{"sltr": {{"model": "{model.name}", "params": ...}}}}'
    )


def json_file(model: Model) -> bytes:
    """The file of `TrainedRanker.save`, with the layers written out for other programs."""
    saved = model.trained.plain()
    params = saved.pop("params")  # last: other programs do not need them
    content = {
        **saved,
        **about_features(model.names, model.normalisation),
        "names_sha256": model.names_sha256,
        "layers": plain_layers(model.layers),
        "params": params,
    }
    return (json.dumps(content, allow_nan=False) + "\n").encode()


FORMATS = {
    "json": Format("ranker.json", lambda model, out: json_file(model), _load_ranker),
    "onnx": Format("ranker.onnx", lambda model, out: onnx_file(model), _run_session),
    "opensearch": Format("ranker.opensearch.json", lambda model, out: plugin_file(model), _upload),
    "elasticsearch": Format(
        "ranker.elasticsearch.json", lambda model, out: plugin_file(model), _upload
    ),
    "python": Format("ranker.py", _python, _import),
    "sklearn": Format("ranker.sklearn.json", lambda model, out: json_file(model), _load_estimator),
}

RANKER = "ranker.json"  # in the state folder of a server
WANTED = f"give the folder of a run, the state folder of a server, or a {RANKER}"


def trained_in(path: Path, code: Code) -> TrainedRanker:
    """The ranker of a run's folder, of a server's state folder, or of a file that
    `TrainedRanker.save` wrote. No other code is loaded than that of `code`."""
    if holds_run(path):
        e, folder = load_finished(path, code), Folder(path)
        return trained_by(e, folder.params(), *_features(e, folder))
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
