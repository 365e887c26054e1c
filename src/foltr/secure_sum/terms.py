"""The terms that the server and all clients must agree on before a sum begins."""

from __future__ import annotations

import secrets
import struct
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from math import ceil, exp, lgamma
from typing import Self

import numpy as np

from foltr.core import Array, Ask
from foltr.core.errors import Mistake, require
from foltr.core.seeds import Stream
from foltr.secure_sum.arithmetic import mean, weighted

LAYOUT = struct.Struct("<16sI32sIIIIIQB?")  # the fields of `Terms`, in order
LEAST = 2 / 3  # default share of the clients that must be in a sum, for server and devices
# default number of clients that must be in a sum, for devices: of two clients, each could compute
# the other's message
SMALLEST = 10


def model_digest(params: Array) -> bytes:
    """The 32-byte name of a model in the terms: SHA-256 of its numbers as little-endian
    float32."""
    flat = params.ndim == 1 and params.dtype.kind == "f" and params.dtype.itemsize == 4
    way_out = "give the parameters as devices get them, params.astype(np.float32)"
    require(
        flat,
        f"a broadcast model is (d,) of float32, got {params.shape} of {params.dtype}: {way_out}",
    )
    return sha256(params.astype("<f4").tobytes()).digest()


@dataclass(frozen=True)
class Terms:
    """The public terms of one sum.

    Their fingerprint is part of every key, seal and signature, and its beginning names the session
    in every message. So parties with different terms refuse each other's messages and share no
    mask. A device that receives terms calls `check` before it takes part."""

    id: bytes  # 16 fresh bytes
    round: int
    model: bytes  # `model_digest` of the parameters that every client was sent
    clients: int  # n, numbered 0 .. n - 1
    words: int  # numbers per client
    threshold: int  # t: with fewer survivors nothing is released
    degree: int  # neighbours of each client
    quorum: int  # how many of a client and its neighbours can unmask it
    seed: int  # of the ring
    fraction_bits: int
    consistency: bool  # whether survivors sign the list of survivors

    def __post_init__(self) -> None:
        n, t, k, q = self.clients, self.threshold, self.degree, self.quorum
        require(len(self.id) == 16, f"the id of a session has 16 bytes, got {len(self.id)}")
        require(0 <= self.round < 2**32, f"the round must be in 0 .. 2^32 - 1, got {self.round}")
        whole = (
            "a model is named by the 32 bytes of its SHA-256 (model_digest), got"
            f" {len(self.model)}"
        )
        require(len(self.model) == 32, whole)
        require(
            0 <= self.seed < 2**64,
            f"the seed of the ring must be in 0 .. 2^64 - 1, got {self.seed}",
        )
        require(
            2 <= n <= 10**6,
            f"a secure sum needs two clients at least and a million at most, got {n}",
        )
        require(1 <= self.words < 2**28, f"a secure sum has 1 .. 2^28 words, got {self.words}")
        require(
            n < 2 * t <= 2 * n,
            f"the threshold must be more than half of {n} clients and at most all, got {t}",
        )
        if k == n - 1:
            require(q == t, f"on the complete graph the quorum is the threshold {t}, got {q}")
        else:
            require(
                2 <= k < n - 1 and k % 2 == 0,
                f"a ring of {n} clients has an even degree of 2 .. {n - 2}, got {k}",
            )
            require(
                k // 2 + 2 <= q <= k + 1,
                f"the quorum must be in {k // 2 + 2} .. {k + 1} for degree {k}, got {q}",
            )
            require(
                not self.consistency, "the list of survivors is signed on the complete graph only"
            )
        require(
            0 <= self.fraction_bits <= 52,
            f"fraction_bits must be in 0 .. 52, got {self.fraction_bits}",
        )

    @classmethod
    def of(
        cls, clients: int, words: int, threshold: int, params: Array, *, fraction_bits: int = 32,
        consistency: bool = False, seed: int | None = None, round: int = 0,
    ) -> Self:  # fmt: skip
        """The terms of a new session of clients that were all sent `params`, on the smallest safe
        graph (`degree_and_quorum`)."""
        degree, quorum = degree_and_quorum(clients, threshold, complete=consistency)
        seed = secrets.randbits(64) if seed is None else seed
        about = secrets.token_bytes(16), round, model_digest(params), clients, words, threshold
        return cls(*about, degree, quorum, seed, fraction_bits, consistency)

    def check(self, least: float, smallest: int) -> None:
        """Raises for terms with a weaker graph than this module asks for, or that release sums of
        fewer than a share `least` of the clients or fewer than `smallest` of them."""
        alone = (
            f"sums of {self.threshold} clients would hide each among too few: {smallest} are"
            " wanted at least"
        )
        require(self.threshold >= smallest, alone)
        few = (
            f"sums of {self.threshold} of {self.clients} clients are fewer than the part {least:g}"
            " that is wanted"
        )
        wanted = ceil(least * self.clients - 1e-9)
        require(self.threshold >= wanted, f"{few}: the threshold must be {wanted} at least")
        degree, quorum = degree_and_quorum(self.clients, self.threshold, complete=self.consistency)
        weak = (
            f"{self.degree} neighbours and a quorum of {self.quorum} protect too little among"
            f" {self.clients} clients"
        )
        enough = self.degree >= degree and self.quorum >= min(quorum, self.degree // 2 + 2)
        require(enough, f"{weak}: {degree} and {quorum} are needed")

    def to_bytes(self) -> bytes:
        return LAYOUT.pack(*astuple(self))

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        if len(text) != LAYOUT.size or text[-1] > 1:
            raise Mistake(
                f"these are no terms of a secure sum: {len(text)} bytes, expected {LAYOUT.size}"
            )
        return cls(*LAYOUT.unpack(text))

    @cached_property
    def fingerprint(self) -> bytes:
        """A 32-byte hash of all terms (collision-resistant)."""
        return sha256(b"foltr secure sum 2" + self.to_bytes()).digest()

    @property
    def session(self) -> bytes:
        """The 16 bytes that every message of this session begins with."""
        return self.fingerprint[:16]

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.clients, self.degree, self.quorum, self.seed)


