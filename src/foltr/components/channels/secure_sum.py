"""Secure aggregation as a channel; the protocol is in `foltr/secure_sum`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil

import numpy as np

from foltr.core import Array, Ask, Cohort, Withheld
from foltr.core.errors import require
from foltr.core.seeds import Stream
from foltr.core.spec import channel
from foltr.secure_sum.arithmetic import mean, weighted, weighted_sum
from foltr.secure_sum.terms import (
    COLLUDING,
    COMPLETE,
    LEAST,
    Graph,
    SumProtocol,
    Terms,
    degree_and_quorum,
)


@channel
@dataclass(frozen=True)
class SecureSum:
    """Give the server the weighted mean of a round's updates, but no single update.

        sum_i w_i u_i / sum_i w_i

    The server learns both sums and no summand. Weights w_i and products w_i u_i are rounded to
    multiples of 2^-fraction_bits and added modulo 2^64. The sum is released only if enough of the
    clients asked have answered: `threshold` of all of them and, beyond 128 clients, enough in
    every client's neighbourhood (`secure_sum/terms.py`).

    Adversary: a server that follows the protocol and keeps all that it sees, together with fewer
    than the threshold of the clients (beyond 128 clients, unless `consistency`: with a fifth of
    them), cannot separate the update of an honest client from the sum. With `consistency` and node
    keys that all clients know, this also holds for a server that lies about who dropped out,
    together with less than a share 2 threshold - 1 of the clients. Where the protocol runs, a
    server that sends different models to different clients gets no sum over them. Not hidden: who
    took part, and what the sum itself reveals, which noise must limit. Not prevented: a server
    that invents clients where node keys are unknown, that sends one crafted model to all, or that
    chooses the documents a client ranks. `foltr/secure_sum/__init__.py` has the details.

    Fields
        threshold: share of the clients asked that must answer (1/2 < threshold <= 1; devices by
            themselves refuse less than 2/3)
        fraction_bits: bits after the binary point (0 .. 52)
        masks: True runs the whole protocol; False adds the same integers without masks, which
            cancel anyway: the result has the same bits
        consistency: survivors sign the list of survivors; every client is then a neighbour of
            every other

    Reference: Bonawitz et al., CCS 2017; sparse graph: Bell et al., CCS 2020."""

    threshold: float = LEAST
    fraction_bits: int = 32
    masks: bool = False
    consistency: bool = False

    def __post_init__(self) -> None:
        reason = (
            "with half of the clients or fewer, one half could reveal a client's seed and the"
            " other its key"
        )
        require(
            0.5 < self.threshold <= 1.0,
            f"threshold must be in (1/2, 1], got {self.threshold}: {reason}",
        )
        require(
            0 <= self.fraction_bits <= 52,
            f"fraction_bits must be in 0 .. 52, got {self.fraction_bits}",
        )
        there = not self.masks or find_spec("cryptography") is not None
        require(
            there,
            "SecureSum(masks=True) needs cryptography: pip install 'foltr[secure]', or leave"
            " masks out",
        )

    def withstands(self, asked: int) -> int | None:
        few = asked <= COMPLETE or self.consistency
        return self.fewest(asked) - 1 if few else int(COLLUDING * asked)

    @property
    def protocol(self) -> SumProtocol:
        return SumProtocol(self.fraction_bits, self.consistency)

    @property
    def step(self) -> float:
        return 2.0**-self.fraction_bits

    def fewest(self, asked: int) -> int:
        many = (
            f"SecureSum(masks=True) takes at most a million clients in a round, not {asked}: leave"
            " masks out"
        )
        require(not self.masks or asked <= 10**6, many)
        require(
            asked >= 2,
            f"a secure sum of {asked} client would be its update: ask at least 2 clients in a"
            " round",
        )
        return max(asked // 2 + 1, ceil(self.threshold * asked - 1e-9))

    def carry(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        asked = ask.n
        fewest = self.fewest(asked)
        if len(cohort) < fewest:
            raise Withheld(f"{len(cohort)} of {asked} clients arrived: {fewest} are needed")
        kind, weights = cohort.updates.dtype, cohort.weights
        require(
            kind.kind == "f",
            f"messages of {kind} cannot be added up: a secure sum needs a learner of updates",
        )
        require(
            bool((weights >= 0).all()),
            f"a weight of {weights.min()} in a secure sum: it must be >= 0",
        )
        require(
            len(cohort) <= asked, f"{len(cohort)} clients answered, but only {asked} were asked"
        )
        total = (self._masked if self.masks else self._plain)(cohort, ask, rng)
        update, weight = mean(total, self.fraction_bits)
        return Cohort(np.array([-1]), update[None], np.array([weight]))

    def _plain(self, cohort: Cohort, ask: Ask, rng: Stream) -> Array:
        asked = ask.n
        degree, quorum = degree_and_quorum(asked, self.fewest(asked), self.consistency)
        if len(cohort) < asked and degree < asked - 1:  # else the threshold is all that matters
            seed, seats = _seated(cohort, asked, rng)
            alive, graph = np.zeros(asked, bool), Graph(asked, degree, quorum, seed)
            alive[seats] = True
            if not graph.enough(alive, np.ones(asked, bool)):
                raise Withheld(
                    f"a client has fewer than {graph.quorum} survivors among its neighbours and"
                    " itself"
                )
        return weighted_sum(cohort.updates, cohort.weights, self.fraction_bits, asked)

    def _masked(self, cohort: Cohort, ask: Ask, rng: Stream) -> Array:
        """The protocol itself: those who did not arrive dropped out after sharing their keys. The
        terms name the model that all were sent."""
        from foltr.secure_sum.in_process import secure_sum

        asked, model = ask.n, ask.params
        seed, seats = _seated(cohort, asked, rng)
        terms = Terms.of(
            asked, 1 + cohort.updates.shape[1], self.fewest(asked), model, seed=seed,
            fraction_bits=self.fraction_bits, consistency=self.consistency,
        )  # fmt: skip
        rows = zip(seats.tolist(), cohort.updates, cohort.weights, strict=True)
        words = {
            seat: weighted(update, float(weight), self.fraction_bits, asked)
            for seat, update, weight in rows
        }
        return secure_sum(terms, words, model, least=self.threshold).total()


def _seated(cohort: Cohort, asked: int, rng: Stream) -> tuple[int, Array]:
    """A seed for the ring, and numbers for the clients that arrived, drawn among all that were
    asked."""
    return int(rng.words(1)[0]), rng.sample(asked, len(cohort))
