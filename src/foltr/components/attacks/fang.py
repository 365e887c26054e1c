"""The attacks of Fang et al. on Krum, on Multi-Krum, and on trimmed mean and median."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import alike, mean, others, spread
from foltr.core import Array, Ask, Cohort
from foltr.core.cohorts import check_pairs, krum_scores_of, lengths
from foltr.core.compiled import replaceable
from foltr.core.errors import require
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream
from foltr.core.spec import attack

LEAST = 1e-5  # the smallest lambda tried


def length(signs: Array) -> float:
    """The L2 norm of a vector of signs: the root of how many are not 0, or 1 if all are 0."""
    return sqrt(int(np.count_nonzero(signs)) or 1)


@replaceable
def picked(
    updates: Array,
    signs: Array,
    fewest: int,
    most: int,
    nearest: int,
    kept: int,
    squared: bool,
    start: float | None,
) -> tuple[float, int]:
    """Search the scale lambda and the number of copies c of the message lambda x signs that Krum
    selects.

    c runs over fewest .. most; for each c, lambda is start, start / 2, ... down to 1e-5. The
    result is the first (lambda, c) for which the c copies beside `updates` (b, d) are among the
    `kept` lowest Krum scores (for c > kept: fill all of them). Copies lose ties. If there is none,
    the result is the first lambda below 1e-5, and c = 0; a start that is not finite is the result
    itself.

    A score is the sum of the `nearest` <= b smallest distances to others, or of their squares
    (`squared`). `start=None` is the bound beyond which Krum (kept = 1) selects none of `fewest`
    copies: (r + max_i |u_i|) / |signs|, where (nearest + 1 - fewest) r, or with squares (nearest +
    1 - fewest) r^2, is the smallest score among `updates` alone."""
    b = len(updates)
    if start is None:
        r = krum_scores_of(updates, nearest, squared).min() / (nearest + 1 - fewest)
        start = float(((sqrt(r) if squared else r) + lengths(updates).max()) / length(signs))
    scale = start
    for copies in range(fewest, most + 1) if isfinite(start) else ():
        scale = start
        while scale >= LEAST:
            crafted = np.tile(scale * signs, (copies, 1))
            scores = krum_scores_of(np.concatenate([updates, crafted]), nearest, squared)
            if (scores[:b] <= scores[b]).sum() <= max(0, kept - copies):
                return scale, copies
            scale /= 2.0
    return scale, 0


@dataclass(frozen=True)
class AgainstKrum(HasKnowledge):
    """Every malicious client sends the model theta + lambda s. A subclass writes `multi` and
    `unsure`."""

    knowledge: Literal["own", "all"] = "own"
    squared: bool = False
    start: float = 1.0

    def __post_init__(self) -> None:
        require(self.start > 0.0, f"start must be > 0, got {self.start}")

    @property
    @abstractmethod
    def multi(self) -> bool:
        """True: Multi-Krum must select all crafted models. False: Krum must select one of them."""

    @abstractmethod
    def unsure(self, n: int, m: int) -> str | None:
        """Why own knowledge is too little to search lambda, or None: the note given with
        `fits`."""

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        require(
            n > 2 * m + 1,
            f"{type(self).__name__} needs n > 2m + 1 clients, got m = {m} malicious of n = {n}",
        )
        check_pairs(self, m if self.knowledge == "own" else n - m, 16)  # distances and their sums
        note = self.unsure(n, m) if self.knowledge == "own" else None
        return (
            ()
            if note is None
            else (f"{type(self).__name__} {note}: it sends the start unchanged",)
        )

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own = cohort.updates[malicious]
        n, m = len(cohort), len(own)
        if self.knowledge == "all" and n > 2 * m + 1:
            updates, copies, nearest = others(cohort, malicious), (m, m), n - m - 2
            signs, start = -np.sign(mean(cohort.updates)), None
        else:
            nearest = max(1, m - 2)
            updates, copies = own, (1, nearest + 1)
            signs = -np.sign(mean(own))
            start = self.start * float(lengths(own).mean()) / length(signs)
        kept = len(updates) if self.multi else 1
        scale, _ = picked(updates, signs, *copies, nearest, kept, self.squared, start)
        return alike(scale * signs, m)


# Local model poisoning against Krum.


@attack
@dataclass(frozen=True)
class FangKrum(AgainstKrum):
    """Send a model against the learning direction, as far out as Krum still selects it.

        theta + lambda s,   s = -sign(mu - theta),   sign(0) = 0

    theta is the server's model and mu the mean of the clients' models before the attack. All
    malicious clients send the same. lambda starts large and is halved until Krum, with the true
    number of attackers m, selects a crafted model even if it loses ties. If lambda falls below
    1e-5, it is sent, although Krum does not select it.

    knowledge='all': mu is the mean of all n models, and Krum is simulated on n - m honest and m
    crafted models. The start is the bound (r + max_i |theta_i - theta|) / |s| over honest i,
    beyond which no crafted model is selected: (n - 2m - 1) r is the smallest sum of distances from
    an honest model to its n - m - 2 nearest honest ones (with `squared`, (n - 2m - 1) r^2 of
    squared distances). The paper writes sqrt(d) for |s|. The two differ where some s_j are 0; then
    sqrt(d) is no bound, because coordinates that nobody changes would shorten the attack.

    knowledge='own': mu is the mean of the m own models. Krum is simulated on these and on c = 1,
    2, ... crafted copies, with sums of max(1, m - 2) distances; max(1, m - 2) + 1 copies are
    always enough. The start is the lambda at which theta + lambda s is `start` times as far from
    theta as own models are on average. (The paper leaves the start open. Published code uses
    lambda = 1: for rankers with lr = 0.1 so far out that Krum selects none of 3 crafted models of
    10.) For m <= 3 the sums have one term, which gives no information: the start itself is sent.
    The same search is used in rounds with n <= 2m + 1, where the crafted copies would be their own
    nearest neighbours.

    Fields
        knowledge: 'own' (updates of malicious clients before the attack) or 'all' (those of all
            clients)
        squared: whether the attacked Krum sums squared distances
        start: first distance from theta in own knowledge, in mean lengths of own updates (> 0)

    Reference: Fang, Cao, Jia & Gong, USENIX Security 2020 (arXiv:1911.11815); in federated
    ranking: Wang & Zuccon, ICTIR 2023."""

    multi = False

    def unsure(self, n: int, m: int) -> str | None:
        return (
            f"cannot infer from its own {m} of {n} updates whether Krum selects it"
            if m <= 3
            else None
        )


# Local model poisoning against Multi-Krum.


@attack
@dataclass(frozen=True)
class FangMultiKrum(AgainstKrum):
    """Send a model against the learning direction, as far out as Multi-Krum still averages it.

        theta + lambda s,   s = -sign(mu - theta),   sign(0) = 0

    theta, mu and s are those of `FangKrum`, but lambda is halved until all crafted models are
    among the n - m models that Multi-Krum averages. With knowledge='own' it simulates a selection
    of m among the m own models and c crafted copies; where c > m, all selected ones must be
    crafted. The start of lambda is that of `FangKrum`; with knowledge='all' it is the bound for
    Krum.

    Fields
        knowledge: 'own' (updates of malicious clients before the attack) or 'all' (those of all
            clients)
        squared: whether the attacked Multi-Krum sums squared distances
        start: first distance from theta in own knowledge, in mean lengths of own updates (> 0)

    Reference: Fang, Cao, Jia & Gong, USENIX Security 2020 (arXiv:1911.11815); in federated
    ranking: Wang & Zuccon, ICTIR 2023."""

    multi = True

    def unsure(self, n: int, m: int) -> str | None:
        return "cannot infer from its one update whether it is selected" if m == 1 else None


# Local model poisoning against trimmed mean and median.

SPREADS = 3.0, 4.0  # standard deviations from the mean, nearest and farthest


@attack
@dataclass(frozen=True)
class FangTrimmed(HasKnowledge):
    """Send models just outside the range of the honest ones, against the learning direction.

    The side is s = -sign(mu - theta), with theta the server's model and mu the mean model before
    the attack. The rule then trims honest values of that side. Each malicious client draws
    coordinate j of its model uniformly.

    knowledge='all' (mu over all n clients; max and min over the honest models, not their updates):
        s_j = +1:   [max, b max] if max > 0,   else [max, max / b]
        s_j = -1:   [min / b, min] if min > 0,   else [b min, min]
    knowledge='own' (mu and the standard deviation sigma of the m own models before the attack):
        s_j = +1:   mu_j + [3, 4] sigma_j
        s_j = -1:   mu_j - [3, 4] sigma_j
    Where s_j = 0, the model is theta_j. A single client with own knowledge has sigma = 0 and sends
    its honest model.

    Fields
        knowledge: 'own' (updates of malicious clients before the attack) or 'all' (those of all
            clients)
        b: largest factor by which the extreme honest value is exceeded, for knowledge='all' (> 1)

    Reference: Fang, Cao, Jia & Gong, USENIX Security 2020 (arXiv:1911.11815); in federated
    ranking: Wang & Zuccon, ICTIR 2023."""

    knowledge: Literal["own", "all"] = "own"
    b: float = 2.0

    def __post_init__(self) -> None:
        require(self.b > 1.0, f"b must be > 1, got {self.b}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = self.knowledge == "own" and m == 1
        none = (
            "FangTrimmed has no effect: a single malicious client knows one update, which has no"
            " spread"
        )
        return (none,) if alone else ()

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own, theta = cohort.updates[malicious], ask.params.astype(np.float64)
        mu = mean(own if self.knowledge == "own" else cohort.updates)
        near, far = (
            self._of_own(own, mu)
            if self.knowledge == "own"
            else self._of_all(cohort, malicious, mu, theta)
        )
        u = np.stack(
            [rng.at(int(client)).uniforms(len(mu)) for client in cohort.clients[malicious]]
        )
        sent: Array = np.where(mu == 0.0, 0.0, near + u * (far - near))
        return sent.astype(np.float32)

    def _of_own(self, own: Array, mu: Array) -> tuple[Array, Array]:
        """The interval that each coordinate of the update is drawn from, own knowledge: two ends
        (d,)."""
        outwards = -np.sign(mu) * spread(own, mu)
        return mu + SPREADS[0] * outwards, mu + SPREADS[1] * outwards

    def _of_all(
        self, cohort: Cohort, malicious: Array, mu: Array, theta: Array
    ) -> tuple[Array, Array]:
        honest = others(cohort, malicious)
        # the outermost honest value of each coordinate
        edge = theta + np.where(mu < 0.0, honest.max(axis=0), honest.min(axis=0))
        enlarge = (mu < 0.0) == (edge > 0.0)  # whether b x edge lies outside of the edge
        return edge - theta, edge * np.where(enlarge, self.b, 1.0 / self.b) - theta
