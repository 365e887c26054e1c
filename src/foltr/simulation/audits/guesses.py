"""Label inference: which of the shown documents were clicked, guessed from an update.

One session of PDGD moves the weights by lr x sum of c_i x (gradient of the score of shown document
i), with c_i > 0 for clicked documents and c_i <= 0 for others. Scaling the weights back into a
ball adds a multiple of the weights. An attacker that knows the list and the weights solves for c.

Reference: Pham 2022, section 4.1 (the attacks in PUBLISHED); those in EXTENDED are of this
project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from foltr.components.learners.pdgd import document_weights
from foltr.core import Array, Privatizer, Ranker
from foltr.core.seeds import Stream
from foltr.simulation.audits.noise import View, clipped, events_in, log_density
from foltr.simulation.audits.searches import Search, UpdateLearner

# relative to the largest coefficient; documents in no pair have a coefficient of 0
TOLERANCE = 1e-6
ROBUST_TOLERANCE = 1e-2  # the same for robust regression, where noise leaves small coefficients
ROUNDS = 30  # of reweighting
DIRECT = 300  # numbers, or unknowns, up to which exact methods are used
RIDGE = 1e-10
ENOUGH = 600
LONGEST = 12  # longest list of which all 2^k sets of clicks are tried


@dataclass(frozen=True, eq=False)
class Seen:
    """What the attacker of one client knows; regressors and update may be those of a sum of
    clients."""

    ranker: Ranker
    params: Array  # (d,) float32, as broadcast
    docs: Array  # (k, f) the client's list
    regressors: Array  # (d, columns): gradients of the client's documents, then of other clients'
    update: Array  # (d,) float64: the message or sum
    rng: Stream


@dataclass(frozen=True, eq=False)
class Guess:
    """A guess of the clicked documents."""

    clicked: Array  # (k,) bool
    belief: Array  # (k,) higher is likelier


Attack = Callable[[Seen], Guess]


def at_random(count: int) -> Attack:
    """Guess `count` random documents."""

    def attack(seen: Seen) -> Guess:
        belief = seen.rng.uniforms(len(seen.docs))
        return Guess(belief >= np.sort(belief)[-min(count, len(belief))], belief)

    return attack


def _scores(seen: Seen) -> tuple[Array, Array]:
    """The scores of the list before and after the client's update."""
    docs, sent = seen.docs.astype(np.float32), (seen.params + seen.update).astype(np.float32)
    before, after = seen.ranker.scores(seen.params, docs), seen.ranker.scores(sent, docs)
    return before.astype(np.float64), after.astype(np.float64)


def higher_score(seen: Seen) -> Guess:
    """Guess the documents whose score rose."""
    before, after = _scores(seen)
    return Guess(after > before, after - before)


def higher_probability(seen: Seen) -> Guess:
    """Guess the documents whose probability in the list's softmax rose."""
    before, after = (np.exp(s - np.logaddexp.reduce(s)) for s in _scores(seen))
    return Guess(after > before, after - before)


