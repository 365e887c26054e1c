"""Normalisation of features: the bits of the data reader, and what files may say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from foltr.core.errors import Mistake
from foltr.core.scoring import PerFeature, PerQuery, normalisation_of
from foltr.kernels.letor import normalize_queries

matrices = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(matrices)
def test_per_query_has_the_bits_of_the_data_reader(docs):
    read = docs.copy()
    normalize_queries(read, read.shape[1], np.array([0, len(read)]))
    scaled = PerQuery()(docs)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, read)


@given(matrices)
def test_per_query_twice_is_per_query_once(docs):
    once = PerQuery()(docs)
    np.testing.assert_array_equal(PerQuery()(once), once)


def test_normalisation_worked_out_by_hand():
    docs = np.array([[1.0, 5.0, -4.0], [3.0, 5.0, 4.0], [2.0, 5.0, 0.0]], np.float32)
    expected = [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.5, 0.0, 0.5]]
    assert PerQuery()(docs).tolist() == expected
    fixed = PerFeature((1.0, 5.0, 2.0), (2.0, 0.0, 4.0))
    assert fixed(docs).tolist() == [[0.0, 0.0, -1.5], [1.0, 0.0, 0.5], [0.5, 0.0, -0.5]]
    assert PerQuery()(docs[:0]).shape == fixed(docs[:0]).shape == (0, 3)


def test_normalisation_with_more_features():
    assert PerQuery().widened(2) == PerQuery()
    assert PerFeature((3.0,), (2.0,)).widened(2) == PerFeature((3.0, 0.0, 0.0), (2.0, 1.0, 1.0))


def test_numbers_are_rounded_to_float32():
    fixed = PerFeature((0.1,), (0.3,))
    assert fixed.shift == (float(np.float32(0.1)),) and fixed.scale == (float(np.float32(0.3)),)
    assert PerFeature([0.1], np.array([0.3])) == fixed


@pytest.mark.parametrize("how", [PerQuery(), PerFeature((1.0, 2.0), (0.0, 1.5))])
def test_as_plain_values_and_back(how):
    assert normalisation_of(how.plain(), 2) == how


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        "min-max per query",
        {},
        {"kind": "standard"},
        {"kind": ["min-max per query"]},
        {"kind": "min-max per query", "axis": 0},
        {"kind": "shift and scale", "shift": [0.0, 0.0]},
        {"kind": "shift and scale", "shift": [0.0], "scale": [1.0]},
        {"kind": "shift and scale", "shift": [0.0, 0.0], "scale": [1.0]},
        {"kind": "shift and scale", "shift": [0.0, 0.0], "scale": [1.0, -1.0]},
        {"kind": "shift and scale", "shift": [0.0, 1e39], "scale": [1.0, 1.0]},
        {"kind": "shift and scale", "shift": [0.0, "x"], "scale": [1.0, 1.0]},
        {"kind": "shift and scale", "shift": [[0.0], [0.0]], "scale": [1.0, 1.0]},
    ],
)
def test_anything_else_is_refused(plain):
    with pytest.raises(Mistake):
        normalisation_of(plain, 2)
