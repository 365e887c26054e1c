"""The table of formats: how each is written, and what to do with the file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from foltr.errors import require
from foltr.exports.json_file import json_file
from foltr.exports.model import Model
from foltr.exports.onnx_file import onnx_file
from foltr.exports.plugins import plugin_file
from foltr.exports.python_file import python_file


@dataclass(frozen=True)
class Format:
    """A format of `foltr export`."""

    file: str  # the default name of the file
    content: Callable[[Model, Path], bytes]  # (model, file) -> content of the file
    usage: Callable[[Model, Path], str]  # (model, file) -> how to use the file, for the user


def _json(model: Model, out: Path) -> bytes:
    return json_file(model)


def _onnx(model: Model, out: Path) -> bytes:
    return onnx_file(model)


def _plugin(model: Model, out: Path) -> bytes:
    return plugin_file(model)


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


FORMATS = {
    "json": Format("ranker.json", _json, _load_ranker),
    "onnx": Format("ranker.onnx", _onnx, _run_session),
    "opensearch": Format("ranker.opensearch.json", _plugin, _upload),
    "elasticsearch": Format("ranker.elasticsearch.json", _plugin, _upload),
    "python": Format("ranker.py", _python, _import),
    "sklearn": Format("ranker.sklearn.json", _json, _load_estimator),
}
