"""Who masks with whom, and who keeps shares of whose secrets (Bell et al., CCS 2020;
doi:10.1145/3372297.3417885).

All clients up to COMPLETE know each other. More of them are seated on a ring in an order drawn
from a public seed, and each is a neighbour of the k/2 next on either side (a Harary graph). A
client's secrets are shared among itself and its neighbours; `quorum` of these k + 1 can put them
together again. On the complete graph the quorum is the threshold t of the whole sum; on the ring
it is k/2 + 2, so that whoever is unmasked has a surviving neighbour within k/2 seats on each side:
what is released is never a sum over part of a ring that fell apart.

k grows like log n. It is the smallest even number for which, when a fifth of the clients collude
and as many as the threshold allows drop out, both at random places of the ring, the chance is at
most 2^-40 that

    some honest client has `quorum` colluding neighbours:
        n P(Hypergeometric(n - 1, n/5, k) >= k/2 + 2), or
    the honest survivors fall apart, which takes two runs of k/2 seats without one of them:
                                                            n^2/2 C(bad, k) / C(n, k), bad = n/5 +
                                                            dropped.

With t = 2n/3: k = 90, 112, 140 for 400, 1000, 10,000 clients. A round in which some neighbourhood
keeps fewer than its quorum is withheld, though t clients survive: at 400 clients the chance (n
P(Hypergeometric(n - 1, alive, k) < quorum)) is below 2e-10 when a fifth drops out, 1e-5 when a
quarter and 0.2 when a third does."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma

import numpy as np

from foltr.core import Array
from foltr.seeds import Stream

# clients up to which everybody is everybody's neighbour: about two seconds of CPU for all of them
COMPLETE = 128
COLLUDING = 0.2
CHANCE = 2.0**-40


class Graph:
    """Neighbourhoods of clients 0 .. n - 1, `degree` each; `degree` = n - 1 is the complete
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
        """In ascending order."""
        if self.complete:
            return [other for other in range(self.clients) if other != client]
        half = self.degree // 2
        offsets = np.r_[-half:0, 1 : half + 1]
        return sorted(self.ring[(self.seat[client] + offsets) % self.clients].tolist())

    def point(self, owner: int, holder: int) -> int:
        """Where the polynomial that hides the owner's secret is evaluated for a holder: 1 ..
        degree + 1."""
        if self.complete:
            return (
                holder + 1
            )  # the same set of points for every owner, so that coefficients are computed once
        return int((self.seat[holder] - self.seat[owner] + self.degree // 2) % self.clients) + 1

    def enough(self, alive: Array, shared: Array) -> bool:
        """Whether the survivors can unmask their sum: everyone who shared keys, survivor or not,
        needs a quorum of them around. (One without any has left no mask, but then a survivor at
        the edge of that gap lacks its quorum.)"""
        return bool((self.around(alive)[shared] >= self.quorum).all())  # both (n,) bool

    def around(self, alive: Array) -> Array:
        """How many of a client's neighbours and itself are alive."""  # (n,) bool -> (n,) int
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
    """The smallest neighbourhood that keeps the promise above, and how many of it can unmask."""
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
    """P(at least that many of `drawn` are marked), drawing without replacement."""
    whole = _choose(population, drawn)
    ways = range(max(least, drawn - (population - marked)), min(drawn, marked) + 1)
    return sum(
        exp(_choose(marked, m) + _choose(population - marked, drawn - m) - whole) for m in ways
    )


def _choose(n: int, k: int) -> float:
    """ln of the binomial coefficient."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
