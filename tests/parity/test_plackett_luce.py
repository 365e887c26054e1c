"""Sampled lists against exact enumeration: plain and compiled, by masses (narrow) and by Gumbel
keys (wide)."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from chance import RARE
from foltr.core.ranking import WIDE, best_first, plackett_luce
from foltr.core.seeds import Stream, key
from foltr.kernels import interaction as lists

DRAWS = 12_000
NARROW = np.array([0.5, -1.0, 1.5, 0.0, -0.3], np.float32)
# one document that is never seen makes the range wide; the others keep their probabilities,
# whatever is added to all
FAR = np.append(NARROW, np.float32(-3.0 * WIDE)) + np.float32(200.0)
# two that win nearly always, and whose order is a fair question
STEEP = np.array([3000.0, 3000.5, 0.0, -1500.0], np.float32)


def compiled_narrow(scores, k, stream):
    n = len(scores)
    mass, bits, ranking = np.empty(n, np.float32), np.empty(n, np.int32), np.empty(k, np.int64)
    lists.exponentials(scores, n, scores.max(), mass, bits)
    lists.sample_narrow(mass, n, k, np.uint64(stream.key), np.empty(n), ranking, np.empty(k))
    return ranking


def compiled_wide(scores, k, stream):
    ranking = np.empty(k, np.int64)
    lists.sample_wide(
        scores, len(scores), k, np.uint64(stream.key), ranking, np.empty(len(scores))
    )
    return ranking


def compiled_best_first(scores, k, stream):
    ranking = np.empty(k, np.int64)
    lists.best_first(scores, len(scores), k, np.uint64(stream.key), ranking)
    return ranking


def exact(scores, k):
    """Every list of k documents and its probability."""
    scores, lists_of_k = scores.astype(float), list(permutations(range(len(scores)), k))
    left = [[np.logaddexp.reduce(np.delete(scores, r[:j])) for j in range(k)] for r in lists_of_k]
    p = np.exp([(scores[list(r)] - rest).sum() for r, rest in zip(lists_of_k, left, strict=True)])
    return dict(zip(lists_of_k, p, strict=True))


def chi_square(sample, scores, k, expected, draws=DRAWS):
    """P-value of the sampled lists under `expected`; lists expected less than 20 times are
    pooled."""
    counts = dict.fromkeys(expected, 0)
    for i in range(draws):
        counts[tuple(sample(scores, k, Stream(key(9, "ranking", i))).tolist())] += 1
    p, seen = np.array(list(expected.values())), np.array(list(counts.values()))
    rare = p * draws < 20
    p, seen = np.append(p[~rare], p[rare].sum()), np.append(seen[~rare], seen[rare].sum())
    kept = p * draws > 1e-6
    assert seen[~kept].sum() == 0
    return stats.chisquare(seen[kept], draws * p[kept] / p[kept].sum()).pvalue


SAMPLERS = [
    pytest.param(plackett_luce, NARROW, id="plain, narrow"),
    pytest.param(plackett_luce, FAR, id="plain, wide"),
    pytest.param(plackett_luce, STEEP, id="plain, steep"),
    pytest.param(compiled_narrow, NARROW, id="compiled, narrow"),
    pytest.param(compiled_wide, FAR, id="compiled, wide"),
    pytest.param(compiled_wide, NARROW, id="compiled, wide on a narrow range"),
    pytest.param(compiled_wide, STEEP, id="compiled, steep"),
]


@pytest.mark.parametrize("sample, scores", SAMPLERS)
def test_lists_have_their_exact_probabilities(sample, scores):
    expected = exact(scores, 3)
    assert sum(expected.values()) == pytest.approx(1.0)  # the enumeration is complete
    assert chi_square(sample, scores, 3, expected) > RARE
    wrong = scores.copy()
    wrong[0] += np.float32(0.2)  # the test sees this much, but for one seed in ten millions
    assert chi_square(sample, scores, 3, exact(wrong, 3)) < RARE


@pytest.mark.parametrize("sample", [plackett_luce, compiled_narrow, compiled_wide])
def test_whole_lists(sample):
    """k = all documents: the last ones are drawn from little mass, after many repeats."""
    scores = np.array([4.0, 0.0, -4.0], np.float32)
    assert chi_square(sample, scores, 3, exact(scores, 3)) > RARE


@pytest.mark.parametrize("sample", [best_first, compiled_best_first])
def test_ties_are_a_fair_lottery(sample):
    tied = np.zeros(4, np.float32)
    assert chi_square(sample, tied, 2, exact(tied, 2), draws=4_000) > RARE
    halves = np.array([1.0, 0.0, 1.0, 0.0], np.float32)
    orders = {(a, b, c): 0.25 for a, b in ((0, 2), (2, 0)) for c in (1, 3)}
    assert chi_square(sample, halves, 3, orders, draws=4_000) > RARE


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 75.0, 100.0, 1000.0, 5000.0])
def test_compiled_lists_are_the_plain_ones(spread):
    rng = np.random.default_rng(int(spread))
    for i in range(300):
        n = int(rng.integers(1, 40))
        scores, k = (spread * rng.random(n)).astype(np.float32), min(10, n)
        compiled = compiled_wide if np.ptp(scores) > WIDE else compiled_narrow
        address = key(1, "ranking", i)
        assert (
            compiled(scores, k, Stream(address)).tolist()
            == plackett_luce(scores, k, Stream(address)).tolist()
        )
        scores = np.round(scores)  # many ties
        expected = best_first(scores, k, Stream(address)).tolist()
        assert compiled_best_first(scores, k, Stream(address)).tolist() == expected


def test_the_compiled_exponential():
    x = np.linspace(-86.9, 87.9, 20_001).astype(np.float32)
    out, bits = np.empty(len(x), np.float32), np.empty(len(x), np.int32)
    lists.exponentials(x, len(x), np.float32(0), out, bits)
    np.testing.assert_allclose(out, np.exp(x.astype(float)), rtol=2.1e-7)
