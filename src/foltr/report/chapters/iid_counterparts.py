"""Which method with IID data a method with skewed data is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foltr.report.spec_text import changed, config_labels, equal, is_component, opened, says
from foltr.report.study import NOT_METHOD, Place, Study
from foltr.spec import partitions

IID = "IID()"  # the partition without skew, and the default of an experiment
APART = (*NOT_METHOD, "partition")  # fields in which a method and its counterpart may differ
ROUGHLY = ("ranker", "clients")  # fields in which they must agree at least


def is_iid(partition: str) -> bool:
    """Whether a partition says that its clients are identical, or has `iid=True` at every
    depth."""
    if says(partitions, partition, "identical_clients"):
        return True
    fields = opened(partition).fields
    inside = fields.get("of")
    if "iid" not in fields and not is_component(inside):
        return False
    return fields.get("iid", True) is True and (not is_component(inside) or is_iid(str(inside)))


def unwrapped(partition: str) -> str:
    """The partition inside a partition that has no field `iid` of its own, such as `Sharing`."""
    fields = opened(partition).fields
    inside = fields.get("of")
    return unwrapped(str(inside)) if is_component(inside) and "iid" not in fields else partition


def iid_versions(partition: str) -> list[str]:
    """The IID partitions that a skewed one may be compared with, the most similar first."""

    def even(spec: str) -> str:
        return changed(spec, lambda name, value: True if name == "iid" else value)

    return [even(partition), even(unwrapped(partition)), IID]


@dataclass(frozen=True, eq=False)
class IidCounterparts:
    """The methods of a study with skewed data, and the IID counterpart of each."""

    study: Study

    @property
    def configs(self) -> tuple[dict[str, Any], ...]:
        return self.study.configs

    @cached_property
    def references(self) -> dict[Place, int]:
        """The IID counterpart of each skewed method, in every condition where both have runs."""
        found = {place: self._counterpart(*place) for place in self._skewed}
        return {place: other for place, other in found.items() if other is not None}

    @cached_property
    def without_reference(self) -> list[Place]:
        """The skewed methods that have no counterpart."""
        return [place for place in self._skewed if place not in self.references]

    @cached_property
    def _skewed(self) -> list[Place]:
        return [place for place in self.study.cells if not is_iid(self.partition(place[0]))]

    @cached_property
    def untreated(self) -> dict[Place, int]:
        """For each remedy, the method on the same skewed data without it: it equals the remedy's
        counterpart in everything but the partition."""
        found: dict[Place, int] = {}
        for (method, c), counterpart in self.references.items():
            bare = unwrapped(self.partition(method))
            for other, there in self.references:
                equal_rest = self._rests[other] == self._rests[counterpart]
                if there == c and other != method and equal_rest:
                    if equal(self.partition(other), bare):
                        found[method, c] = other
        return found

    @cached_property
    def references_of_untreated(self) -> dict[Place, int]:
        """The counterparts of the skewed methods that are no remedy."""
        return {
            place: other for place, other in self.references.items() if place not in self.untreated
        }

    def partition(self, method: int) -> str:
        return str(self.configs[method].get("partition", IID))

    def same_partition(self, one: int, other: int) -> bool:
        return equal(self.partition(one), self.partition(other))

    @cached_property
    def _rests(self) -> list[str]:
        """The config of each method, without the fields of APART."""
        return [
            repr(sorted((name, repr(each)) for name, each in _without(config, APART).items()))
            for config in self.configs
        ]

    def _counterpart(self, method: int, c: int) -> int | None:
        """The method that differs only in the partition. If there is none, the only method with
        such a partition that agrees in the fields of ROUGHLY: a remedy need not have been run on
        IID data."""
        there = [other for other, at in self.study.cells if at == c]
        for rough in (False, True):
            for partition in iid_versions(self.partition(method)):
                found = [
                    other
                    for other in there
                    if self._agree(method, other, rough)
                    and equal(self.partition(other), partition)
                ]
                if len(found) == 1 or (found and not rough):
                    return found[0]
        return None

    def _agree(self, one: int, other: int, rough: bool) -> bool:
        if not rough:
            return self._rests[one] == self._rests[other]
        a, b = self.configs[one], self.configs[other]
        return all(a.get(name) == b.get(name) for name in ROUGHLY)

    @cached_property
    def labels(self) -> dict[int, str]:
        """The labels of the skewed methods that have a counterpart, the partition first."""
        methods = list(dict.fromkeys(method for method, _ in sorted(self.references)))
        chosen = [{"partition": self.partition(i), **self.configs[i]} for i in methods]
        labels = config_labels(
            [_without(config, NOT_METHOD) for config in chosen], always=("partition",)
        )
        return dict(zip(methods, labels, strict=True))

    def other_fields(self, place: Place) -> str:
        """The fields, apart from the partition, in which the counterpart of a method differs from
        it; "" for none."""
        method, counterpart = place[0], self.references.get(place)
        if counterpart is None:
            return ""
        pair = [_without(self.configs[i], APART) for i in (counterpart, method)]
        return config_labels(pair)[0]

    def condition_label(self, c: int) -> str:
        """ "" where there is only one condition."""
        return self.study.conditions[c].label if len(self.study.conditions) > 1 else ""


def _without(config: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: each for name, each in config.items() if name not in names}
