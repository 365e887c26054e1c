"""What the server and every client must agree on before a sum begins."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Self

from foltr.core import require
from foltr.errors import Mistake
from foltr.secure_sum.graph import Graph, degree_and_quorum

LAYOUT = struct.Struct("<16sIIIIIIQB?")


@dataclass(frozen=True)
class Terms:
    """The public terms of one sum. Their digest names the session in every message, signature and key, so parties with
    other terms refuse each other. A device that is told terms calls `check` before it takes part."""

    id: bytes  # 16 fresh bytes
    round: int
    clients: int  # n, numbered 0 .. n - 1
    words: int  # numbers that each client adds
    threshold: int  # t: fewer survivors than this, and nothing is revealed
    degree: int  # neighbours of each client
    quorum: int  # of a client's neighbours and itself, how many can unmask it
    seed: int  # of the ring
    fraction_bits: int
    consistency: bool  # whether survivors sign the list of survivors

    def __post_init__(self) -> None:
        n, t, k, q = self.clients, self.threshold, self.degree, self.quorum
        require(len(self.id) == 16, f"the id of a session has 16 bytes, got {len(self.id)}")
        require(0 <= self.round < 2**32, f"the round must be in 0 .. 2^32 - 1, got {self.round}")
        require(0 <= self.seed < 2**64, f"the seed of the ring must be in 0 .. 2^64 - 1, got {self.seed}")
        require(2 <= n <= 10**6, f"a secure sum needs two clients at least and a million at most, got {n}")
        require(1 <= self.words < 2**28, f"a secure sum has 1 .. 2^28 words, got {self.words}")
        require(n < 2 * t <= 2 * n, f"the threshold must be more than half of {n} clients and at most all, got {t}")
        if k == n - 1:
            require(q == t, f"on the complete graph the quorum is the threshold {t}, got {q}")
        else:
            require(2 <= k < n - 1 and k % 2 == 0, f"a ring of {n} clients has an even degree of 2 .. {n - 2}, got {k}")
            require(k // 2 + 2 <= q <= k + 1, f"the quorum must be in {k // 2 + 2} .. {k + 1} for degree {k}, got {q}")
            require(not self.consistency, "the list of survivors is signed on the complete graph only")
        require(0 <= self.fraction_bits <= 52, f"fraction_bits must be in 0 .. 52, got {self.fraction_bits}")

    @classmethod
    def of(
        cls, clients: int, words: int, threshold: int, *, fraction_bits: int = 32, consistency: bool = False,
        seed: int | None = None, round: int = 0,
    ) -> Self:  # fmt: skip
        """A new session on the smallest graph that is safe (`graph.py`)."""
        degree, quorum = degree_and_quorum(clients, threshold, complete=consistency)
        seed = secrets.randbits(64) if seed is None else seed
        fresh = secrets.token_bytes(16)
        return cls(fresh, round, clients, words, threshold, degree, quorum, seed, fraction_bits, consistency)

    def check(self, least: float) -> None:
        """Refuse terms that protect less than `graph.py` promises, or release sums of fewer than a part `least`."""
        few = f"sums of {self.threshold} of {self.clients} clients are fewer than the part {least:g} that is wanted"
        require(self.threshold >= least * self.clients - 1e-9, few)
        degree, quorum = degree_and_quorum(self.clients, self.threshold, complete=self.consistency)
        weak = f"{self.degree} neighbours and a quorum of {self.quorum} protect too little among {self.clients} clients"
        enough = self.degree >= degree and self.quorum >= min(quorum, self.degree // 2 + 2)
        require(enough, f"{weak}: {degree} and {quorum} are needed")

    def to_bytes(self) -> bytes:
        return LAYOUT.pack(
            self.id, self.round, self.clients, self.words, self.threshold, self.degree, self.quorum, self.seed,
            self.fraction_bits, self.consistency,
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        if len(text) != LAYOUT.size or text[-1] > 1:
            raise Mistake(f"these are no terms of a secure sum: {len(text)} bytes, expected {LAYOUT.size}")
        return cls(*LAYOUT.unpack(text))

    @cached_property
    def session(self) -> bytes:
        """16 bytes that stand for all of the terms."""
        return sha256(b"foltr secure sum 1" + self.to_bytes()).digest()[:16]

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.clients, self.degree, self.quorum, self.seed)
