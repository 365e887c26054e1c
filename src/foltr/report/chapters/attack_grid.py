"""Runs of attacks and defences as a grid: for each setting, what each rule reaches honestly and
under each attack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from foltr.report.matrix import known_of
from foltr.report.measures import value
from foltr.report.spec_text import Left, fields_within, is_component, opened, rewritten, same, short
from foltr.report.study import PAIRS, Pair, unnamed
from foltr.results import Recorded, Runs

AXES = ("attack", "malicious", "roaming", "aggregator")  # all other fields make the settings
ASSUMED = "malicious"  # how many malicious clients a rule is made for
UNSEEN = ("files", "results")  # what a study tells of runs of equal config that are not the same
MEASURE = "ndcg@10"
Values = dict[Pair, float]  # of the repetitions


class Attacked(NamedTuple):
    """A column: what so many clients did."""

    attack: str  # spec
    own: bool  # against the very rule that was used
    roaming: bool
    malicious: int


@dataclass
class Setting:
    label: str
    clients: int
    honest: dict[str, dict[str, Values]] = field(
        default_factory=dict
    )  # rule -> spec with what it assumes -> values
    attacked: dict[tuple[str, Attacked], Values] = field(
        default_factory=dict
    )  # rule, attack -> values
    specs: dict[tuple[str, int], str] = field(default_factory=dict)  # rule, malicious -> spec

    def values(self, rule: str, attack: Attacked) -> Values:
        return self.attacked.get((rule, attack), {})

    @cached_property
    def reference(self) -> Values:
        """What the plain mean reaches when nobody attacks."""
        plain = [found for rule, found in self.honest.items() if opened(rule).name == "Mean"]
        return next(iter(plain[0].values())) if plain else {}

    def honest_for(self, rule: str, malicious: int) -> tuple[Values, bool]:
        """A rule's honest values, and whether it assumed what it does where so many are
        malicious."""
        found = self.honest.get(rule, {})
        same = found.get(self.specs.get((rule, malicious), ""))
        return (same, True) if same else (next(iter(found.values()), {}), False)


@dataclass(frozen=True)
class Grid:
    settings: tuple[Setting, ...]
    rules: dict[str, str]  # spec -> label, as they came
    attacks: dict[Attacked, str]  # -> label, by number of malicious clients

    def of(self, setting: Setting, malicious: int) -> list[Attacked]:
        seen = {attack for _, attack in setting.attacked}
        return [
            attack for attack in self.attacks if attack in seen and attack.malicious == malicious
        ]


def grid(runs: Runs) -> Grid | None:
    """None where the runs are no such grid: one attack by one number of clients on one rule, or
    none."""
    chosen = [
        run for run in runs if "baseline" not in run.config and "unlearning" not in run.config
    ]
    attacked = [run for run in chosen if "attack" in run.config]
    cells = {
        (run.config.get("aggregator"), *(repr(run.config.get(name)) for name in AXES))
        for run in attacked
    }
    if len(cells) < 2:
        return None
    follows = _following(attacked)
    fields = dict.fromkeys(name for run in chosen for name in run.config)
    found = unnamed(runs, chosen, [name for name in fields if name not in (*AXES, *PAIRS)])
    settings: dict[tuple[int, str], Setting] = {}
    for (method, condition), cell in found.cells.items():
        config, values = (
            next(iter(cell.values())).config,
            known_of(cell, partial(value, measure=MEASURE)),
        )
        unseen = ", ".join(
            f"{name}={value}" for name, value in found.methods[method].key if name in UNSEEN
        )
        if values:
            labels = [found.conditions[condition].label] if len(found.conditions) > 1 else []
            label = ", ".join([*labels, *([unseen] if unseen else [])])
            setting = settings.setdefault(
                (condition, unseen), Setting(label, int(config.get("clients", 0)))
            )
            _place(setting, config, values, follows)
    return _labelled([settings[place] for place in sorted(settings)])


def _place(setting: Setting, config: dict[str, Any], values: Values, follows: set[str]) -> None:
    spec, malicious = str(config.get("aggregator", "Mean()")), int(config.get("malicious", 0))
    rule = _row(spec, follows)
    if "attack" not in config:
        setting.honest.setdefault(rule, {})[spec] = values
    else:
        attack = _attack(str(config["attack"]), spec, malicious, bool(config.get("roaming")))
        setting.attacked[rule, attack] = values
        setting.specs[rule, malicious] = spec


def _row(spec: str, follows: set[str]) -> str:
    """A rule as the rows of tables have it."""
    bare = _bare(spec)
    return bare if bare in follows else spec


def _bare(spec: str) -> str:
    """A rule without how many malicious clients it assumes."""
    return rewritten(spec, lambda name, value: Left if name == ASSUMED else value)


def _following(attacked: list[Recorded]) -> set[str]:
    """Bare rules whose assumed number is that of the malicious clients wherever they are attacked;
    of the others it tells rules apart."""
    ok: dict[str, bool] = {}
    for run in attacked:
        spec = str(run.config.get("aggregator", "Mean()"))
        right = all(
            value == run.config.get("malicious")
            for name, value in fields_within(spec)
            if name == ASSUMED
        )
        ok[_bare(spec)] = ok.get(_bare(spec), True) and right
    return {bare for bare, right in ok.items() if right}


def _attack(spec: str, rule: str, malicious: int, roaming: bool) -> Attacked:
    def is_rule(value: Any) -> bool:
        return is_component(value) and same(value, rule)

    def change(name: str, value: Any) -> Any:
        return Left if is_rule(value) or (name == ASSUMED and value == malicious) else value

    own = any(is_rule(value) for _, value in fields_within(spec))
    return Attacked(rewritten(spec, change), own, roaming, malicious)


def _labelled(settings: list[Setting]) -> Grid | None:
    rules = dict.fromkeys(
        rule
        for setting in settings
        for rule in [*setting.honest, *(r for r, _ in setting.attacked)]
    )
    rules = dict.fromkeys(
        sorted(rules, key=lambda rule: opened(rule).name != "Mean")
    )  # it is what others differ from
    attacks = dict.fromkeys(attack for setting in settings for _, attack in setting.attacked)
    if not attacks:
        return None
    order = list(dict.fromkeys(attack._replace(malicious=0) for attack in attacks))
    by_number = sorted(
        attacks, key=lambda each: (each.malicious, order.index(each._replace(malicious=0)))
    )
    specs = [attack.attack for attack in order]
    return Grid(
        tuple(settings),
        {rule: short(rule, rules) for rule in rules},
        {attack: _told(attack, specs) for attack in by_number},
    )


def _told(attack: Attacked, specs: Iterable[str]) -> str:
    """ "Tailored to the rule, roaming" """
    return (
        f"{short(attack.attack, specs)}{' to the rule' * attack.own}{', roaming' * attack.roaming}"
    )
