"""Attacks and defences on the page: what each rule costs when nobody attacks, and what it loses
when somebody does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from foltr.report.chapters.blocks import Block, Cell, Entry, a_few_at_a_time, block
from foltr.report.chapters.attack_grid import Attacked, Grid, Setting, Values, grid
from foltr.report.number_format import NONE, SHADES, shade, signed
from foltr.report.statistics import mean_and_sd
from foltr.results import Runs

CHAPTER = "Attacks and defences"
UNFOLDED = 3  # more tables than that are folded
LONG = 20  # rows; a longer summary is folded too
ROUGHLY = "≈"


@block
def attacks_and_defences(runs: Runs) -> list[Block] | None:
    """Summaries, then a table for each setting and number of malicious clients."""
    found = grid(runs)
    if found is None:
        return None
    places = [
        (setting, malicious)
        for setting in found.settings
        for malicious in sorted({attack.malicious for _, attack in setting.attacked})
    ]
    tables = [replace(_table(found, *place), folded=len(places) > UNFOLDED) for place in places]
    return [*_robustness(found), *_best_rules(found), *tables]


# ---- numbers


def mean(values: Values) -> float:
    return math.fsum(values.values()) / len(values)


def change(values: Values, reference: Values) -> float | None:
    """Mean difference from the reference over equal repetitions."""
    pairs = [pair for pair in values if pair in reference]
    return (
        math.fsum(values[pair] - reference[pair] for pair in pairs) / len(pairs) if pairs else None
    )


def worst(
    setting: Setting, rule: str, attacks: Iterable[Attacked]
) -> tuple[Attacked, Values] | None:
    """The attack under which a rule's mean is lowest."""
    found = [(attack, values) for attack in attacks if (values := setting.values(rule, attack))]
    return min(found, key=lambda each: mean(each[1])) if found else None


def _everything(setting: Setting) -> list[Values]:
    return [
        *setting.attacked.values(),
        *(values for found in setting.honest.values() for values in found.values()),
    ]


# ---- cells


def _column(setting: Setting, rules: Sequence[Values]) -> list[Entry]:
    """A cell for each rule's values; the best mean among those over equal repetitions stands
    out."""
    usual = Counter(len(values) for values in _everything(setting)).most_common(1)[0][0]
    full = max(rules, key=len, default={})
    rivals = [mean(values) for values in rules if values and values.keys() == full.keys()]
    best = max(rivals) if len(rivals) > 1 else None
    cells: list[Entry] = []
    for values in rules:
        if not values:
            cells.append(NONE)
            continue
        changed, odd = (
            change(values, setting.reference),
            f" n={len(values)}" if len(values) != usual else "",
        )
        aside = f"({signed(changed)}){odd}" if changed is not None else odd.strip()
        first = best is not None and values.keys() == full.keys() and mean(values) == best
        cells.append(Cell(f"{mean(values):.3f}", aside, best=first, shade=shade(changed)))
    return cells


def _beside(cell: Entry, more: str) -> Entry:
    return cell if isinstance(cell, str) else replace(cell, aside=f"{cell.aside} {more}".strip())


# ---- summaries


def _robustness(found: Grid) -> Iterator[Block]:
    text = (
        "Final nDCG@10 of each rule when nobody attacks, and under the attack that hurts it most;"
        " in brackets the change against Mean() when nobody attacks, over equal repetitions. A"
        f" loss of more than {_listed(SHADES)} is shaded. Of a rule that assumes a number of"
        " malicious clients the lowest honest value is shown. Rules that met fewer attacks than"
        " others say how many: they were tried less hard."
    )
    for part, settings in a_few_at_a_time(found.settings):
        columns: list[list[Entry]] = []
        for setting in settings:
            honest = [
                min(setting.honest.get(rule, {}).values(), key=mean, default={})
                for rule in found.rules
            ]
            columns += [_column(setting, honest), _worst_column(found, setting)]
        heads = [
            _under(setting, what) for setting in settings for what in ("no attack", "worst attack")
        ]
        rows = [
            row
            for row in zip(found.rules.values(), *columns, strict=True)
            if any(each != NONE for each in row[1:])
        ]
        yield Block(
            f"What rules cost and withstand{part}", text, (("rule", *heads), *rows), CHAPTER
        )


