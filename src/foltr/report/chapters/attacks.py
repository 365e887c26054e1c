"""Chapter "Attacks and defences": what each aggregation rule costs without an attack, and what it
loses under each attack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from foltr.core.spec import aggregators
from foltr.core.system.tables import NONE, SHADES, count, shade, signed
from foltr.report.captions import number_range
from foltr.report.chapters.registry import (
    UNFOLDED,
    Block,
    Cell,
    Column,
    TableCell,
    chapter,
    side_by_side,
    table_block,
)
from foltr.report.matrix import CellValues, cell_values
from foltr.report.measures import MAIN
from foltr.report.results import Recorded, Runs
from foltr.report.spec_text import (
    LeftOut,
    changed,
    equal,
    fields_within,
    is_component,
    says,
    short_label,
)
from foltr.report.statistics import exact_mean, mean_and_sd
from foltr.report.study import ATTACK_FIELDS, PAIRS, study_by_fields, trained_runs

CHAPTER = "Attacks and defences"
PLAIN_RULE = "Mean()"  # the rule that defends against nothing, and the default of an experiment
AXES = (*ATTACK_FIELDS, "aggregator")  # all other fields make the settings
ASSUMED = "malicious"  # the field of a rule: how many malicious clients it is made for
OUTSIDE_CONFIG = ("files", "results")  # what a study adds to runs of equal config that differ
LONG = 20  # a summary with more rows is folded
ROUGHLY = "≈"
CHANGE = f"In brackets: the change from {PLAIN_RULE} without an attack"


@chapter(place=60)
def attacks_and_defences(runs: Runs) -> list[Block] | None:
    """Summaries, then a table for each setting and number of malicious clients."""
    grid = attack_grid(runs)
    if grid is None:
        return None
    tables = [
        _table(grid, setting, malicious)
        for setting in grid.settings
        for malicious in sorted({attack.malicious for _, attack in setting.attacked})
    ]
    tables = [replace(table, folded=len(tables) > UNFOLDED) for table in tables]
    return [*_worst_attacks(grid), *_best_rules(grid), *tables]


# ---- the runs as a grid: what each rule reaches in a setting, without an attack and under each


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

    def values(self, rule: str, attack: AttackColumn | None) -> CellValues:
        return self.attacked.get((rule, attack), {}) if attack else {}

    def worst(self, rule: str, attacks: Iterable[AttackColumn]) -> AttackColumn | None:
        """The attack under which a rule's mean is lowest."""
        tried = [attack for attack in attacks if (rule, attack) in self.attacked]
        return min(
            tried, key=lambda attack: exact_mean(self.values(rule, attack).values()), default=None
        )

    @property
    def cells(self) -> list[CellValues]:
        honest = [values for found in self.honest.values() for values in found.values()]
        return [*self.attacked.values(), *honest]

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
    for (method, condition), values in cell_values(study, list(study.cells), MAIN).items():
        outside = ", ".join(
            f"{name}={each}" for name, each in study.methods[method].key if name in OUTSIDE_CONFIG
        )
        label = ", ".join(part for part in (study.condition_label(condition), outside) if part)
        config = next(iter(study.cell(method, condition).values())).config
        new = GridSetting(label, int(config.get("clients", 0)))
        setting = settings.setdefault((condition, outside), new)
        spec, malicious = _rule_of(config), int(config.get("malicious", 0))
        bare = _without_number(spec)
        rule = bare if bare in matching else spec
        if "attack" in config:
            attack = _attack(str(config["attack"]), spec, malicious, bool(config.get("roaming")))
            setting.attacked[rule, attack] = values
            setting.specs[rule, malicious] = spec
        else:
            setting.honest.setdefault(rule, {})[spec] = values
    return _labelled([settings[place] for place in sorted(settings)])


def is_plain(rule: str) -> bool:
    return says(aggregators, rule, "is_mean") is True


def _rule_of(config: dict[str, Any]) -> str:
    return str(config.get("aggregator", PLAIN_RULE))


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


# ---- blocks


def _worst_attacks(grid: AttackGrid) -> Iterator[Block]:
    losses = ", ".join(f"{loss:g}" for loss in SHADES[:-1]) + f" or {SHADES[-1]:g}"
    text = (
        "Final nDCG@10 of each rule without an attack, and under the attack that lowers it most."
        f" {CHANGE}, over equal repetitions. Losses of more than {losses} are shaded."
        " Some rules assume a number of malicious clients; without an attack, the lowest value"
        " over these numbers is shown. A rule that was run against fewer attacks than others says"
        " so."
    )
    for part, settings in side_by_side(grid.settings):
        columns: list[Column] = [("rule", list(grid.rules.values()))]
        for setting in settings:
            honest = [
                min(
                    setting.honest.get(rule, {}).values(),
                    key=lambda values: exact_mean(values.values()),
                    default={},
                )
                for rule in grid.rules
            ]
            name = f"{setting.label}: " if setting.label else ""
            columns.append((f"{name}no attack", _column(setting, honest)))
            columns.append((f"{name}worst attack", _worst_column(grid, setting)))
        title = f"Rules without an attack and under their worst attack{part}"
        yield table_block(title, text, columns, CHAPTER)


def _worst_column(grid: AttackGrid, setting: GridSetting) -> list[TableCell]:
    tried = Counter(rule for rule, _ in setting.attacked)
    worst = {rule: setting.worst(rule, grid.attacks) for rule in grid.rules}
    column = _column(setting, [setting.values(*each) for each in worst.items()])
    cells: list[TableCell] = []
    for (rule, attack), cell in zip(worst.items(), column, strict=True):
        if attack and isinstance(cell, Cell):
            n = tried[rule]
            few = f", worst of {count(n, 'attack')}" if n < max(tried.values()) else ""
            name = f"{grid.attacks[attack]}, {attack.malicious} malicious"
            cell = replace(cell, below=name + few)
        cells.append(cell)
    return cells


