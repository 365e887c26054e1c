"""Rankers to export, documents to score, and the scores by definition: written from the docs, and
without foltr's own code for exports."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import foltr
from foltr.core.scoring import PerFeature, PerQuery
from foltr.simulation.runs.trained import TrainedRanker

CLOSE = 1e-6  # of the largest score of a query
TINY = 2.0**-149  # the distance of the smallest numbers of float32, in which ONNX gives scores
ROUNDING = 1e-12  # of the largest sum of absolute terms: float64, where terms cancel
LARGEST = float(np.finfo(np.float32).max)
RANKERS = [
    foltr.Linear(),
    *(foltr.MLP(hidden=3, activation=name) for name in ("sigmoid", "relu", "tanh")),
]


def single(least=-LARGEST, most=LARGEST):
    """Numbers of float32."""
    bounds = [float(np.float32(x)) for x in (least, most)]
    return st.floats(*bounds, width=32, allow_nan=False)


@st.composite
def rankers(draw, of=RANKERS, kinds=("none", "query", "feature")):
    """Any trained ranker of a few features."""
    ranker, f = draw(st.sampled_from(of)), draw(st.integers(1, 4))
    d = len(ranker.init(f, foltr.core.seeds.stream(0)))
    params = draw(st.lists(single(-100, 100), min_size=d, max_size=d))
    kind, normalisation = draw(st.sampled_from(kinds)), None
    if kind == "query":
        normalisation = PerQuery()
    if kind == "feature":
        shift = draw(st.lists(single(-1e6, 1e6), min_size=f, max_size=f))
        scale = draw(st.lists(st.just(0.0) | single(0.01, 1e6), min_size=f, max_size=f))
        normalisation = PerFeature(tuple(shift), tuple(scale))
    named = draw(st.booleans())
    names = tuple(draw(st.lists(st.text(min_size=1), min_size=f, max_size=f, unique=True)))
    params = np.array(params, np.float32)
    return TrainedRanker(ranker, params, f, names if named else None, normalisation)


@st.composite
def documents(draw, trained):
    """The raw features of a query: constant features, one document, zeros, and the largest
    numbers of float32 where these are scaled to 0 .. 1."""
    wide = isinstance(trained.normalisation, PerQuery)
    numbers = single() if wide else single(-1e6, 1e6)
    m, f = draw(st.integers(1, 5)), trained.features
    rows = [draw(st.lists(numbers, min_size=f, max_size=f)) for _ in range(m)]
    docs = np.array(rows, np.float32)
    for column in range(f):
        if draw(st.integers(0, 3)) == 0:
            docs[:, column] = docs[0, column]
    if draw(st.integers(0, 3)) == 0:
        docs[draw(st.integers(0, m - 1))] = 0.0
    return docs


@st.composite
def cases(draw, of=RANKERS, kinds=("none", "query", "feature")):
    """A trained ranker and documents for it."""
    trained = draw(rankers(of, kinds))
    return trained, draw(documents(trained))


def normalised(trained, docs):
    """By docs/conventions.md, document by document; rounded to float32, as data is stored."""
    rows = [[float(np.float32(x)) for x in row] for row in docs]
    kind, shift, scale = trained.normalisation, (), ()
    if isinstance(kind, PerQuery):
        columns = list(zip(*rows, strict=True))
        shift, scale = map(min, columns), [max(each) - min(each) for each in columns]
    elif isinstance(kind, PerFeature):
        shift, scale = kind.shift, kind.scale
    parts = list(zip(shift, scale, strict=True))
    if parts:
        rows = [
            [(x - a) / b if b != 0.0 else 0.0 for x, (a, b) in zip(row, parts, strict=True)]
            for row in rows
        ]
    return np.array(rows, np.float32).astype(np.float64).reshape(len(rows), trained.features)


def by_definition(trained, docs):
    """Scores in float64 by the formulas in the docstrings of Linear and MLP, and how far rounding
    may move them."""
    x, params = normalised(trained, docs), trained.params.astype(np.float64)
    if not isinstance(trained.ranker, foltr.MLP):
        return x @ params, ROUNDING * np.max(np.abs(x) @ np.abs(params))
    h, f = trained.ranker.hidden, trained.features
    w, b, v = params[: h * f].reshape(h, f), params[h * f : h * f + h], params[h * f + h :]
    z = x @ w.T + b
    with np.errstate(over="ignore"):
        a = {"relu": z * (z > 0), "tanh": np.tanh(z), "sigmoid": 1.0 / (1.0 + np.exp(-z))}
    a = a[trained.ranker.activation]
    slack = np.max(np.abs(x) @ np.abs(w).T + np.abs(b)) * np.sum(np.abs(v))
    return a @ v, ROUNDING * (slack + np.max(np.abs(a) @ np.abs(v)))


def assert_close(found, trained, docs, slack=0.0):
    expected, rounding = by_definition(trained, docs)
    found = np.asarray(found, np.float64)
    assert found.shape == expected.shape
    limit = CLOSE * np.abs(expected).max() + rounding + TINY + slack
    assert np.abs(found - expected).max() <= limit


def units_of_float32(trained, docs):
    """How far scores move if each normalised feature is off by a unit in the last place."""
    units = np.spacing(np.abs(normalised(trained, docs)).astype(np.float32))
    return np.max(units.astype(np.float64) @ np.abs(trained.params.astype(np.float64)))


def made(ranker="Linear()", f=5, normalisation=None, names=None, seed=0):
    """A ranker with random parameters."""
    ranker = foltr.core.spec.rankers.build(ranker) if isinstance(ranker, str) else ranker
    d = len(ranker.init(f, foltr.core.seeds.stream(0)))
    params = foltr.core.seeds.stream(seed, "params").normals(d).astype(np.float32)
    return TrainedRanker(ranker, params, f, names, normalisation)


def raw_documents(m=7, f=5, seed=0):
    """Features of very different sizes; the first one is constant."""
    sizes = 10.0 ** (np.arange(f) % 7 - 2)
    docs = np.exp(foltr.core.seeds.stream(seed, "raw").normals(m * f)).reshape(m, f) * sizes
    docs[:, 0] = 3.25
    return docs
