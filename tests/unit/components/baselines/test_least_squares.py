"""Linear regression on labels."""

import numpy as np
from labelled import collection, noisy
from sklearn.linear_model import LinearRegression

from foltr.components.baselines.least_squares import LeastSquares


def weights(data):
    return LeastSquares().fit(data, None, seed=1).params


def test_by_hand():
    np.testing.assert_allclose(
        weights(collection(([[0], [1], [2]], [0, 1, 2]))), [1.0], rtol=1e-12
    )
    # groups at 0 and 1 have mean labels 1/2 and 3/2; queries do not matter
    np.testing.assert_allclose(
        weights(collection(([[0], [1]], [0, 1]), ([[0], [1]], [1, 2]))), [1.0], rtol=1e-12
    )
    # an intercept is fitted: labels 1, 2 at 10, 11 lie on x - 9, not on the best line through zero
    np.testing.assert_allclose(weights(collection(([[10], [11]], [1, 2]))), [1.0], rtol=1e-9)


def test_one_document_per_query_is_enough():
    np.testing.assert_allclose(weights(collection(([[0]], [0]), ([[2]], [1]))), [0.5], rtol=1e-12)


def test_as_in_scikit_learn():
    data = noisy(80, features=7)
    other = LinearRegression().fit(data.features.astype(float), data.labels[0])
    np.testing.assert_allclose(weights(data), other.coef_, rtol=1e-9)


def test_of_several_best_ones_the_shortest_as_in_scikit_learn():
    data = noisy(80, features=3)
    doubled = np.hstack([data.features, data.features[:, :1]])  # (N, 4): the first feature twice
    pairs = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    twice = collection(*[(doubled[a:b], data.labels[0, a:b]) for a, b in pairs])
    w = weights(twice)
    np.testing.assert_allclose(w[[0, 3]], weights(data)[0] / 2, rtol=1e-9)
    np.testing.assert_allclose(
        w, LinearRegression().fit(doubled.astype(float), data.labels[0]).coef_, rtol=1e-7
    )
