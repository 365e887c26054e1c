"""Chapter "Attacks and defences": what each aggregation rule costs without an attack, and what it
loses under each attack."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from foltr.core.system.tables import NONE, SHADES, count, shade, signed
from foltr.report.chapters.attack_grid import (
    PLAIN_RULE,
    AttackColumn,
    AttackGrid,
    GridSetting,
    attack_grid,
)
from foltr.report.chapters.registry import UNFOLDED, Block, Cell, TableCell, chapter, side_by_side
from foltr.report.matrix import CellValues
from foltr.report.results import Runs
from foltr.report.statistics import mean_and_sd

CHAPTER = "Attacks and defences"
LONG = 20  # a summary with more rows is folded
ROUGHLY = "≈"
CHANGE = f"In brackets: the change from {PLAIN_RULE} without an attack"


@chapter(place=60)
def attacks_and_defences(runs: Runs) -> list[Block] | None:
    """Summaries, then a table for each setting and number of malicious clients."""
    grid = attack_grid(runs)
    if grid is None:
        return None
    places = [
        (setting, malicious)
        for setting in grid.settings
        for malicious in sorted({attack.malicious for _, attack in setting.attacked})
    ]
    tables = [replace(_table(grid, *place), folded=len(places) > UNFOLDED) for place in places]
    return [*_worst_attacks(grid), *_best_rules(grid), *tables]


# ---- numbers


def _mean(values: CellValues) -> float:
    return math.fsum(values.values()) / len(values)


def _change(values: CellValues, reference: CellValues) -> float | None:
    """The mean difference from the reference over equal repetitions."""
    pairs = [pair for pair in values if pair in reference]
    if not pairs:
        return None
    return math.fsum(values[pair] - reference[pair] for pair in pairs) / len(pairs)


def _worst(
    setting: GridSetting, rule: str, attacks: Iterable[AttackColumn]
) -> tuple[AttackColumn, CellValues] | None:
    """The attack under which a rule's mean is lowest, and the values under it."""
    found = [(attack, values) for attack in attacks if (values := setting.values(rule, attack))]
    return min(found, key=lambda each: _mean(each[1])) if found else None


def _all_cells(setting: GridSetting) -> list[CellValues]:
    honest = [values for found in setting.honest.values() for values in found.values()]
    return [*setting.attacked.values(), *honest]


# ---- cells


def _column(setting: GridSetting, rules: Sequence[CellValues]) -> list[TableCell]:
    """A cell for the values of each rule. The best mean is bold; only means over all repetitions
    of the column compete."""
    usual = Counter(len(values) for values in _all_cells(setting)).most_common(1)[0][0]
    full = max(rules, key=len, default={})
    rivals = [_mean(values) for values in rules if values and values.keys() == full.keys()]
    best = max(rivals) if len(rivals) > 1 else None
    cells: list[TableCell] = []
    for values in rules:
        if not values:
            cells.append(NONE)
            continue
        change, mean = _change(values, setting.reference), _mean(values)
        parts = [f"({signed(change)})"] if change is not None else []
        parts += [f"n={len(values)}"] if len(values) != usual else []
        is_best = best is not None and values.keys() == full.keys() and mean == best
        cells.append(Cell(f"{mean:.3f}", " ".join(parts), best=is_best, shade=shade(change)))
    return cells


def _worst_values(worst: tuple[AttackColumn, CellValues] | None) -> CellValues:
    return worst[1] if worst else {}


# ---- summaries


def _worst_attacks(grid: AttackGrid) -> Iterator[Block]:
    text = (
        "Final nDCG@10 of each rule without an attack, and under the attack that lowers it most."
        f" {CHANGE}, over equal repetitions. Losses of more than {_listed(SHADES)} are shaded."
        " Some rules assume a number of malicious clients; without an attack, the lowest value"
        " over these numbers is shown. A rule that was run against fewer attacks than others says"
        " so."
    )
    for part, settings in side_by_side(grid.settings):
        columns: list[list[TableCell]] = []
        heads = []
        for setting in settings:
            honest = [
                min(setting.honest.get(rule, {}).values(), key=_mean, default={})
                for rule in grid.rules
            ]
            columns += [_column(setting, honest), _worst_column(grid, setting)]
            name = f"{setting.label}: " if setting.label else ""
            heads += [f"{name}no attack", f"{name}worst attack"]
        rows = [
            row
            for row in zip(grid.rules.values(), *columns, strict=True)
            if any(each != NONE for each in row[1:])
        ]
        title = f"Rules without an attack and under their worst attack{part}"
        yield Block(title, text, (("rule", *heads), *rows), CHAPTER)


def _worst_column(grid: AttackGrid, setting: GridSetting) -> list[TableCell]:
    tried = Counter(rule for rule, _ in setting.attacked)
    worst = [_worst(setting, rule, grid.attacks) for rule in grid.rules]
    column = _column(setting, [_worst_values(each) for each in worst])
    cells: list[TableCell] = []
    for rule, each, cell in zip(grid.rules, worst, column, strict=True):
        if each and isinstance(cell, Cell):
            attack, n = each[0], tried[rule]
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


# ---- one table for each setting and number of malicious clients


def _table(grid: AttackGrid, setting: GridSetting, malicious: int) -> Block:
    attacks = grid.attacks_in(setting, malicious)
    rules = [
        rule for rule in grid.rules if any(setting.values(rule, attack) for attack in attacks)
    ]
    honest = [setting.honest_for(rule, malicious) for rule in rules]
    first = [
        cell if isinstance(cell, str) or exact else replace(cell, text=f"{ROUGHLY} {cell.text}")
        for cell, (_, exact) in zip(
            _column(setting, [values for values, _ in honest]), honest, strict=True
        )
    ]
    middle = [
        _column(setting, [setting.values(rule, attack) for rule in rules]) for attack in attacks
    ]
    worst = [_worst(setting, rule, attacks) for rule in rules]
    last = [
        _with_attack(cell, grid.attacks[each[0]]) if each else cell
        for cell, each in zip(
            _column(setting, [_worst_values(each) for each in worst]), worst, strict=True
        )
    ]
    heads = ("rule", "no attack", *(grid.attacks[attack] for attack in attacks), "worst")
    number = f"{malicious} of {setting.clients} clients malicious"
    title = f"{setting.label}, {number}" if setting.label else number
    labels = [grid.rules[rule] for rule in rules]
    rows = list(zip(labels, first, *middle, last, strict=True))
    return Block(title, _about(setting, first), (heads, *rows), CHAPTER)


def _with_attack(cell: TableCell, attack: str) -> TableCell:
    if isinstance(cell, str):
        return cell
    return replace(cell, aside=f"{cell.aside} {attack}".strip())


def _about(setting: GridSetting, honest: Iterable[TableCell]) -> str:
    sizes = sorted({len(values) for values in _all_cells(setting)})
    if sizes == [1]:
        runs = "of one run"
    else:
        runs = "mean over " + (f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}")
        runs += " runs"
    parts = [f"Final nDCG@10, {runs}."]
    if setting.reference:
        parts.append(f"{CHANGE}.")
    else:
        parts.append(f"No change is shown, because {PLAIN_RULE} has no run without an attack.")
    parts.append("The best rule of each column is bold.")
    spread = [
        mean_and_sd(np.array(list(values.values())))[1]
        for values in _all_cells(setting)
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


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers[:-1]) + f" or {numbers[-1]:g}"
