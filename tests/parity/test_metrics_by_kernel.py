"""metrics.csv read by a kernel, against Python's own `float`."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foltr.simulation.runs.columns import Metrics

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.0, 1.0)


def table(values):
    """The text of a run that was evaluated before its first round and in each."""
    n = len(values) - 1
    metrics = Metrics(
        {"online_ndcg@10": values[1:], "interactions": [40.0] * n},
        list(range(n + 1)),
        {"ndcg@10": values},
    )
    return metrics.csv()


def bits(values):
    return np.array(values, np.float64).tobytes()


@given(st.lists(NUMBERS, min_size=1, max_size=30))
@example([0.23019256384189551, 9007199254740993.0, 5e-324, 1.7976931348623157e308, -0.0])
@example([math.nan, math.inf, -math.inf, 1e22, 123456789.12345679, 1e-05])
def test_every_float_that_python_writes_is_read_bit_for_bit(values):
    text = table(values)
    plain, by_kernel = Metrics.from_csv(text), Metrics.from_bytes(text.encode())
    assert by_kernel.evaluated == plain.evaluated
    for ours, theirs in ((by_kernel.online, plain.online), (by_kernel.offline, plain.offline)):
        assert list(ours) == list(theirs)
        assert all(bits(ours[name]) == bits(theirs[name]) for name in theirs)


def test_many_random_numbers_of_seventeen_digits():
    rng = np.random.default_rng(1)
    values = (rng.random(20_000) * 10.0 ** rng.integers(-6, 9, 20_000)).tolist()
    assert Metrics.from_bytes(table(values).encode()).offline["ndcg@10"].tolist() == values


@given(st.decimals(0, 10**6, places=20), st.integers(0, 12))
def test_numbers_that_no_float_prints_as_are_rounded_as_by_python(number, cut):
    whole = f"{number:.20f}"
    written = whole[: len(whole) - cut]
    text = f"round,ndcg@10\n0,{written}\n"
    [found] = Metrics.from_bytes(text.encode()).offline["ndcg@10"].tolist()
    assert found == float(written)


def test_rounds_that_were_not_evaluated_are_empty():
    text = "round,maxrr,ndcg@10\n0,,0.1\n1,0.5,\n2,0.25,0.2\n"
    found = Metrics.from_bytes(text.encode())
    assert found.evaluated == [0, 2] and found.offline["ndcg@10"].tolist() == [0.1, 0.2]
    assert found.online["maxrr"].tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "round,ndcg@10",
        "round,ndcg@10\n0\n",
        "round,ndcg@10\n0,0.1,7\n",
        "round,ndcg@10\n0,zero\n",
        "round,ndcg@10\n0,0.1.2\n",
        "round,ndcg@10\n0,-\n",
        "round,maxrr,ndcg@10\n0,,0.1\n1,,0.2\n",
        "round,maxrr,ndcg@10,mrr@10\n0,,0.1,0.1\n1,1.0,0.2,\n",
        "round,maxrr\n0,1\n",
        "round,ndcg@10\n\n",
    ],
)
def test_other_text_is_refused_by_both(text):
    for read in (lambda: Metrics.from_csv(text), lambda: Metrics.from_bytes(text.encode())):
        with pytest.raises((ValueError, KeyError, IndexError)):
            read()