# The neighbourhoods of a secure sum: which clients mask with each other and hold each other's
# shares.

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


# What the two sides of a secure sum between machines need besides their state machines: terms,
# their check on a device, words and the mean.


@dataclass(frozen=True)
class SumProtocol:
    """How a channel carries its sums between machines."""

    fraction_bits: int
    consistency: bool

    def terms(self, ask: Ask, fewest: int) -> Terms:
        """The terms of a round's sum, made by the server."""
        how = {"fraction_bits": self.fraction_bits, "consistency": self.consistency}
        return Terms.of(ask.n, 1 + len(ask.params), fewest, ask.params, round=ask.t % 2**32, **how)  # type: ignore[arg-type]

    def check(self, terms: Terms, ask: Ask, fewest: int) -> None:
        """Raises a Mistake unless a device may take part under these terms: of this round, this
        model and this many clients, a sum of `fewest` at least, on a graph that is safe."""
        of = f"terms of round {terms.round} with {terms.clients} clients"
        require(terms.round == ask.t % 2**32, f"{of}, asked in round {ask.t}")
        require(terms.clients == ask.n, f"{of}, asked in a round of {ask.n}")
        require(terms.model == model_digest(ask.params), f"{of}: of another model than was sent")
        require(terms.words == 1 + len(ask.params), f"{of}: of {terms.words} words")
        same = terms.fraction_bits == self.fraction_bits
        same = same and terms.consistency == self.consistency
        require(same, f"{of}: other numbers or steps than agreed")
        terms.check(fewest / ask.n, fewest)

    def words(self, update: Array, weight: float, n: int) -> Array:
        """What a client adds to a sum of n."""  # (1 + p,) uint64
        return weighted(update, weight, self.fraction_bits, n)

    def mean(self, total: Array) -> tuple[Array, float]:
        """The mean and the whole weight of a sum."""
        return mean(total, self.fraction_bits)
