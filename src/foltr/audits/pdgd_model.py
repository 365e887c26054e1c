"""The attacker that knows PDGD: it computes the update for every set of clicks, and weights the
sets by the likelihood of the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.audits.guesses import Guess
from foltr.audits.noise import View, clipped, events_in, log_density
from foltr.audits.searches import Search, UpdateLearner
from foltr.components.learners.pdgd import document_weights
from foltr.core import Array, Privatizer

LONGEST = 12  # longest list: 2^k sets of clicks are tried


@dataclass(frozen=True, eq=False)
class Model:
    """One session of `learner` at the broadcast weights `params`, in round t."""

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
    over = -np.stack(
        [document_weights(scores, ranking, one, "shown")[ranking] for one in np.eye(k, dtype=bool)]
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
