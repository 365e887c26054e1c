"""What the numbers of a page were made of and how they count: versions, machines, data,
conventions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from foltr.metrics import GAMMA
from foltr.report.measures import empty_rule
from foltr.report.study import Study
from foltr.results import Recorded, Runs
from foltr.spec import opened

SHOWN = 12  # values of a kind that are named; the others are counted
Row = tuple[str, tuple[str, ...]]


def provenance(study: Study, made: datetime) -> list[Row]:
    """Label -> one or more lines."""
    from foltr import __version__

    runs = study.runs
    rows = [
        (
            "page made",
            (
                f"{made:%Y-%m-%d %H:%M} {made.tzname() or ''}".strip()
                + f", by foltr {__version__}",
            ),
        ),
        ("runs", (counted(runs), f"chosen: {runs.selection}" if runs.selection else "")),
        ("made by", _tally(runs, _maker)),
        ("machine", _tally(runs, _machine)),
        ("Python", _tally(runs, _packages)),
        ("engine", _tally(runs, lambda run: str(run.final.get("engine", "unknown")))),
        ("data", _tally(runs, lambda run: source(run, study.pairs))),
        ("held-out queries", (_held_out(runs),)),
        ("the same in all", (_common(study),)),
        ("repetitions", (_repetitions(study),)),
        ("conventions", (*_tally(runs, _queries), *CONVENTIONS)),
    ]
    return [(label, tuple(line for line in lines if line)) for label, lines in rows if any(lines)]


CONVENTIONS = (
    (
        "nDCG@10: gain 2^r - 1, discount 1 / log2(rank + 1), its ideal over all documents of the"
        " query. Ties are broken at random."
    ),
    (
        f"Online performance: sum over rounds t of {GAMMA}^(t - 1) x mean nDCG@10 of the lists"
        " shown in round t, where a query without a relevant document counts 0."
    ),
)


def counted(runs: Runs) -> str:
    """ "298 runs of 300 planned, 1 unfinished, 1 skipped" """
    told = [
        f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'} "
        + ("finished" if runs.planned is None else f"of {runs.planned:,} planned")
    ]
    apart = ((runs.unfinished, "unfinished"), (runs.skipped, "skipped"))
    return ", ".join([*told, *(f"{len(group):,} {name}" for group, name in apart if group)])


def _tally(runs: Iterable[Recorded], told: Callable[[Recorded], str]) -> tuple[str, ...]:
    """Each value, with the number of its runs unless all have it."""
    counts = Counter(told(run) for run in runs).most_common()
    if len(counts) == 1:
        return (counts[0][0],)
    lines = [f"{value} ({n:,} {'run' if n == 1 else 'runs'})" for value, n in counts[:SHOWN]]
    return (*lines, *([f"and {len(counts) - SHOWN:,} others"] if len(counts) > SHOWN else []))


def _maker(run: Recorded) -> str:
    commit = run.environment.get("commit")
    changed = ", with changes" if str(commit).endswith("+") else ""
    return f"foltr {run.environment.get('foltr', 'of an unknown version')}" + (
        f", commit {str(commit)[:12].rstrip('+')}{changed}" if commit else ""
    )


def _machine(run: Recorded) -> str:
    cores = run.environment.get("cores")
    parts = [
        run.environment.get("processor"),
        f"{cores} cores" if cores else None,
        run.environment.get("system"),
    ]
    return ", ".join(str(part) for part in parts if part)


def _packages(run: Recorded) -> str:
    packages = run.environment.get("packages")
    versions = (
        [f"{name} {version}" for name, version in packages.items()]
        if isinstance(packages, dict)
        else []
    )
    return ", ".join([str(run.environment.get("python", "unknown")), *versions])


def source(run: Recorded, pairs: tuple[str, ...]) -> str:
    """The source without what only tells repetitions apart (its fold)."""
    source = opened(run.config.get("data"))
    fields = [
        f"{name}={value!r}" for name, value in source.fields.items() if f"data.{name}" not in pairs
    ]
    return f"{source.name}({', '.join(fields)})" if fields else source.name


def _held_out(runs: Runs) -> str:
    found = [
        [int(run.final.get(name) or 0) for run in runs] for name in ("queries", "empty_queries")
    ]
    whole, empty = (
        f"{min(n):,}" if min(n) == max(n) else f"{min(n):,} to {max(n):,}" for n in found
    )
    return f"{whole} in a run; {empty} of them without a relevant document"


def _queries(run: Recorded) -> str:
    """How queries without a relevant document count."""
    return f"Offline, queries without a relevant document {empty_rule(run)}."


def _common(study: Study) -> str:
    """The fields of the experiment that no run differs in."""
    configs = [run.config for run in study.runs]
    same = [
        name for name in configs[0] if len({repr(config.get(name)) for config in configs}) == 1
    ]
    return ", ".join(f"{name}={configs[0][name]}" for name in same)


def _repetitions(study: Study) -> str:
    values: dict[str, set[Any]] = {name: set() for name in study.paired_by}
    for run in study.runs:
        for name in values:
            values[name].add(run.fields.get(name))
    return "; ".join(f"{name}: {_listed(found)}" for name, found in values.items())


def _listed(values: set[Any]) -> str:
    ordered = sorted(
        values,
        key=lambda value: (
            not isinstance(value, int | float),
            value if isinstance(value, int | float) else 0,
            str(value),
        ),
    )
    shown = ", ".join(str(value) for value in ordered[:30])
    return shown + (f" and {len(ordered) - 30:,} more" if len(ordered) > 30 else "")
