"""Which runs a run that unlearned clients is compared with: the run before they left, and a run
retrained without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foltr.report.spec_text import config_labels, says
from foltr.report.study import ATTACK_FIELDS, NOT_METHOD, UNLEARNING_FIELDS, Place, Study
from foltr.spec import unlearners

HONEST, ATTACKED, RETRAINED, UNLEARNED = range(4)  # kinds of methods, in the order of the rows


@dataclass(frozen=True, eq=False)
class UnlearningReferences:
    """The methods of a study with unlearning, and the references of each."""

    study: Study

    @property
    def configs(self) -> tuple[dict[str, Any], ...]:
        return self.study.configs

    def kind(self, method: int) -> int:
        """HONEST: nobody leaves and nobody attacks. ATTACKED: nobody leaves, somebody attacks.
        RETRAINED: trained again without the clients who left. UNLEARNED: by any other method."""
        config = self.configs[method]
        if "unlearning" in config:
            return RETRAINED if is_retraining(str(config["unlearning"])) else UNLEARNED
        return ATTACKED if "attack" in config else HONEST

    @cached_property
    def before(self) -> dict[Place, int]:
        """The method before clients left, in each condition. Among several, one with the same
        history is preferred."""

        def fits(i: int, j: int) -> bool:
            return (
                self.kind(i) >= RETRAINED > self.kind(j)
                and self._trainings[i] == self._trainings[j]
            )

        histories = [config.get("history") for config in self.configs]
        same_history = self._matched(lambda i, j: fits(i, j) and histories[i] == histories[j])
        return self._matched(fits) | same_history

    @cached_property
    def retrained(self) -> dict[Place, int]:
        """The first method that was retrained without the same clients. Methods that nobody left
        have one as well."""

        def fits(i: int, j: int) -> bool:
            if self.kind(j) != RETRAINED:
                return False
            if self.kind(i) == HONEST:
                return self._trainings_without_attack[i] == self._trainings_without_attack[j]
            same = self.kind(i) == ATTACKED or _left(self.configs[i]) == _left(self.configs[j])
            return same and self._trainings[i] == self._trainings[j]

        return {place: other for place, other in self._matched(fits).items() if other != place[0]}

    @cached_property
    def labels(self) -> dict[int, str]:
        """The methods to show, in order, and their labels."""
        used = {*self.before.values(), *(method for method, _ in self.retrained)}
        groups: list[list[int]] = [[], [], [], []]
        for method in range(len(self.configs)):
            if self.kind(method) >= RETRAINED or method in used:
                groups[self.kind(method)].append(method)
        honest, attacked, retrained, unlearned = groups
        histories = {self.configs[i].get("history") for i in unlearned}
        hidden = ("history",) if len(histories) < 2 else ()
        leaving = [
            *(self._fields(i, "history") for i in retrained),
            *(self._fields(i, *hidden) for i in unlearned),
        ]
        alone = "nobody leaves or attacks" if attacked else "nobody leaves"
        labels = [
            *_prefixed(
                alone,
                config_labels(
                    [self._fields(i, *UNLEARNING_FIELDS, *ATTACK_FIELDS) for i in honest]
                ),
            ),
            *_prefixed(
                "nobody leaves",
                config_labels(
                    [self._fields(i, *UNLEARNING_FIELDS) for i in attacked],
                    ("attack", "malicious"),
                ),
            ),
            *config_labels(leaving, ("unlearning",)),
        ]
        return dict(zip([*honest, *attacked, *retrained, *unlearned], labels, strict=True))

    def _fields(self, method: int, *without: str) -> dict[str, Any]:
        hidden = (*NOT_METHOD, *without)
        return {name: each for name, each in self.configs[method].items() if name not in hidden}

    @cached_property
    def _trainings(self) -> list[str]:
        """The config of each method, whoever leaves."""
        return [_key(self._fields(i, *UNLEARNING_FIELDS)) for i in range(len(self.configs))]

    @cached_property
    def _trainings_without_attack(self) -> list[str]:
        """The config of each method, whoever leaves or attacks."""
        hidden = (*UNLEARNING_FIELDS, *ATTACK_FIELDS)
        return [_key(self._fields(i, *hidden)) for i in range(len(self.configs))]

    def _matched(self, fits: Callable[[int, int], bool]) -> dict[Place, int]:
        """The first method that fits each method, in every condition where both have runs."""
        found: dict[Place, int] = {}
        for method in range(len(self.configs)):
            others = [other for other in range(len(self.configs)) if fits(method, other)]
            for c in range(len(self.study.conditions)):
                there = [other for other in others if (other, c) in self.study.cells]
                if there and (method, c) in self.study.cells:
                    found[method, c] = there[0]
        return found


def is_retraining(unlearner: str) -> bool:
    """Whether an unlearner trains again from the start, and uses nothing that was stored."""
    stored = says(unlearners, unlearner, "stores")
    return stored == "nothing" and says(unlearners, unlearner, "restarts") is True


def _key(fields: dict[str, Any]) -> str:
    return repr(sorted((name, repr(each)) for name, each in fields.items()))


def _prefixed(prefix: str, labels: list[str]) -> list[str]:
    return [f"{prefix}, {label}" if label else prefix for label in labels]


def _left(config: dict[str, Any]) -> Any:
    """All clients who left, in whatever groups."""
    leaving = config.get("leaving")
    if not isinstance(leaving, list | tuple):
        return leaving
    return sorted(
        client
        for group in leaving
        for client in (group if isinstance(group, list | tuple) else [group])
    )
