"""Python: one file that needs the standard library only.

Its `scores` takes all documents of a query, as lists of numbers or as dicts by the names of
features. As in training, numbers are rounded to float32 before and after normalisation; the rest
is float64. Run as a script, the file scores three documents, and compares the scores with
those of foltr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import indent

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.scoring import Activation, Layer, PerFeature
from foltr.simulation.exports.model import Model, example

WIDTH = 80  # of a line of numbers or names
START = '''\
"""Scores documents with a ranker that {maker} trained: made by `foltr export --to python`.

    from {module} import rank, scores

    scores(documents)  # a number for each document; higher is better
    rank(documents)    # indices of the documents, best first

`documents` is a list of {documents}. A document is a list with a number for
each of FEATURES, or a dict from their names to numbers.

`python {module}.py` checks the file. It needs nothing but Python (3.8 or newer)."""

from array import array
from math import isfinite{imports}

'''
SCORES = '''

def scores(documents):
    """A score for each document of one query."""
    rows = [_numbers(document) for document in documents]
    return [_score(row) for row in {rows}]


def rank(documents):
    """Indices of the documents of one query, best first; ties keep their order."""
    found = scores(documents)
    return sorted(range(len(found)), key=lambda i: -found[i])


def _numbers(document):
    """The features of a document, rounded to float32."""
    if isinstance(document, dict):
        missing = [name for name in FEATURES if name not in document]
        if missing:
            raise ValueError("a document lacks the feature %r" % missing[0])
        document = [document[name] for name in FEATURES]
    row = array("f", document)
    if len(row) != len(FEATURES):
        raise ValueError("a document needs %d features, got %d" % (len(FEATURES), len(row)))
    if not all(map(isfinite, row)):
        raise ValueError("a document has a number that is not finite in float32")
    return row

'''
PER_QUERY = '''
def _normalised(rows):
    """Each feature scaled to 0 .. 1 over the documents of the query; 0 if it is constant."""
    lows = [min(column) for column in zip(*rows)]
    spans = [max(column) - low for column, low in zip(zip(*rows), lows)]
    return [
        array("f", [(x - low) / span if span else 0.0 for x, low, span in zip(row, lows, spans)])
        for row in rows
    ]

'''
PER_FEATURE = '''
def _normalised(rows):
    """Each feature shifted and scaled; 0 if its scale is 0."""
    return [
        array("f", [(x - low) / span if span else 0.0 for x, low, span in zip(row, SHIFT, SCALE)])
        for row in rows
    ]

'''
LINEAR = """
def _score(row):
    return sum(w * x for w, x in zip(WEIGHTS, row)){bias}
"""
NETWORK = """
def _score(row):
    for weights, bias, activation in LAYERS:
        sums = [sum(w * x for w, x in zip(unit, row)) + b for unit, b in zip(weights, bias)]
        row = [activation(z) for z in sums]
    return row[0]
"""
CHECK = """

if __name__ == "__main__":
    documents = [[(7.0 * i + 3.0 * j) % 11.0 for j in range(len(FEATURES))] for i in range(3)]
    expected = {expected}
    largest = max(map(abs, expected))
    worst = max(abs(a - b) for a, b in zip(scores(documents), expected))
    if not worst <= 1e-6 * largest:
        raise SystemExit("these are not the scores of foltr: they differ by up to %g" % worst)
    print("3 documents have the scores that foltr gave them")
"""
ACTIVATIONS: dict[Activation, str] = {
    "identity": "def _identity(z):\n    return z\n",
    "sigmoid": "def _sigmoid(z):\n    return 0.5 + 0.5 * tanh(0.5 * z)\n",
    "relu": "def _relu(z):\n    return max(0.0, z)\n",
    "tanh": "",
}


def python_file(model: Model, module: str) -> bytes:
    """The text of the file, which is to be imported as `module`."""
    documents = "all documents of one query" if model.per_query else "documents"
    used: list[Activation] = [layer.activation for layer in model.layers]
    imports = ", tanh" if {"sigmoid", "tanh"} & set(used) else ""
    head = {"maker": model.maker, "module": module, "documents": documents, "imports": imports}
    rows, normalising = "rows", ""
    if model.normalisation is not None:
        rows, normalising = "_normalised(rows)", PER_QUERY if model.per_query else PER_FEATURE
    parts = [
        START.format(**head),
        "".join(_constants(model)),
        SCORES.replace("{rows}", rows),
        normalising,
        *_scoring(model),
        CHECK.replace("{expected}", repr(_expected(model))),
    ]
    return "".join(parts).encode()


def _expected(model: Model) -> list[float]:
    scores = model.scores(example(model.features))
    large = "documents with features 0 .. 10 have scores that are not finite: correct the scales"
    require(bool(np.isfinite(scores).all()), large)
    return [float(score) for score in scores]


def _constants(model: Model) -> Iterator[str]:
    yield f"NAME = {model.name!a}\n"
    yield f"FEATURES = {_listed(map(ascii, model.names))}\n"
    yield f"FEATURES_SHA256 = {model.names_sha256!r}\n"
    if isinstance(model.normalisation, PerFeature):
        yield f"SHIFT = {_numbers(np.array(model.normalisation.shift))}\n"
        yield f"SCALE = {_numbers(np.array(model.normalisation.scale))}\n"
    if _is_linear(model):
        yield f"WEIGHTS = {_numbers(model.layers[0].weights[0])}\n"


def _scoring(model: Model) -> Iterator[str]:
    if _is_linear(model):
        (bias,) = model.layers[0].bias.tolist()
        yield LINEAR.replace("{bias}", f" + {bias!r}" if bias else "")
        return
    yield NETWORK
    for activation in dict.fromkeys(layer.activation for layer in model.layers):
        yield f"\n\n{ACTIVATIONS[activation]}" if ACTIVATIONS[activation] else ""
    yield "\n\nLAYERS = [  # weights of each unit, biases, activation\n"
    for layer in model.layers:
        yield f"    (\n{indent(_layer(layer), ' ' * 8)}\n    ),\n"
    yield "]\n"


def _layer(layer: Layer) -> str:
    units = "".join(f"{indent(_numbers(unit), ' ' * 4)},\n" for unit in layer.weights)
    called = layer.activation if layer.activation == "tanh" else f"_{layer.activation}"
    return f"[\n{units}],\n{_numbers(layer.bias)},\n{called},"


def _is_linear(model: Model) -> bool:
    return len(model.layers) == 1 and model.layers[0].activation == "identity"


def _numbers(array: Array) -> str:
    """Numbers of float32, each as the shortest text that float32 reads back."""
    return f'array("f", {_listed(map(str, array.astype(np.float32)))})'


def _listed(items: Iterable[str]) -> str:
    """A list of these literals, on lines that are not too long."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) > WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += f"{item}, "
    if not lines:
        return f"[{line[:-2]}]"
    block = "\n".join([*lines, line.rstrip()])
    return f"[\n{indent(block, ' ' * 4)}\n]"
