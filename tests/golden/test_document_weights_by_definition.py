"""PDGD's document weights against the probabilities they are defined by, in 50 decimal digits and
by enumeration."""

from decimal import Decimal, localcontext
from itertools import permutations

import numpy as np
import pytest

from foltr.components.learners.pdgd import document_weights


def probability(masses: list[Decimal], ranking: list[int]) -> Decimal:
    """Thesis 3.8: each next document by its share of the mass that is left."""
    left, p = list(range(len(masses))), Decimal(1)
    for document in ranking:
        p *= masses[document] / sum(masses[i] for i in left)
        left.remove(document)
    return p


def defined_weights(scores, ranking, clicks, pairs) -> list[float]:
    """Thesis 3.11 and 3.12 as they stand: every pair, every probability, no closed form."""
    with localcontext() as context:
        context.prec = 50
        masses = [Decimal(float(s)).exp() for s in scores]
        weights = [Decimal(0)] * len(scores)
        last = max((j for j, clicked in enumerate(clicks) if clicked), default=-2)
        p = probability(masses, list(ranking))
        for a, k in enumerate(ranking):
            for b, l in enumerate(ranking):
                if not clicks[a] or clicks[b] or (pairs == "examined" and b > last + 1):
                    continue
                swapped = list(ranking)
                swapped[a], swapped[b] = l, k
                q = probability(masses, swapped)
                weight = q / (p + q) * masses[k] * masses[l] / (masses[k] + masses[l]) ** 2
                weights[k] += weight
                weights[l] -= weight
        return [float(w) for w in weights]


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 60.0, 79.0, 100.0, 700.0, 1000.0, 5000.0])
@pytest.mark.parametrize("pairs", ["examined", "shown"])
def test_weights_are_as_defined_for_any_range_of_scores(spread, pairs):
    rng = np.random.default_rng(int(spread))
    for trial in range(12):
        documents = int(rng.integers(1, 11))
        scores = spread * rng.random(documents)
        # some close together, else weights vanish
        scores[rng.random(documents) < 0.5] = scores[0] + rng.normal()
        k = int(rng.integers(1, documents + 1))
        ranking = rng.permutation(documents)[:k] if trial % 2 else np.argsort(-scores)[:k]
        clicks = rng.random(k) < 0.4
        found = document_weights(scores, ranking, clicks, pairs)
        # a score of 5000 is known to 1e-12 in float64, and masses to the same relative error
        np.testing.assert_allclose(
            found, defined_weights(scores, ranking, clicks, pairs), rtol=1e-10, atol=1e-13
        )


@pytest.mark.parametrize("k", [2, 3, 4])
def test_clicks_that_look_at_positions_alone_teach_nothing(k):
    """rho is made for this: P(R) rho(R) = P(R*) rho(R*), so that with clicks by position, whatever
    was shown there, the expected weight of every document is 0 (Oosterhuis & de Rijke 2018,
    section 4.2)."""
    scores = np.array([0.3, -1.0, 2.0, 0.9])
    masses = [Decimal(s).exp() for s in scores]
    for pattern in range(1, 2**k):
        clicks = np.array([pattern >> j & 1 for j in range(k)], bool)
        expected = sum(
            float(probability(masses, list(r))) * document_weights(scores, np.array(r), clicks)
            for r in permutations(range(4), k)
        )
        np.testing.assert_allclose(expected, 0.0, atol=1e-15)
