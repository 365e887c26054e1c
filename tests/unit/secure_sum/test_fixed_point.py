"""Numbers as words: exact sums, refused overflow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.secure_sum.arithmetic import PIECE, decode, encode, mean, weighted, weighted_sum
from property_settings import examples


def test_by_hand():
    """With two fraction bits the step is 1/4: 0.3 -> 1, -0.3 -> -1, 0.375 -> 2 (ties to even),
    0.125 -> 0."""
    words = encode(np.array([0.3, -0.3, 0.375, 0.125, 2.0]), 2, 3)
    assert words.view(np.int64).tolist() == [1, -1, 2, 0, 8]
    assert decode(words, 2).tolist() == [0.25, -0.25, 0.5, 0.0, 2.0]
    assert words[1] == 2**64 - 1


@given(st.integers(2, 50), st.integers(0, 40), st.integers(0, 2**32), st.floats(1e-6, 1e3))
def test_the_sum_is_that_of_the_words_and_close_to_that_of_the_numbers(n, bits, seed, scale):
    draws = np.random.default_rng(seed)
    updates, weights = (
        (draws.normal(size=(n, 5)) * scale).astype(np.float32),
        draws.integers(1, 9, n).astype(float),
    )
    total = weighted_sum(updates, weights, bits, n)
    step = Fraction(1, 2**bits)
    for j in range(6):
        numbers = [
            Fraction(w) * (Fraction(float(u[j - 1])) if j else 1)
            for u, w in zip(updates, weights, strict=True)
        ]
        # Python's own rounding, to even as well
        whole = [round(number / step) for number in numbers]
        assert int(total.view(np.int64)[j]) == sum(whole)
        assert abs(sum(whole) * step - sum(numbers)) <= n * step / 2


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2**32))
def test_rows_add_up_to_the_same_words_one_at_a_time(n, p, seed):
    draws = np.random.default_rng(seed)
    updates, weights = draws.normal(size=(n, p)).astype(np.float32), draws.random(n) * 9
    each = sum(
        (weighted(u, float(w), 32, n) for u, w in zip(updates, weights, strict=True)),
        np.zeros(1 + p, np.uint64),
    )
    np.testing.assert_array_equal(weighted_sum(updates, weights, 32, n), each)


def test_pieces_do_not_matter(monkeypatch):
    updates, weights = (
        np.random.default_rng(1).normal(size=(501, 7)).astype(np.float32),
        np.arange(501.0),
    )
    whole = weighted_sum(updates, weights, 32, 501)
    for piece in (1, 20, PIECE):
        monkeypatch.setattr("foltr.secure_sum.arithmetic.PIECE", piece)
        np.testing.assert_array_equal(weighted_sum(updates, weights, 32, 501), whole)


@pytest.mark.parametrize("clients", [1, 2, 3, 7, 1000, 2**20])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_that_is_let_in_cannot_overflow_the_sum(clients, sign):
    largest = np.floor(np.nextafter(2**63 / clients, 0.0))
    word = int(encode(np.array([sign * largest]), 0, clients).view(np.int64)[0])
    assert abs(word) * clients < 2**63
    with pytest.raises(
        Mistake, match=f"with {clients} clients and fraction_bits=0 each number must be within"
    ):
        encode(np.array([0.0, sign * (2**63 / clients)]), 0, clients)


@given(st.floats(allow_nan=False), st.integers(0, 52), st.integers(1, 10**6))
@examples(300)
def test_whatever_is_let_in_comes_back_within_half_a_step(value, bits, clients):
    try:
        word = encode(np.array([value]), bits, clients)
    except Mistake:
        assert (
            not np.isfinite(value)
            or abs(Fraction(value)) * 2**bits >= Fraction(2**63, clients) - 1
        )
    else:
        assert abs(Fraction(int(word.view(np.int64)[0]), 2**bits) - Fraction(value)) <= Fraction(
            1, 2 ** (bits + 1)
        )
        assert abs(int(word.view(np.int64)[0])) * clients < 2**63


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(Mistake, match=rf"{value} cannot be part of a secure sum"):
        weighted(np.array([1.0, value], np.float32), 4.0, 32, 10)
    with pytest.raises(Mistake, match="cannot be part of a secure sum"):
        weighted_sum(np.full((3, 2), value, np.float32), np.ones(3), 32, 10)


def test_an_overflow_names_the_value_the_range_and_the_way_out():
    with pytest.raises(
        Mistake,
        match=(
            r"4e\+06 \(a weight, or weight x update\).* 1000 clients and fraction_bits=32 .*"
            r" 2.14748e\+06; take"
        ),
    ):
        weighted(np.array([0.0, 1e6], np.float32), 4.0, 32, 1000)


def test_no_mean_without_weight():
    with pytest.raises(Mistake, match="add up to nothing"):
        mean(np.zeros(3, np.uint64), 32)
    update, weight = mean(encode(np.array([4.0, 2.0, -6.0]), 32, 5), 32)
    assert update.tolist() == [0.5, -1.5] and weight == 4.0
