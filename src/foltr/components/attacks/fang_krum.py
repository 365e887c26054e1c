"""Local model poisoning against Krum (Fang, Cao, Jia & Gong, USENIX Security 2020;
arXiv:1911.11815; thesis 5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.attacks._fang import AgainstKrum
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class FangKrum(AgainstKrum):
    """Every malicious client sends the model theta + lambda s, s = -sign(mu - theta): backwards,
    as far as Krum goes.

    theta is the server's model, mu the mean of the clients' models before the attack, sign(0) = 0.
    lambda is halved from a start until Krum (which assumes as many attackers as there are, and is
    `squared` alike) picks a crafted model whoever wins ties, or until it is below 1e-5 and sent
    all the same.

    `knowledge='all'`: mu of all n models, and Krum on n - m honest models and m crafted ones. The
    start is the bound r / |s| + max |theta_i - theta| / |s| over honest i, where (n - 2m - 1) r is
    the smallest sum of distances from an honest model to its n - m - 2 nearest honest ones; with
    squares (n - 2m - 1) r^2. Beyond it none is picked. (The paper writes sqrt(d), which is |s|
    where no s_j is 0. Where some are it is no bound: a column that nobody changes would shorten
    the attack.)

    `knowledge='own'`: mu of the m own models, and Krum on these and 1, 2, ... crafted copies,
    until there are enough for some lambda. Of m + c models, c of them crafted, it sums m - 2
    distances (at least one), so that m - 1 copies (at least two) always are. The start is the
    lambda at which theta + lambda s is `start` times as far from theta as own models are on
    average. (The paper leaves it open. Published code starts at 1: for rankers with lr = 0.1 so
    far out that Krum picks none of 3 crafted models of 10.) Up to m = 3 the sums have one term,
    which tells nothing: the start itself is sent.

    In a round with n <= 2m + 1 copies are their own neighbours, and any lambda is picked: own
    knowledge is then used."""

    multi = False

    def unsure(self, n: int, m: int) -> str | None:
        return (
            f"cannot tell from its own {m} of {n} updates whether Krum picks it"
            if m <= 3
            else None
        )
