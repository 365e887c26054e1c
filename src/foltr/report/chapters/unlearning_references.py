"""Which runs a run that unlearned clients is compared with: the one before, and one that was
trained without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foltr.report.matrix import Place
from foltr.report.spec_text import in_words, opened
from foltr.report.study import Study

REPETITION = ("users", "data", "seed")
LEAVING = ("unlearning", "leaving", "history")
ATTACKING = ("attack", "malicious", "roaming")
HONEST, ATTACKED, RETRAINED, UNLEARNED = range(4)


@dataclass(frozen=True, eq=False)
class Leavers:
    """A study of runs that clients left, and of those that they left."""

    study: Study

    @property
    def configs(self) -> tuple[dict[str, Any], ...]:
        return self.study.configs

    def kind(self, method: int) -> int:
        """Nobody leaves, and nobody attacks or somebody does; trained again without those who
        leave; or unlearned."""
        config = self.configs[method]
        if "unlearning" in config:
            return RETRAINED if opened(str(config["unlearning"])).name == "Retrain" else UNLEARNED
        return ATTACKED if "attack" in config else HONEST

    @cached_property
    def before(self) -> dict[Place, int]:
        """The method that the clients of a method left, in each condition; of several, one with
        the same history."""

        def fits(i: int, j: int) -> bool:
            return (
                self.kind(i) >= RETRAINED > self.kind(j)
                and self._federations[i] == self._federations[j]
            )

        stored = [config.get("history") for config in self.configs]
        return self._matched(fits) | self._matched(
            lambda i, j: fits(i, j) and stored[i] == stored[j]
        )

    @cached_property
    def retrained(self) -> dict[Place, int]:
        """The first method that was trained again without the clients who leave. Also of methods
        that nobody left."""

        def fits(i: int, j: int) -> bool:
            if self.kind(j) != RETRAINED:
                return False
            if self.kind(i) == HONEST:
                return self._peaceful[i] == self._peaceful[j]
            gone = self.kind(i) == ATTACKED or _gone(self.configs[i]) == _gone(self.configs[j])
            return gone and self._federations[i] == self._federations[j]

        return {place: other for place, other in self._matched(fits).items() if other != place[0]}

    @cached_property
    def rows(self) -> dict[int, str]:
        """The methods to tell of, and their labels."""
        used = {*self.before.values(), *(method for method, _ in self.retrained)}
        groups: list[list[int]] = [[], [], [], []]
        for method in range(len(self.configs)):
            if self.kind(method) >= RETRAINED or method in used:
                groups[self.kind(method)].append(method)
        honest, attacked, retrained, unlearned = groups
        stored = {self.configs[i].get("history") for i in unlearned}
        same = ("history",) if len(stored) < 2 else ()
        leaving = [self._fields(i, "history") for i in retrained] + [
            self._fields(i, *same) for i in unlearned
        ]
        alone = "nobody leaves or attacks" if attacked else "nobody leaves"
        told = [
            *_with(alone, in_words([self._fields(i, *LEAVING, *ATTACKING) for i in honest])),
            *_with(
                "nobody leaves",
                in_words([self._fields(i, *LEAVING) for i in attacked], ("attack", "malicious")),
            ),
            *in_words(leaving, ("unlearning",)),
        ]
        return dict(zip([*honest, *attacked, *retrained, *unlearned], told, strict=True))

    def _fields(self, method: int, *without: str) -> dict[str, Any]:
        return {
            name: each
            for name, each in self.configs[method].items()
            if name not in (*REPETITION, *without)
        }

    @cached_property
    def _federations(self) -> list[str]:
        """What each is, whoever leaves it."""
        return [_sorted(self._fields(i, *LEAVING)) for i in range(len(self.configs))]

    @cached_property
    def _peaceful(self) -> list[str]:
        """The same, whoever attacks it."""
        return [_sorted(self._fields(i, *LEAVING, *ATTACKING)) for i in range(len(self.configs))]

    def _matched(self, fits: Callable[[int, int], bool]) -> dict[Place, int]:
        """The first method that fits each, in every condition where there are both."""
        found: dict[Place, int] = {}
        for method in range(len(self.configs)):
            others = [other for other in range(len(self.configs)) if fits(method, other)]
            for c in range(len(self.study.conditions)):
                there = [other for other in others if (other, c) in self.study.cells]
                if there and (method, c) in self.study.cells:
                    found[method, c] = there[0]
        return found


def _sorted(fields: dict[str, Any]) -> str:
    return repr(sorted((name, repr(each)) for name, each in fields.items()))


def _with(head: str, labels: list[str]) -> list[str]:
    return [f"{head}, {label}" if label else head for label in labels]


def _gone(config: dict[str, Any]) -> Any:
    """All who have left in the end, in whatever groups."""
    leaving = config.get("leaving")
    if not isinstance(leaving, list | tuple):
        return leaving
    return sorted(
        client
        for group in leaving
        for client in (group if isinstance(group, list | tuple) else [group])
    )
