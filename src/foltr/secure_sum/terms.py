"""The terms that the server and all clients must agree on before a sum begins."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import Self

from foltr.core import Array
from foltr.errors import Mistake, require
from foltr.secure_sum.graph import Graph, degree_and_quorum

LAYOUT = struct.Struct("<16sI32sIIIIIQB?")
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
        graph (`graph.py`)."""
        degree, quorum = degree_and_quorum(clients, threshold, complete=consistency)
        seed = secrets.randbits(64) if seed is None else seed
        fresh, model = secrets.token_bytes(16), model_digest(params)
        return cls(
            fresh,
            round,
            model,
            clients,
            words,
            threshold,
            degree,
            quorum,
            seed,
            fraction_bits,
            consistency,
        )

    def check(self, least: float, smallest: int) -> None:
        """Raises for terms with a weaker graph than `graph.py` asks for, or that release sums of
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
        return LAYOUT.pack(
            self.id,
            self.round,
            self.model,
            self.clients,
            self.words,
            self.threshold,
            self.degree,
            self.quorum,
            self.seed,
            self.fraction_bits,
            self.consistency,
        )

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
