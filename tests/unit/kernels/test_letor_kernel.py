"""Numbers and normalisation in the LETOR kernels."""

import numpy as np
import pytest

from foltr.core.seeds import stream
from foltr.kernels.letor import normalize_queries, parse_number


def parsed(word: str):
    return parse_number(np.frombuffer(word.encode() + b"\n", np.uint8), 0)


@pytest.mark.parametrize(
    "word",
    [
        "0",
        "-0",
        "0.1",
        "16777217",
        "123456.789e-3",
        "1e22",
        "9007199254740993",
        ".5",
        "5.",
        "1E+5",
    ],
)
def test_a_number_taken_is_the_one_that_python_reads(word):
    value, end = parsed(word)
    assert end == len(word)
    assert np.float32(value).tobytes() == np.float32(float(word)).tobytes()


@pytest.mark.parametrize(
    "word",
    ["", "x", "1x", "1.2.3", "1e", "1e99999", "1e39", "-1e300", "1234567890123456789", "nan"],
)
def test_what_is_not_plainly_a_number_is_left_to_python(word):
    assert parsed(word)[1] == -1


def test_a_tie_between_two_float32_is_left_to_python_when_the_float64_is_inexact():
    # halfway between two float32; 18 digits cannot say on which side the text lies
    middle = 1 + 2.0**-24
    assert parsed(f"{middle:.17f}")[1] == -1


def test_random_numbers_are_python_s():
    rng = stream(0, "numbers")
    words = [
        f"{m:.{d}e}"
        for m, d in zip(
            np.exp(60 * (rng.uniforms(3000) - 0.5)), 1 + rng.words(3000) % 17, strict=True
        )
    ]
    for word in words:
        value, end = parsed(word)
        assert end == -1 or np.float32(value) == np.float32(float(word)), word


def test_normalisation_by_hand():
    storage = np.array([[1, 5, 0, 9], [3, 5, 0, 9], [2, 5, -1, 9], [7, 7, 7, 9]], np.float32)
    normalize_queries(storage, 3, np.array([0, 3, 4]))
    np.testing.assert_array_equal(
        storage, [[0, 0, 1, 9], [1, 0, 1, 9], [0.5, 0, 0, 9], [0, 0, 0, 9]]
    )


def test_normalisation_spans_all_of_float32():
    largest = np.finfo(np.float32).max
    storage = np.array([[-largest], [largest], [0]], np.float32)
    normalize_queries(storage, 1, np.array([0, 3]))
    assert storage[:, 0].tolist() == [0, 1, 0.5]
