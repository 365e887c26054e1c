"""What the two sides of a secure sum between machines need besides their state machines: terms,
their check on a device, words and the mean."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Ask
from foltr.errors import require
from foltr.secure_sum.fixed_point import mean, weighted
from foltr.secure_sum.terms import Terms, model_digest


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
