"""Label inference from a sum of messages, by an attacker that knows PDGD and the list of every
client in the sum.

A sum is y = sum of u_i(s_i) + noise, with s_i one of the 2^k sets of clicks of client i and u_i(s)
the update of PDGD for it. For one client all sets are tried. The others' updates are taken as
normal variables with the mean m_j and the covariance V_j that they have over their own sets:

    ln P(s_i | y) = ln P(s_i) - 1/2 r' (sum of V_j + noise)^-1 r
    r = y - u_i(s_i) - sum of m_j   (j other than i)

The result for each client then replaces what was assumed of it, without what was concluded from
the others, and all clients are guessed again until nothing changes (expectation propagation;
Minka, UAI 2001)."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np

from foltr.core import Array
from foltr.simulation.audits.guesses import Guess, Model, click_sets
from foltr.simulation.audits.searches import Search

OFTEN = 0.5, 1.0  # Beta distribution of a user's click rate: some click nothing, some nearly all
ROUNDING, LEAST = 1e-7, 1e-30  # relative error of float32; least variance
NOTHING = 1e-8  # relative size below which a direction of a client's updates is dropped
SURE = 1e-9  # least relative variance
WIDEST = 20.0  # largest assumed variance, relative to the prior
STEP, PASSES = 0.5, 40  # damping of each pass; most passes
STILL = 1e-3  # change of a probability below which passes end
DOCUMENTS_PER_WEIGHT = 6  # most documents per weight for repeated passes
WORK = 10**9  # most multiplications per factorisation for repeated passes


@dataclass(frozen=True, eq=False)
class Member:
    """All updates that a client could send, without noise: mean + ways @ sets[s]. Under `prior`,
    `sets` have mean 0 and covariance 1 (0 where there are fewer directions)."""

    mean: Array  # (d,)
    ways: Array  # (d, r)
    sets: Array  # (2^k, r)


def prior(k: int) -> Array:
    """The log-probability of each set of c clicks, B(a + c, b + k - c) / B(a, b): all documents
    are equally likely, and users that click once click more often."""  # (2^k,)
    a, b = OFTEN
    some = [lgamma(a + c) + lgamma(b + k - c) - lgamma(a + b + k) for c in range(k + 1)]
    return np.array(some)[click_sets(k).sum(axis=1)] + lgamma(a + b) - lgamma(a) - lgamma(b)


def member(model: Model, search: Search, n: int) -> Member:
    """The updates of a client, which are combinations of the documents' gradients and, because of
    a ball, of the weights."""
    updates, chance = model.updates(search, n), np.exp(prior(len(search.ranking)))
    span = np.linalg.qr(np.column_stack([search.gradients.T, model.params]).astype(np.float64))[0]
    at = updates @ span  # (2^k, r)
    mean = chance @ at
    off = at - mean
    _, sizes, turn = np.linalg.svd(np.sqrt(chance)[:, None] * off, full_matrices=False)
    sizes[sizes <= NOTHING * sizes[0]] = 0.0
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    return Member(span @ mean, span @ turn.T * sizes, off @ turn.T * scale)


def rounding(params: Array, clients: list[Member]) -> float:
    """The variance that float32 arithmetic adds to each number of a sum: the only noise of a sum
    without a privatizer."""
    sizes = [
        np.square(params, dtype=np.float64).mean() + np.square(each.ways).sum() / len(params)
        for each in clients
    ]
    return max(ROUNDING**2 * float(np.sum(sizes)), LEAST)


class Sum:
    """The attack on the sum of `clients`, given the variance of its noise."""

    def __init__(self, clients: list[Member], noise: float) -> None:
        ways = np.stack([each.ways for each in clients])  # (n, d, r)
        self.mean = np.sum([each.mean for each in clients], axis=0)
        self.sets = np.stack([each.sets for each in clients])  # (n, 2^k, r)
        self.k = len(clients[0].sets).bit_length() - 1
        self.log_prior, self.noise = prior(self.k), noise
        n, d, r = ways.shape
        self.span = np.linalg.qr(side_by_side(ways))[0] if n * r < d else None
        # the rest of the sum carries no information
        self.ways = ways if self.span is None else np.matmul(self.span.T, ways)
        self.square = self._square(self.ways)
        self.repeats = (
            n * self.k <= DOCUMENTS_PER_WEIGHT * d and n * r * len(self.square) ** 2 <= WORK
        )

    def first(self, which: list[int], arrived: Array) -> list[Guess]:
        """The guesses for some clients by the formula above; `arrived` is one sum (d,), or one for
        each (which, d)."""
        off = self._off(np.broadcast_to(arrived, (len(which), arrived.shape[-1])))
        sharp, pull = _by_others(self.square, self.ways[which], off)
        return [self._guess(each) for each in self._chances(self.sets[which], sharp, pull)]

    def settled(self, arrived: Array) -> list[Guess]:
        """The guesses for all clients, repeated until nothing changes; returns those that explain
        the sum best."""
        n, _, r = self.ways.shape
        off = self._off(arrived)
        mean, spread = np.zeros((n, r)), np.tile(np.eye(r), (n, 1, 1))
        chances = np.zeros(self.sets.shape[:2])
        best, nearest = chances, np.inf
        for _ in range(PASSES):
            root = np.linalg.cholesky(spread)
            ways = np.matmul(self.ways, root)
            left = off - np.einsum("ndr,nr->d", self.ways, mean)
            sharp, pull = _by_others(self._square(ways), ways, left)
            back = np.linalg.inv(root)  # from coordinates of the present spread to those of `sets`
            sharp = back.transpose(0, 2, 1) @ sharp @ back
            pull = np.einsum("nsr,ns->nr", back, pull) + np.einsum("nrs,ns->nr", sharp, mean)
            before, chances = chances, self._chances(self.sets, sharp, pull)
            likeliest = self.sets[np.arange(n), chances.argmax(axis=1)]
            missed = float(np.linalg.norm(off - np.einsum("ndr,nr->d", self.ways, likeliest)))
            if missed <= nearest:
                best, nearest = chances, missed
            if np.abs(chances - before).max() < STILL:
                break
            to_mean, to_spread = self._assumed(chances, sharp, pull)
            mean, spread = mean + STEP * (to_mean - mean), spread + STEP * (to_spread - spread)
        return [self._guess(each) for each in best]

    def _off(self, arrived: Array) -> Array:
        off = arrived - self.mean
        return off if self.span is None else off @ self.span

    def _square(self, ways: Array) -> Array:
        """R with R'R = sum of the covariances of all clients + noise, computed without forming the
        covariances."""
        alike = np.sqrt(self.noise) * np.eye(ways.shape[1])
        return np.asarray(np.linalg.qr(np.concatenate([side_by_side(ways).T, alike]), mode="r"))

    def _chances(self, sets: Array, sharp: Array, pull: Array) -> Array:
        square = np.einsum("nsr,nsr->ns", sets @ sharp, sets)
        fit = np.einsum("nsr,nr->ns", sets, pull) - 0.5 * square
        fit += self.log_prior
        chances = np.exp(fit - fit.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)

    def _assumed(self, chances: Array, sharp: Array, pull: Array) -> tuple[Array, Array]:
        """The normal variable that, combined with the information from the others, has the mean
        and the covariance of these probabilities."""
        mean = np.einsum("ns,nsr->nr", chances, self.sets)
        square = np.matmul((self.sets * chances[:, :, None]).transpose(0, 2, 1), self.sets)
        covariance = square - mean[:, :, None] * mean[:, None, :] + SURE * np.eye(mean.shape[1])
        own, turn = np.linalg.eigh(np.linalg.inv(covariance) - sharp)
        own = np.clip(own, 1.0 / WIDEST, 1.0 / SURE)[:, None, :]
        spread = turn / own @ turn.transpose(0, 2, 1)
        missing = np.einsum("nrs,ns->nr", sharp, mean) - pull
        return mean + np.einsum("nrs,ns->nr", spread, missing), spread

    def _guess(self, chances: Array) -> Guess:
        belief = chances @ click_sets(self.k)
        return Guess(belief > 0.5, belief)


def _by_others(square: Array, ways: Array, off: Array) -> tuple[Array, Array]:
    """The information on each client from the rest of the sum: ln P(off | x) = pull . x - 1/2 x .
    sharp x.

    x is the deviation of its update from its mean along `ways`. R = `square`; with B = R'^-1 ways
    and S = B'B, sharp is S (1 - S)^-1 and pull is (1 - S)^-1 B' R'^-1 off."""
    n, d, r = ways.shape
    b = np.linalg.solve(square.T, side_by_side(ways)).reshape(d, n, r).transpose(1, 0, 2)
    whitened = np.broadcast_to(np.linalg.solve(square.T, off.T).T, (n, d))
    share, turn = np.linalg.eigh(np.matmul(b.transpose(0, 2, 1), b))
    left = 1.0 - np.clip(share, 0.0, 1.0 - SURE)[:, None, :]
    sharp = turn * ((1.0 - left) / left) @ turn.transpose(0, 2, 1)
    back = turn / left @ turn.transpose(0, 2, 1)
    return sharp, np.einsum("nrs,nds,nd->nr", back, b, whitened, optimize=True)


def side_by_side(ways: Array) -> Array:
    """(n, d, r) -> (d, n r)."""
    n, d, r = ways.shape
    return ways.transpose(1, 0, 2).reshape(d, n * r)
