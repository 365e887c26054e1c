"""Secure aggregation (Bonawitz et al., CCS 2017; Bell et al., CCS 2020): the server gets the sum,
never an update.

Against whom: a server that follows the protocol but looks at everything, together with fewer than
`fewest` clients (a fifth of them beyond 128 clients): an update stays hidden among those of the
other honest clients in the sum. With `consistency` and node keys that all know, also a server that
lies about who dropped out. Where the protocol is run, a server that sends different models to
different clients gets no sum over them: the terms name the model. Not hidden: who took part, and
what the sum itself tells, which is for noise to hide. Not prevented: a server that invents clients
where node keys are not known, sends everybody one crafted model, or chooses the documents that a
client ranks. The whole of it is in `foltr/secure_sum/__init__.py`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil

import numpy as np

from foltr.core import Array, Ask, Cohort, Withheld
from foltr.errors import require
from foltr.secure_sum.fixed_point import mean, weighted, weighted_sum
from foltr.secure_sum.graph import COLLUDING, COMPLETE, Graph, degree_and_quorum
from foltr.secure_sum.terms import LEAST, Terms
from foltr.seeds import Stream
from foltr.spec import channel


@channel
@dataclass(frozen=True)
class SecureSum:
    """The server gets the sum of a round's messages, and no message.

    sum_i w_i u_i / sum_i w_i, where the server learns both sums and no summand. Weights w_i and
    w_i u_i are rounded to steps of 2^-`fraction_bits` and added modulo 2^64.

    Fewer than `threshold` (a part, more than half) of the clients asked: nothing is revealed.
    Beyond 128 clients that holds for every client's neighbourhood as well (`secure_sum/graph.py`).
    `masks=True` runs the whole protocol, as devices would that accept this threshold (by
    themselves they refuse less than two thirds); otherwise the same words are added without the
    masks that cancel: the same bits. `consistency` lets survivors sign the list of survivors, on
    the complete graph."""

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
    """A seed for the ring, and which of the clients asked those are who arrived (of the others
    nothing is known)."""
    return int(rng.words(1)[0]), rng.sample(asked, len(cohort))
