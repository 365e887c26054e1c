"""The neighbourhoods of a secure sum: which clients mask with each other and hold each other's
shares.

Up to COMPLETE clients, all are neighbours. More clients are placed on a ring in an order drawn
from a public seed, and each is a neighbour of the k/2 next on either side (a Harary graph). A
client's secrets are shared among itself and its neighbours; `quorum` of these k + 1 can
reconstruct them. On the complete graph the quorum is the threshold t of the whole sum. On the ring
it is k/2 + 2, so every client that is unmasked has a surviving neighbour within k/2 seats on each
side: the released sum is never one over a part of a ring that fell apart.

k grows like log n. It is the smallest even number for which the probability of either of two
events is at most 2^-40, when a fifth of the clients collude and as many as the threshold allows
drop out, both at random places of the ring:

    some honest client has `quorum` colluding neighbours:
        n P(Hypergeometric(n - 1, n/5, k) >= k/2 + 2)
    the honest survivors fall apart, which takes two runs of k/2 seats without any of them:
        n^2/2 C(bad, k) / C(n, k),   bad = n/5 + dropped

With t = 2n/3: k = 90, 112, 140 for 400, 1000, 10,000 clients. A round in which some neighbourhood
keeps fewer than its quorum is withheld, even if t clients survive. At 400 clients the probability
of that, n P(Hypergeometric(n - 1, alive, k) < quorum), is below 2e-10 if a fifth drops out, 1e-5
if a quarter does and 0.2 if a third does.

Reference: Bell et al., CCS 2020 (doi:10.1145/3372297.3417885)."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma

import numpy as np

from foltr.core import Array
from foltr.seeds import Stream

# most clients on a complete graph: about two seconds of CPU for all of them together
COMPLETE = 128
COLLUDING = 0.2
CHANCE = 2.0**-40


class Graph:
    """The neighbourhoods of clients 0 .. n - 1, `degree` neighbours each; n - 1 is the complete
    graph."""

    def __init__(self, clients: int, degree: int, quorum: int, seed: int) -> None:
        self.clients, self.degree, self.quorum = clients, degree, quorum
        self.complete = degree == clients - 1
        self.ring = (
            np.arange(clients)
            if self.complete
            else np.argsort(Stream(seed).words(clients), kind="stable")
        )
        self.seat = np.empty(clients, np.int64)
        self.seat[self.ring] = np.arange(clients)

    def neighbours(self, client: int) -> list[int]:
        """The neighbours of a client in ascending order."""
        if self.complete:
            return [other for other in range(self.clients) if other != client]
        half = self.degree // 2
        offsets = np.r_[-half:0, 1 : half + 1]
        return sorted(self.ring[(self.seat[client] + offsets) % self.clients].tolist())

    def point(self, owner: int, holder: int) -> int:
        """The point, 1 .. degree + 1, at which the owner's sharing polynomial is evaluated for a
        holder."""
        if self.complete:
            # equal points for all owners, so that coefficients are computed once
            return holder + 1
        return int((self.seat[holder] - self.seat[owner] + self.degree // 2) % self.clients) + 1

    def enough(self, alive: Array, shared: Array) -> bool:
        """Whether the survivors (n,) bool can unmask their sum: every client that shared keys
        needs a quorum of survivors around it. (A client without any has left no mask, but then a
        survivor at the edge of that gap lacks its quorum.)"""
        return bool((self.around(alive)[shared] >= self.quorum).all())  # both (n,) bool

    def around(self, alive: Array) -> Array:
        """How many of each client and its neighbours are alive."""  # (n,) bool -> (n,) int
        if self.complete:
            return np.full(self.clients, np.count_nonzero(alive))
        half, n = self.degree // 2, self.clients
        seated = alive[self.ring]
        before = np.concatenate(
            [[0], np.cumsum(np.concatenate([seated[n - half :], seated, seated[:half]]))]
        )
        return (before[self.degree + 1 :] - before[:n])[self.seat]


@lru_cache(maxsize=1024)
def degree_and_quorum(clients: int, threshold: int, complete: bool) -> tuple[int, int]:
    """The smallest degree with the probability bound above, and its quorum."""
    if not complete and clients > COMPLETE:
        colluding = int(COLLUDING * clients)
        bad = colluding + clients - threshold
        for degree in range(2, clients - 1, 2):
            quorum = degree // 2 + 2
            apart = (
                clients**2 / 2 * exp(_choose(bad, degree) - _choose(clients, degree))
                if bad >= degree
                else 0.0
            )
            if apart + clients * _at_least(quorum, clients - 1, colluding, degree) <= CHANCE:
                return degree, quorum
    return clients - 1, threshold


def _at_least(least: int, population: int, marked: int, drawn: int) -> float:
    """The probability that at least `least` of `drawn` are marked, drawing without replacement."""
    whole = _choose(population, drawn)
    ways = range(max(least, drawn - (population - marked)), min(drawn, marked) + 1)
    return sum(
        exp(_choose(marked, m) + _choose(population - marked, drawn - m) - whole) for m in ways
    )


def _choose(n: int, k: int) -> float:
    """The natural logarithm of the binomial coefficient."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
