"""Which run with evenly spread data a run with skewed data is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foltr.report.matrix import Place
from foltr.report.spec_text import in_words, is_component, opened, rewritten, same
from foltr.report.study import Study

APART = ("users", "data", "seed", "partition")  # fields that do not make the method


def is_iid(partition: str) -> bool:
    """IID(), a twin (iid=True, at every depth), or what is around one."""
    name, fields = opened(partition)
    inside = fields.get("of")
    if name == "IID" or not ("iid" in fields or is_component(inside)):
        return name == "IID"
    return fields.get("iid", True) is True and (not is_component(inside) or is_iid(str(inside)))


def unwrapped(partition: str) -> str:
    """The partition inside one that has no twin of its own, as data sharing has none."""
    fields = opened(partition).fields
    inside = fields.get("of")
    return unwrapped(str(inside)) if is_component(inside) and "iid" not in fields else partition


def twins(partition: str) -> list[str]:
    """What a partition may be compared with, the nearest first."""

    def even(spec: str) -> str:
        return rewritten(spec, lambda name, value: True if name == "iid" else value)

    return [even(partition), even(unwrapped(partition)), "IID()"]


@dataclass(frozen=True, eq=False)
class Twinned:
    """A study of methods with partitions, and what each is compared with."""

    study: Study

    @property
    def configs(self) -> tuple[dict[str, Any], ...]:
        return self.study.configs

    @cached_property
    def references(self) -> dict[Place, int]:
        """The IID method of each skewed one, in every condition where there are both."""
        found = {place: self._twin(*place) for place in self._skewed}
        return {place: twin for place, twin in found.items() if twin is not None}

    @cached_property
    def alone(self) -> list[Place]:
        """What has no twin."""
        return [place for place in self._skewed if place not in self.references]

    @cached_property
    def _skewed(self) -> list[Place]:
        return [place for place in self.study.cells if not is_iid(self.partition(place[0]))]

    @cached_property
    def plain(self) -> dict[Place, int]:
        """Of remedies: the skewed method that is all that its IID twin is, and does nothing about
        the skew."""
        found: dict[Place, int] = {}
        for (method, c), twin in self.references.items():
            bare = unwrapped(self.partition(method))
            for other, there in self.references:
                alike = there == c and other != method and self.rests[other] == self.rests[twin]
                if alike and same(self.partition(other), bare):
                    found[method, c] = other
        return found

    @cached_property
    def bare(self) -> dict[Place, int]:
        """The references of what is no remedy."""
        return {place: twin for place, twin in self.references.items() if place not in self.plain}

    def partition(self, method: int) -> str:
        return str(self.configs[method].get("partition", "IID()"))

    @cached_property
    def rests(self) -> list[str]:
        """What methods are, apart from their partition."""
        return [
            repr(sorted((name, repr(each)) for name, each in config.items() if name not in APART))
            for config in self.configs
        ]

    def _twin(self, method: int, c: int) -> int | None:
        """One that differs in the partition alone; else the only one with such a partition that
        has the same ranker and as many clients: a remedy need not be tried where there is nothing
        to remedy."""
        there = [other for other, at in self.study.cells if at == c]
        for rough in (False, True):
            for partition in twins(self.partition(method)):
                alike = [
                    j
                    for j in there
                    if self._alike(method, j, rough) and same(self.partition(j), partition)
                ]
                if len(alike) == 1 or (alike and not rough):
                    return alike[0]
        return None

    def _alike(self, one: int, other: int, rough: bool) -> bool:
        if not rough:
            return self.rests[one] == self.rests[other]
        a, b = self.configs[one], self.configs[other]
        return all(a.get(name) == b.get(name) for name in ("ranker", "clients"))

    @cached_property
    def labels(self) -> dict[int, str]:
        """What tells the skewed methods apart, the partition first."""
        methods = list(dict.fromkeys(method for method, _ in sorted(self.references)))
        chosen = [{"partition": self.partition(i), **self.configs[i]} for i in methods]
        labels = in_words(
            [
                {
                    name: each
                    for name, each in config.items()
                    if name not in ("users", "data", "seed")
                }
                for config in chosen
            ],
            always=("partition",),
        )
        return dict(zip(methods, labels, strict=True))

    def hold_the_same(self, one: int, other: int) -> bool:
        return same(self.partition(one), self.partition(other))

    def borrowed(self, place: Place) -> str:
        """What the twin is that the method is not, apart from the partition; "" for nothing."""
        method, twin = place[0], self.references.get(place)
        pair = [self.configs[i] for i in ([] if twin is None else [twin, method])]
        plain = [
            {name: each for name, each in config.items() if name not in APART} for config in pair
        ]
        return in_words(plain)[0] if pair else ""

    def condition(self, c: int) -> str:
        return self.study.conditions[c].label if len(self.study.conditions) > 1 else ""
