"""Local model poisoning against Multi-Krum (Fang, Cao, Jia & Gong, USENIX Security 2020; thesis
5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.attacks._fang import AgainstKrum
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class FangMultiKrum(AgainstKrum):
    """`FangKrum`, but lambda is halved until all crafted models are among those that Multi-Krum
    averages.

    Multi-Krum is taken to average the n - m models with the best scores. With `knowledge='own'`
    these are m of m + c models, of which c are crafted, and all of them must be crafted where c >
    m. Everything else is as in `FangKrum`, the start of lambda too: with `knowledge='all'` that is
    the bound for Krum."""

    multi = True

    def unsure(self, n: int, m: int) -> str | None:
        return "cannot tell from its one update whether it is picked" if m == 1 else None