def _best_rules(grid: AttackGrid) -> Iterator[Block]:
    """For the settings that have several rules."""
    text = f"The rule with the highest final nDCG@10 under each attack, and that value. {CHANGE}."
    labels = list(dict.fromkeys(grid.attacks.values()))
    order = sorted(
        grid.attacks, key=lambda attack: (labels.index(grid.attacks[attack]), attack.malicious)
    )
    for part, settings in side_by_side(grid.settings):
        rows = []
        for attack in order:
            cells = [_best_rule(grid, setting, attack) for setting in settings]
            if any(cell != NONE for cell in cells):
                rows.append((grid.attacks[attack], str(attack.malicious), *cells))
        heads = ("attack", "malicious", *(setting.label or "best rule" for setting in settings))
        if rows:
            title = f"The best rule against each attack{part}"
            yield Block(title, text, (heads, *rows), CHAPTER, folded=len(rows) > LONG)


def _best_rule(grid: AttackGrid, setting: GridSetting, attack: AttackColumn) -> TableCell:
    cells = _column(setting, [setting.values(rule, attack) for rule in grid.rules])
    for label, cell in zip(grid.rules.values(), cells, strict=True):
        if isinstance(cell, Cell) and cell.best:
            return Cell(label, below=f"{cell.text} {cell.aside}".strip(), shade=cell.shade)
    return NONE


def _table(grid: AttackGrid, setting: GridSetting, malicious: int) -> Block:
    """One setting and number of malicious clients."""
    seen = {attack for _, attack in setting.attacked if attack.malicious == malicious}
    attacks = [attack for attack in grid.attacks if attack in seen]
    rules = [
        rule for rule in grid.rules if any(setting.values(rule, attack) for attack in attacks)
    ]
    honest = [setting.honest_for(rule, malicious) for rule in rules]
    first = _column(setting, [values for values, _ in honest])
    for i, (cell, (_, is_exact)) in enumerate(zip(first, honest, strict=True)):
        if isinstance(cell, Cell) and not is_exact:
            first[i] = replace(cell, text=f"{ROUGHLY} {cell.text}")
    worst = {rule: setting.worst(rule, attacks) for rule in rules}
    last = _column(setting, [setting.values(*each) for each in worst.items()])
    for i, (cell, attack) in enumerate(zip(last, worst.values(), strict=True)):
        if attack and isinstance(cell, Cell):
            last[i] = replace(cell, aside=f"{cell.aside} {grid.attacks[attack]}".strip())
    columns: list[Column] = [("rule", [grid.rules[rule] for rule in rules]), ("no attack", first)]
    for attack in attacks:
        values = [setting.values(rule, attack) for rule in rules]
        columns.append((grid.attacks[attack], _column(setting, values)))
    columns.append(("worst", last))
    number = f"{malicious} of {setting.clients} clients malicious"
    title = f"{setting.label}, {number}" if setting.label else number
    return table_block(title, _about(setting, first), columns, CHAPTER)


def _column(setting: GridSetting, rules: Sequence[CellValues]) -> list[TableCell]:
    """A cell for the values of each rule. The best mean is bold; only means over all repetitions
    of the column compete."""
    usual = Counter(map(len, setting.cells)).most_common(1)[0][0]
    full = max(rules, key=len, default={})
    means = [exact_mean(values.values()) if values else None for values in rules]
    rivals = [
        mean
        for mean, values in zip(means, rules, strict=True)
        if mean is not None and values.keys() == full.keys()
    ]
    best = max(rivals) if len(rivals) > 1 else None
    cells: list[TableCell] = []
    for mean, values in zip(means, rules, strict=True):
        if mean is None:
            cells.append(NONE)
            continue
        change = _change(values, setting.reference)
        parts = [f"({signed(change)})"] if change is not None else []
        parts += [f"n={len(values)}"] if len(values) != usual else []
        is_best = values.keys() == full.keys() and mean == best
        cells.append(Cell(f"{mean:.3f}", " ".join(parts), best=is_best, shade=shade(change)))
    return cells


def _change(values: CellValues, reference: CellValues) -> float | None:
    """The mean difference from the reference over equal repetitions."""
    differences = [values[pair] - reference[pair] for pair in values if pair in reference]
    return exact_mean(differences) if differences else None


def _about(setting: GridSetting, honest: Iterable[TableCell]) -> str:
    sizes = {len(values) for values in setting.cells}
    runs = "of one run" if sizes == {1} else f"mean over {number_range(sizes)} runs"
    parts = [f"Final nDCG@10, {runs}."]
    if setting.reference:
        parts.append(f"{CHANGE}.")
    else:
        parts.append(f"No change is shown, because {PLAIN_RULE} has no run without an attack.")
    parts.append("The best rule of each column is bold.")
    spread = [
        mean_and_sd(np.array(list(values.values())))[1]
        for values in setting.cells
        if len(values) > 1
    ]
    if spread:
        parts.append(
            f"The runs of a cell have a standard deviation of {median(spread):.4f} (median over"
            " all cells)."
        )
    if any(isinstance(cell, Cell) and cell.text.startswith(ROUGHLY) for cell in honest):
        parts.append(
            f"{ROUGHLY}: in these runs the rule assumed another number of malicious clients."
        )
    return " ".join(parts)
