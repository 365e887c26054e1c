"""Local model poisoning against Krum."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.attacks._fang import AgainstKrum
from foltr.spec import attack


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
