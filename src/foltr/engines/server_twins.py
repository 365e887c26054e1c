"""Which compiled twin stands for which rule, attack or optimizer in a stretch of rounds. As in
`twins.py`, a twin is found by the exact class. Classes and kernels are imported when one is asked
for: most runs need few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.adam import Adam
from foltr.components.optimizers.sgd import SGD
from foltr.core import Aggregator, Array, Optimizer
from foltr.engines.twins import numbers
from foltr.kernels import frozen, rounds, rules
from foltr.kernels.calls import address_of
from foltr.world.protocols import Attack

if TYPE_CHECKING:
    from foltr.components.aggregators.gated import Gated
    from foltr.components.attacks.disguised import Disguised


class PartTwin(NamedTuple):
    """A kernel, the addresses of the kernels that it calls, and its numbers."""

    kernel: Callable[..., int]
    calls: tuple[int, ...]
    numbers: tuple[float, ...]

    @property
    def given(self) -> tuple[Array, Array]:
        """The kernel's first two arguments."""
        return frozen(np.array(self.calls, np.int64)), numbers(*self.numbers)


def rule_twin(rule: Aggregator) -> PartTwin | None:
    if type(rule) is Mean:
        return PartTwin(rules.mean, (), ())
    from foltr.components.aggregators.gated import Gated
    from foltr.components.aggregators.krum import Krum
    from foltr.components.aggregators.median import Median
    from foltr.components.aggregators.multi_krum import MultiKrum
    from foltr.components.aggregators.trimmed_mean import TrimmedMean
    from foltr.kernels.cohorts import krum_scores_of

    if type(rule) is Krum or type(rule) is MultiKrum:
        kernel = rules.krum if type(rule) is Krum else rules.multi_krum
        rows, scores = frozen(np.empty((1, 1), np.float32)), np.empty(1)
        calls = (address_of(krum_scores_of, rows, 0, False, scores),)
        return PartTwin(kernel, calls, (rule.malicious, rule.squared))
    if type(rule) is TrimmedMean:
        return PartTwin(rules.trimmed_mean, (), (rule.malicious,))
    if type(rule) is Median:
        return PartTwin(rules.median, (), ())
    if type(rule) is Gated and type(rule.fallback) is not Gated:
        return _gated(rule)
    return None


def _gated(rule: Gated) -> PartTwin | None:
    from foltr.components.aggregators.gated import FEW
    from foltr.kernels import gated

    fallback = rule_twin(rule.fallback)
    if fallback is None:
        return None
    flags, some, rows = np.empty(1, bool), np.empty(1), np.empty((1, 1), np.float32)
    memory = np.empty(1, np.int64), np.empty((1, 1)), np.empty((1, 4)), some
    bounds = (1.0, 1.0, 1.0, 1.0)
    look = address_of(gated.look, frozen(rows), flags, bounds, *memory[1:], flags)
    cohort = np.empty(1, np.int64), rows.copy(), some, memory, some
    other = address_of(fallback.kernel, *fallback.given, *cohort)
    own = 1.0 - 1.0 / rule.horizon, rule.limit, rule.uneven, rule.longest, 1.0 - FEW
    return PartTwin(rules.gated, (look, other, *fallback.calls), (*own, *fallback.numbers))


def optimizer_twin(optimizer: Optimizer) -> tuple[int, Array] | None:
    """Which steps `kernels.rounds` makes, and their settings."""
    if type(optimizer) is SGD:
        return rounds.PLAIN, numbers(optimizer.lr)
    if type(optimizer) is Adam:
        return rounds.MOMENTS, numbers(optimizer.lr, optimizer.b1, optimizer.b2, optimizer.eps)
    return None


def attack_twin(attack: Attack, n: int) -> PartTwin | None:
    """What malicious clients among n send."""
    from foltr.components.attacks._crafting import LEAST
    from foltr.components.attacks.compromised_model import CompromisedModel
    from foltr.components.attacks.disguised import Disguised
    from foltr.components.attacks.fang_krum import FangKrum
    from foltr.components.attacks.fang_multi_krum import FangMultiKrum
    from foltr.components.attacks.fang_trimmed import SPREADS, FangTrimmed
    from foltr.components.attacks.inner_product import InnerProduct
    from foltr.components.attacks.little_is_enough import LittleIsEnough
    from foltr.components.attacks.mimic import Mimic
    from foltr.components.attacks.min_sum import MinSum
    from foltr.kernels import attacks, crafting

    directions = {"std": crafting.STD, "unit": crafting.UNIT, "sign": crafting.SIGN}
    if type(attack) is LittleIsEnough:
        found = (attack.coefficient(n, m) for m in range(n + 1))
        shifts = [np.nan if z is None else z for z in found]
        return PartTwin(crafting.little_is_enough, (), (knows(attack.knowledge), *shifts))
    if type(attack) is InnerProduct:
        return PartTwin(crafting.inner_product, (), (knows(attack.knowledge), attack.scale))
    if type(attack) is FangKrum or type(attack) is FangMultiKrum:
        rows, some = frozen(np.empty((1, 1), np.float32)), np.empty(1)
        search = address_of(attacks.picked, rows, some, 1, 1, 1, 1, False, 1.0, 1.0, some)
        own = knows(attack.knowledge), attack.multi, attack.squared, attack.start, LEAST
        return PartTwin(crafting.against_krum, (search,), own)
    if type(attack) is FangTrimmed:
        return PartTwin(crafting.fang_trimmed, (), (knows(attack.knowledge), attack.b, *SPREADS))
    if type(attack) is MinSum:
        along = directions[attack.direction]
        return PartTwin(crafting.min_sum, (), (knows(attack.knowledge), along))
    if type(attack) is Mimic and attack.target == "fixed":
        return PartTwin(crafting.mimic_fixed, (), ())
    if type(attack) is CompromisedModel:
        return PartTwin(crafting.compromised_model, (), (attack.z,))
    if type(attack) is Disguised and type(attack.attack) is not Disguised:
        return _disguised(attack, n)
    return None


def _disguised(attack: Disguised, n: int) -> PartTwin | None:
    from foltr.kernels import crafting

    inner = attack_twin(attack.attack, n)
    if inner is None:
        return None
    clients, flags, params = np.empty(1, np.int64), np.empty(1, bool), np.empty(1, np.float32)
    rest = np.uint64(0), clients, flags, params, np.empty((1, 1), np.float32)
    address = address_of(inner.kernel, *inner.given, *rest)
    return PartTwin(crafting.disguised, (address, *inner.calls), (attack.share, *inner.numbers))


def knows(knowledge: str) -> int:
    from foltr.kernels import crafting

    return crafting.OWN if knowledge == "own" else crafting.ALL
