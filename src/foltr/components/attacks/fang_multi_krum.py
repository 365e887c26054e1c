"""Local model poisoning against Multi-Krum."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.attacks._fang import AgainstKrum
from foltr.spec import attack


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
