"""Runs of attacks and defences as a grid: for each setting, what each aggregation rule reaches
without an attack and under each attack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from foltr.core.spec import aggregators
from foltr.report.matrix import CellValues, cell_values
from foltr.report.measures import MAIN, value
from foltr.report.results import Recorded, Runs
from foltr.report.study import (
    ATTACK_FIELDS,
    PAIRS,
    LeftOut,
    changed,
    equal,
    fields_within,
    is_component,
    says,
    short_label,
    study_by_fields,
    trained_runs,
)

PLAIN_RULE = "Mean()"  # the rule that defends against nothing, and the default of an experiment
AXES = (*ATTACK_FIELDS, "aggregator")  # all other fields make the settings
ASSUMED = "malicious"  # the field of a rule: how many malicious clients it is made for
OUTSIDE_CONFIG = ("files", "results")  # what a study adds to runs of equal config that differ


class AttackColumn(NamedTuple):
    """A column of the grid: an attack by a number of malicious clients."""

    spec: str
    at_rule: bool  # aimed at the very rule that was used
    roaming: bool
    malicious: int


@dataclass
class GridSetting:
    """All runs that differ only in the attack and in the rule."""

    label: str
    clients: int
    # rule -> its full spec, with the number of malicious clients it assumes -> values
    honest: dict[str, dict[str, CellValues]] = field(default_factory=dict)
    # rule, attack -> values
    attacked: dict[tuple[str, AttackColumn], CellValues] = field(default_factory=dict)
    # rule, number of malicious clients -> full spec
    specs: dict[tuple[str, int], str] = field(default_factory=dict)

    def values(self, rule: str, attack: AttackColumn) -> CellValues:
        return self.attacked.get((rule, attack), {})

    @cached_property
    def reference(self) -> CellValues:
        """What the plain rule reaches without an attack."""
        plain = [found for rule, found in self.honest.items() if is_plain(rule)]
        return next(iter(plain[0].values())) if plain else {}

    def honest_for(self, rule: str, malicious: int) -> tuple[CellValues, bool]:
        """A rule's values without an attack; and whether it assumed the same number of malicious
        clients in these runs as in the runs with so many malicious clients."""
        found = self.honest.get(rule, {})
        same = found.get(self.specs.get((rule, malicious), ""))
        return (same, True) if same else (next(iter(found.values()), {}), False)


@dataclass(frozen=True)
class AttackGrid:
    settings: tuple[GridSetting, ...]
    rules: dict[str, str]  # spec -> label; the plain rule first, then in the order of the runs
    attacks: dict[AttackColumn, str]  # -> label; by the number of malicious clients

    def attacks_in(self, setting: GridSetting, malicious: int) -> list[AttackColumn]:
        """The attacks of a setting by so many clients."""
        seen = {attack for _, attack in setting.attacked}
        return [
            attack for attack in self.attacks if attack in seen and attack.malicious == malicious
        ]


def attack_grid(runs: Runs) -> AttackGrid | None:
    """None where no run has an attack, or all attacked runs have the same attack, number of
    malicious clients and rule."""
    chosen = trained_runs(runs)
    attacked = [run for run in chosen if "attack" in run.config]
    if len({tuple(repr(run.config.get(name)) for name in AXES) for run in attacked}) < 2:
        return None
    matching = _rules_with_matching_number(attacked)
    fields = dict.fromkeys(name for run in chosen for name in run.config)
    columns = [name for name in fields if name not in (*AXES, *PAIRS)]
    study = study_by_fields(runs, chosen, columns)
    settings: dict[tuple[int, str], GridSetting] = {}
    for (method, condition), cell in study.cells.items():
        values = cell_values(cell, partial(value, measure=MAIN))
        if not values:
            continue
        config = next(iter(cell.values())).config
        outside = ", ".join(
            f"{name}={each}" for name, each in study.methods[method].key if name in OUTSIDE_CONFIG
        )
        labels = [study.conditions[condition].label] if len(study.conditions) > 1 else []
        label = ", ".join([*labels, *([outside] if outside else [])])
        new = GridSetting(label, int(config.get("clients", 0)))
        _add(settings.setdefault((condition, outside), new), config, values, matching)
    return _labelled([settings[place] for place in sorted(settings)])


def is_plain(rule: str) -> bool:
    return says(aggregators, rule, "is_mean") is True


def _rule_of(config: dict[str, Any]) -> str:
    return str(config.get("aggregator", PLAIN_RULE))


def _add(
    setting: GridSetting, config: dict[str, Any], values: CellValues, matching: set[str]
) -> None:
    spec, malicious = _rule_of(config), int(config.get("malicious", 0))
    bare = _without_number(spec)
    rule = bare if bare in matching else spec
    if "attack" not in config:
        setting.honest.setdefault(rule, {})[spec] = values
    else:
        attack = _attack(str(config["attack"]), spec, malicious, bool(config.get("roaming")))
        setting.attacked[rule, attack] = values
        setting.specs[rule, malicious] = spec


def _without_number(spec: str) -> str:
    """A rule without the number of malicious clients that it assumes."""
    return changed(spec, lambda name, value: LeftOut if name == ASSUMED else value)


def _rules_with_matching_number(attacked: list[Recorded]) -> set[str]:
    """The rules (without their number) that assume the true number of malicious clients in all
    attacked runs. For the other rules the assumed number is part of the rule."""
    matches: dict[str, bool] = {}
    for run in attacked:
        spec = _rule_of(run.config)
        right = all(
            value == run.config.get("malicious")
            for name, value in fields_within(spec)
            if name == ASSUMED
        )
        bare = _without_number(spec)
        matches[bare] = matches.get(bare, True) and right
    return {bare for bare, right in matches.items() if right}


def _attack(spec: str, rule: str, malicious: int, roaming: bool) -> AttackColumn:
    """The attack without what follows from its column and row: the number of malicious clients,
    and the rule if it is aimed at the rule that was used."""

    def is_rule(value: Any) -> bool:
        return is_component(value) and equal(value, rule)

    def change(name: str, value: Any) -> Any:
        return LeftOut if is_rule(value) or (name == ASSUMED and value == malicious) else value

    at_rule = any(is_rule(value) for _, value in fields_within(spec))
    return AttackColumn(changed(spec, change), at_rule, roaming, malicious)


def _labelled(settings: list[GridSetting]) -> AttackGrid | None:
    rules = dict.fromkeys(
        rule
        for setting in settings
        for rule in [*setting.honest, *(r for r, _ in setting.attacked)]
    )
    rules = dict.fromkeys(sorted(rules, key=lambda rule: not is_plain(rule)))
    attacks = dict.fromkeys(attack for setting in settings for _, attack in setting.attacked)
    if not attacks:
        return None
    order = list(dict.fromkeys(attack._replace(malicious=0) for attack in attacks))
    by_number = sorted(
        attacks, key=lambda each: (each.malicious, order.index(each._replace(malicious=0)))
    )
    specs = [attack.spec for attack in order]
    return AttackGrid(
        tuple(settings),
        {rule: short_label(rule, rules) for rule in rules},
        {attack: _attack_label(attack, specs) for attack in by_number},
    )


def _attack_label(attack: AttackColumn, specs: Iterable[str]) -> str:
    """ "Tailored, aimed at the rule, roaming" """
    parts = [short_label(attack.spec, specs)]
    if attack.at_rule:
        parts.append("aimed at the rule")
    if attack.roaming:
        parts.append("roaming")
    return ", ".join(parts)