def higher_distance_count(seen: Seen) -> Guess:
    """Guess the documents whose score rose more than that of more than half of the list (of ten:
    more than five)."""
    before, after = _scores(seen)
    gained = after - before
    count = (gained[:, None] > gained).sum(axis=1)
    return Guess(count > len(gained) // 2, count.astype(float))


def least_squares(seen: Seen) -> Guess:
    """Regress the update on the documents' gradients; where there are several solutions, take the
    shortest."""
    return positive(minimum_norm_solution(seen.regressors, seen.update)[: len(seen.docs)])


def minimum_norm_solution(a: Array, y: Array) -> Array:
    """The shortest x that minimises |a x - y|, for each column of y. If `a` has many rows and more
    columns, it is computed approximately from the products of rows (ridge regression with a tiny
    ridge)."""
    if len(a) <= DIRECT or a.shape[1] <= len(a):
        return np.linalg.lstsq(a, y, rcond=None)[0]
    product = a @ a.T
    product[np.diag_indices_from(product)] += RIDGE * np.trace(product) / len(product)
    return a.T @ np.linalg.solve(product, y)


def with_weights(regressors: Array, params: Array) -> Array:
    """The regressors and the broadcast weights as one more: scaling back into a ball subtracts a
    part of them."""
    return np.column_stack([regressors, params.astype(np.float64)]) if params.any() else regressors


def least_squares_with_weights(seen: Seen) -> Guess:
    """Least squares with the broadcast weights as one more regressor."""
    found = minimum_norm_solution(with_weights(seen.regressors, seen.params), seen.update)
    return positive(found[: len(seen.docs)])


def least_deviations(seen: Seen) -> Guess:
    """Least absolute deviations with the broadcast weights: robust to noise that is large in a few
    numbers only, such as one of many gamma shares."""
    found = least_absolute_deviations(with_weights(seen.regressors, seen.params), seen.update)
    return positive(found[: len(seen.docs)], ROBUST_TOLERANCE)


def least_absolute_deviations(a: Array, y: Array) -> Array:
    """The x that minimises the sum of |a x - y|, by reweighted least squares (Schlossmacher, JASA
    68, 1973)."""
    if a.shape[1] >= min(len(y), DIRECT):  # an exact fit, or too slow
        return minimum_norm_solution(a, y)
    # a sample of the numbers, if there are many
    some = slice(None, None, max(1, len(y) // ENOUGH))
    a, y = a[some], y[some]
    q, r = np.linalg.qr(a)  # so that reweighting needs products of few columns only
    least = 1e-7 * float(np.abs(y).max() or 1.0)
    weight, found = np.ones(len(y)), np.zeros(q.shape[1])
    for _ in range(ROUNDS):
        weighted = q * weight[:, None]
        found = np.linalg.lstsq(weighted.T @ q, weighted.T @ y, rcond=None)[0]
        weight = 1.0 / np.maximum(np.abs(y - q @ found), least)
    return np.linalg.lstsq(r, found, rcond=None)[0]


def positive(coefficients: Array, tolerance: float = TOLERANCE) -> Guess:
    """Guess the documents with a positive coefficient, up to rounding."""
    return Guess(coefficients > tolerance * np.abs(coefficients).max(), coefficients)


PUBLISHED: dict[str, Attack] = {
    "random 3": at_random(3),
    "random 4": at_random(4),
    "higher score": higher_score,
    "higher probability": higher_probability,
    "higher distance count": higher_distance_count,
    "least squares": least_squares,
}
EXTENDED: dict[str, Attack] = {
    "least squares, weights known": least_squares_with_weights,
    "least deviations, weights known": least_deviations,
}


@dataclass(frozen=True, eq=False)
class Model:
    """The attacker that knows PDGD: one session of `learner` at the broadcast weights `params`, in
    round t. It computes the update for every set of clicks, and weights the sets by the likelihood
    of the noise."""

    learner: UpdateLearner
    privacy: Privatizer | None
    params: Array
    t: int

    def updates(self, search: Search, n: int) -> Array:
        """The messages without noise for each of the 2^k sets of clicks."""  # (2^k, d)
        weights = coefficients(search.scores, search.ranking, self.learner.pairs)
        steps = weights @ search.gradients
        start = self.params.astype(np.float64)
        local = start + self.learner.rate(self.t, 0, 1) * steps
        if self.learner.max_norm is not None:
            norms = np.sqrt(np.square(local).sum(axis=1, keepdims=True))
            local *= np.minimum(1.0, self.learner.max_norm / np.maximum(norms, 1e-300))
        return clipped(self.privacy, local - start, n)

    def guess(self, search: Search, seen: Array, view: View) -> Guess:
        """The guess from one message, with all sets of clicks equally likely a priori."""
        off = seen - self.updates(search, view.asked)
        likelihoods = log_density(events_in(self.privacy, view, len(seen)), view, off)
        return marginals(likelihoods, len(search.ranking))


def click_sets(k: int) -> Array:
    """All sets of clicks on a list of k: (2^k, k) bool; set i has the bits of i."""
    return (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)


def coefficients(scores: Array, ranking: Array, pairs: str) -> Array:
    """`document_weights` of the shown documents for every set of clicks at once. The weight of a
    pair does not depend on other clicks, so k single clicks give all of them."""
    # (2^k, k)
    k = len(ranking)
    single_clicks = np.eye(k, dtype=bool)
    over = -np.stack(
        [document_weights(scores, ranking, one, "shown")[ranking] for one in single_clicks]
    )
    np.fill_diagonal(over, 0.0)  # (k, k): row preferred to column
    clicked = click_sets(k)
    last = np.where(clicked, np.arange(k), -1).max(axis=1)
    examined = np.full((2**k, k), True) if pairs == "shown" else np.arange(k) < (last + 2)[:, None]
    c, losing = clicked.astype(float), (~clicked & examined).astype(float)
    return c * (losing @ over.T) - losing * (c @ over)


def marginals(likelihoods: Array, k: int) -> Guess:
    """The probability that each document was clicked, from the log-likelihoods of all sets of
    clicks."""
    chance = np.exp(likelihoods - likelihoods.max())
    belief = chance @ click_sets(k) / chance.sum()
    return Guess(belief > 0.5, belief)