def _worst_column(found: Grid, setting: Setting) -> list[Entry]:
    met = Counter(rule for rule, _ in setting.attacked)
    lowest = [worst(setting, rule, found.attacks) for rule in found.rules]
    cells: list[Entry] = []
    for rule, each, cell in zip(
        found.rules, lowest, _column(setting, [_values(each) for each in lowest]), strict=True
    ):
        if each and isinstance(cell, Cell):
            few = f", of {met[rule]} attacks" if met[rule] < max(met.values()) else ""
            cell = replace(cell, below=f"{found.attacks[each[0]]}, m={each[0].malicious}{few}")
        cells.append(cell)
    return cells


def _values(lowest: tuple[Attacked, Values] | None) -> Values:
    return lowest[1] if lowest else {}


def _best_rules(found: Grid) -> Iterator[Block]:
    """Where a setting has several rules to choose from."""
    text = (
        "The rule with the highest final nDCG@10 under each attack, that value, and in brackets"
        " its change against Mean() when nobody attacks."
    )
    labels = list(dict.fromkeys(found.attacks.values()))
    order = sorted(
        found.attacks, key=lambda attack: (labels.index(found.attacks[attack]), attack.malicious)
    )
    for part, settings in a_few_at_a_time(found.settings):
        rows = []
        for attack in order:
            cells = [_best_rule(found, setting, attack) for setting in settings]
            if any(cell != NONE for cell in cells):
                rows.append((found.attacks[attack], str(attack.malicious), *cells))
        heads = ("attack", "malicious", *(setting.label or "best rule" for setting in settings))
        if rows:
            title = f"The best rule against each attack{part}"
            yield Block(title, text, (heads, *rows), CHAPTER, folded=len(rows) > LONG)


def _best_rule(found: Grid, setting: Setting, attack: Attacked) -> Entry:
    cells = _column(setting, [setting.values(rule, attack) for rule in found.rules])
    for label, cell in zip(found.rules.values(), cells, strict=True):
        if isinstance(cell, Cell) and cell.best:
            return Cell(label, below=f"{cell.text} {cell.aside}".strip(), shade=cell.shade)
    return NONE


# ---- one table for each setting and number of malicious clients


def _table(found: Grid, setting: Setting, malicious: int) -> Block:
    attacks = found.of(setting, malicious)
    rules = [
        rule for rule in found.rules if any(setting.values(rule, attack) for attack in attacks)
    ]
    honest = [setting.honest_for(rule, malicious) for rule in rules]
    first = _column(setting, [values for values, _ in honest])
    first = [
        cell if isinstance(cell, str) or exact else replace(cell, text=f"{ROUGHLY} {cell.text}")
        for cell, (_, exact) in zip(first, honest, strict=True)
    ]
    lowest = [worst(setting, rule, attacks) for rule in rules]
    last = _column(setting, [_values(each) for each in lowest])
    last = [
        _beside(cell, found.attacks[each[0]]) if each else cell
        for cell, each in zip(last, lowest, strict=True)
    ]
    columns = [
        first,
        *(
            _column(setting, [setting.values(rule, attack) for rule in rules])
            for attack in attacks
        ),
        last,
    ]
    heads = ("rule", "no attack", *(found.attacks[attack] for attack in attacks), "worst")
    number = f"{malicious} of {setting.clients} malicious"
    title = f"{setting.label}, {number}" if setting.label else number
    rows = list(zip((found.rules[rule] for rule in rules), *columns, strict=True))
    return Block(title, _about(setting, first), (heads, *rows), CHAPTER)


def _about(setting: Setting, honest: Iterable[Entry]) -> str:
    sizes = sorted({len(values) for values in _everything(setting)})
    runs = (
        f"mean over {sizes[0]} to {sizes[-1]} runs"
        if len(sizes) > 1
        else f"mean over {sizes[0]} runs"
    )
    runs = "of one run" if sizes == [1] else runs
    spread = [
        mean_and_sd(np.array(list(values.values())))[1]
        for values in _everything(setting)
        if len(values) > 1
    ]
    against = (
        "in brackets the change against Mean() when nobody attacks"
        if setting.reference
        else ("with nothing to compare with: Mean() has no run without an attack")
    )
    parts = [
        f"Final nDCG@10, {runs}, {against}; the best rule of each column is bold.",
        (
            f"The runs of a cell have a standard deviation of {median(spread):.4f} (median of all"
            " cells)."
            if spread
            else ""
        ),
    ]
    if any(isinstance(cell, Cell) and cell.text.startswith(ROUGHLY) for cell in honest):
        parts.append(
            f"{ROUGHLY} is of runs in which the rule assumed another number of malicious clients."
        )
    return " ".join(part for part in parts if part)


def _under(setting: Setting, what: str) -> str:
    return f"{setting.label}: {what}" if setting.label else what


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers[:-1]) + f" or {numbers[-1]:g}"
