"""Ranking SVM: its objective, pinned by hand, and its optimum, against liblinear and by what an
optimum is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import NO_PAIR, collection, noisy
from sklearn.svm import LinearSVC

from foltr.components.baselines import ranking_svm
from foltr.components.baselines.ranking_svm import Pairs, RankingSVM
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from property_settings import examples


def weights(data, C):
    return RankingSVM(C=C).fit(data, None, seed=1).params


def differences(data):
    """A row per pair of a query's documents with different labels, the better one minus the
    worse."""
    rows = [
        data.features[i].astype(float) - data.features[j]
        for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True)
        for i in range(start, stop)
        for j in range(start, stop)
        if data.labels[0, i] > data.labels[0, j]
    ]
    return np.array(rows)


def objective(w, rows, c):
    return 0.5 * w @ w + c * np.maximum(0.0, 1.0 - rows @ w).sum()


@pytest.mark.parametrize(("C", "w"), [(0.25, 0.25), (0.9, 0.9), (1.0, 1.0), (1000.0, 1.0)])
def test_one_pair_by_hand(C, w):
    """1/2 w^2 + C max(0, 1 - w) is least at min(C, 1)."""
    np.testing.assert_allclose(weights(collection(([[1], [0]], [2, 0])), C), [w], rtol=1e-4)


def test_c_is_divided_by_all_queries_also_those_without_a_pair():
    pair, none, alone = ([[1], [0]], [1, 0]), ([[5], [3]], [1, 1]), ([[7]], [2])
    np.testing.assert_allclose(weights(collection(pair, none, alone, none), 2.0), [0.5], rtol=1e-4)


@pytest.mark.parametrize(("C", "w"), [(0.1, 0.4), (0.2, 0.5), (0.3, 0.6), (10.0, 1.0)])
def test_every_pair_of_different_grades_counts_once_by_hand(C, w):
    """Differences 1, 1, 2 at distance 1: 1/2 w^2 + C (2 max(0, 1 - w) + max(0, 1 - 2 w))."""
    np.testing.assert_allclose(
        weights(collection(([[1], [2], [0]], [1, 2, 0])), C), [w], rtol=1e-4
    )


def test_two_features_by_hand():
    """Pairs (1, 0) and (0, 2): the shortest w with margins 1 is (1, 1/2)."""
    data = collection(([[1, 0], [0, 0]], [1, 0]), ([[3, 2], [3, 0]], [2, 1]))
    np.testing.assert_allclose(weights(data, 1000.0), [1.0, 0.5], rtol=1e-4)


def test_contradictions_cancel():
    data = collection(([[1, 0], [0, 0]], [1, 0]), ([[0, 0], [1, 0]], [1, 0]))
    np.testing.assert_allclose(weights(data, 10.0), [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_as_liblinear_finds_it(C):
    data = noisy(40, features=4)
    rows, c = differences(data), C / data.queries
    sides = np.where(np.arange(len(rows)) % 2, 1, -1)  # liblinear wants two classes
    other = LinearSVC(
        C=c,
        loss="hinge",
        dual=True,
        fit_intercept=False,
        tol=1e-6,
        max_iter=1_000_000,
        random_state=0,
    )
    coefficients = other.fit(rows * sides[:, None], sides).coef_[0]
    w = weights(data, C)
    assert objective(w, rows, c) <= objective(coefficients, rows, c) * (1 + 1e-8)
    np.testing.assert_allclose(w, coefficients, rtol=1e-3, atol=1e-3)


@st.composite
def collections(draw, magnitudes):
    """Awkward ones: copied and constant features, repeated documents with other labels, queries
    without a pair."""
    width, made = draw(st.integers(1, 4)), []
    for _ in range(draw(st.integers(1, 4))):
        m = draw(st.integers(1, 6))
        docs = draw(
            st.lists(
                st.lists(st.integers(-3, 3), min_size=width, max_size=width),
                min_size=m,
                max_size=m,
            )
        )
        made.append((np.array(docs), draw(st.lists(st.integers(0, 2), min_size=m, max_size=m))))
    scale = 10.0 ** np.array(draw(st.lists(magnitudes, min_size=width, max_size=width)))
    copies = draw(st.integers(1, 2))
    return collection(*[(np.tile(docs * scale, copies), labels) for docs, labels in made])


def nothing_is_better(data, C, seed):
    rows, c = differences(data), C / data.queries
    if not len(rows):
        with pytest.raises(
            Mistake, match="no training query has two documents with different labels"
        ):
            weights(data, C)
        return
    w = weights(data, C)
    best = objective(w, rows, c)
    assert best <= objective(np.zeros(data.width), rows, c) * (1 + 2e-8)
    largest = np.maximum(1e-9, np.abs(rows).max(axis=0))
    for i, size in enumerate((1e-4, 1e-2, 1.0, 100.0)):
        for step in stream(seed, "steps", i).normals(10 * data.width).reshape(10, -1):
            assert best <= objective(w + size * step / largest, rows, c) * (1 + 2e-8)


@examples(100)
@given(collections(st.just(0)), st.sampled_from([1e-3, 1.0, 1000.0]), st.integers(0, 10**6))
def test_nothing_is_better_than_what_it_finds(data, C, seed):
    nothing_is_better(data, C, seed)


@examples(100)
@given(collections(st.integers(-3, 5)), st.sampled_from([1.0, 1000.0, 1e6]), st.integers(0, 10**6))
def test_with_features_of_any_scale_it_finds_the_best_or_says_that_it_did_not(data, C, seed):
    try:
        nothing_is_better(data, C, seed)
    except Mistake as mistake:
        assert "no optimum found" in str(mistake)


def test_pairs_are_the_matrix_that_they_stand_for():
    data = noisy(6, features=3)
    pairs, docs, rng = Pairs.of(data), data.features.astype(float), stream(0, "pairs")
    matrix = np.zeros((len(pairs.better), data.documents))
    matrix[np.arange(len(matrix)), pairs.better] = 1
    matrix[np.arange(len(matrix)), pairs.worse] = -1
    np.testing.assert_allclose(matrix @ docs, differences(data))
    scores, values = rng.normals(data.documents), rng.uniforms(len(matrix))
    np.testing.assert_allclose(pairs.differences(scores), matrix @ scores)
    np.testing.assert_allclose(pairs.collected(values), matrix.T @ values, atol=1e-12)
    expected = docs.T @ matrix.T @ np.diag(values) @ matrix @ docs
    np.testing.assert_allclose(pairs.moments(docs, values), expected, atol=1e-12)


def test_a_large_offset_of_a_query_changes_nothing():
    data = noisy(20, features=3)
    queries = list(zip(data.offsets[:-1], data.offsets[1:], strict=True))
    # exact in float32 beside 1024
    coarse = [np.round(data.features[a:b] * 64) / 64 for a, b in queries]
    here, moved = (
        collection(
            *[
                (docs + offset, data.labels[0, a:b])
                for docs, (a, b) in zip(coarse, queries, strict=True)
            ]
        )
        for offset in (0.0, 1024.0)
    )
    np.testing.assert_allclose(weights(moved, 100.0), weights(here, 100.0), rtol=1e-9)


def test_queries_without_a_pair_of_different_labels_teach_nothing():
    with pytest.raises(Mistake, match="no training query has two documents with different labels"):
        weights(NO_PAIR, 1.0)


def test_an_optimum_out_of_reach_is_said(monkeypatch):
    monkeypatch.setattr(ranking_svm, "STEPS", 2)
    with pytest.raises(
        Mistake, match=r"no optimum found \(.*\): normalize the features, or take a smaller C"
    ):
        weights(noisy(), 1000.0)


@pytest.mark.parametrize("C", [0.0, -1.0, float("inf"), float("nan")])
def test_an_impossible_c_is_refused(C):
    with pytest.raises(Mistake, match="C"):
        RankingSVM(C=C)
