"""Where the numbers of a report come from: versions, machines, data, conventions, and the command
that makes a run again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from foltr.core.metrics import GAMMA
from foltr.core.spec import opened
from foltr.core.system.tables import count
from foltr.report.measures import empty_rule
from foltr.report.results import Recorded, Runs
from foltr.report.study import Study
from foltr.simulation.runs.identity import COMPILED, ENGINE, PLAIN, described, kinds, recorded

COMMAND = "foltr run"
SHOWN = 12  # more values of a kind than that are counted, not named
LISTED = 30  # the same for folds, seeds and the like
CONVENTIONS = (
    (
        "nDCG@10: gain 2^r - 1, discount 1 / log2(rank + 1), ideal over all documents of the"
        " query. Ties are broken at random."
    ),
    (
        f"Online performance: sum over rounds t of {GAMMA}^(t - 1) x mean nDCG@10 of the lists"
        " shown in round t, where a query without a relevant document counts 0."
    ),
)
Row = tuple[str, tuple[str, ...]]  # a label and one or more lines


def provenance(study: Study, made: datetime) -> list[Row]:
    from foltr import __version__

    runs = study.runs
    time = f"{made:%Y-%m-%d %H:%M} {made.tzname() or ''}".strip()
    rows = [
        ("page made", (f"{time}, by foltr {__version__}",)),
        ("runs", (runs_counted(runs), f"only runs with {runs.selection}" * bool(runs.selection))),
        ("runs made by", _tally(runs, _version)),
        ("machine", _tally(runs, _machine)),
        ("Python", _tally(runs, _packages)),
        ("compiled code", (*_tally(runs, code_of), mixed_code(runs))),
        ("engine", _tally(runs, lambda run: str(run.final.get("engine", "unknown")))),
        ("data", _tally(runs, lambda run: data_source(run, study.paired_by))),
        ("held-out queries", (_held_out(runs),)),
        ("equal in all runs", (_common_fields(study),)),
        ("repetitions", (_repetitions(study),)),
        ("conventions", (*_tally(runs, _empty_queries), *CONVENTIONS)),
    ]
    return [(label, tuple(line for line in lines if line)) for label, lines in rows if any(lines)]


def runs_counted(runs: Runs) -> str:
    """ "298 runs of 300 planned, 1 unfinished, 1 skipped" """
    of = "finished" if runs.planned is None else f"of {runs.planned:,} planned"
    others = ((runs.unfinished, "unfinished"), (runs.skipped, "skipped"))
    parts = [f"{len(group):,} {name}" for group, name in others if group]
    return ", ".join([f"{count(len(runs), 'run')} {of}", *parts])


def data_source(run: Recorded, without: Iterable[str]) -> str:
    """The spec of the data, without some fields: those in which repetitions differ (the fold)."""
    return _spec(run, lambda name: name not in without)


def data_name(run: Recorded, study: Study) -> str:
    """The name of the data, with the fields that could distinguish repetitions and have one value
    in all runs: "MQ2008(fold=1)"."""
    constant = [name for name in study.pairs if name not in study.paired_by]
    # that made data have the seed 0, as by default, says nothing
    return _spec(run, lambda name: name in constant and run.fields.get(name) != 0)


def _spec(run: Recorded, is_shown: Callable[[str], bool]) -> str:
    source = opened(run.config.get("data"))
    fields = [
        f"{name}={value!r}" for name, value in source.fields.items() if is_shown(f"data.{name}")
    ]
    return f"{source.name}({', '.join(fields)})" if fields else source.name


def _tally(runs: Iterable[Recorded], text: Callable[[Recorded], str]) -> tuple[str, ...]:
    """Each value, with the number of its runs unless all runs have it."""
    counts = Counter(text(run) for run in runs).most_common()
    if len(counts) == 1:
        return (counts[0][0],)
    lines = [f"{value} ({count(n, 'run')})" for value, n in counts[:SHOWN]]
    return (*lines, *([f"and {len(counts) - SHOWN:,} others"] if len(counts) > SHOWN else []))


def _version(run: Recorded) -> str:
    version, commit = run.environment.get("foltr", "of an unknown version"), ""
    if recorded := run.environment.get("commit"):
        changed = ", with changes" if str(recorded).endswith("+") else ""
        commit = f", commit {str(recorded)[:12].rstrip('+')}{changed}"
    return f"foltr {version}{commit}"


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
    names = packages if isinstance(packages, dict) else {}
    versions = [f"{name} {version}" for name, version in names.items()]
    return ", ".join([str(run.environment.get("python", "unknown")), *versions])


def _code(run: Recorded) -> dict[str, str] | None:
    """The compiled code that made a run; None for a baseline, and for the plain engine."""
    if COMPILED not in run.environment and (
        run.config.get("baseline") or run.final.get(ENGINE) == PLAIN
    ):
        return None  # an earlier foltr did not say so
    return recorded(run.environment)


def code_of(run: Recorded) -> str:
    """ "numba 0.61.2, llvmlite 0.44.0, CPU znver4"; "none" for a run without compiled code."""
    return described(_code(run))


def mixed_code(runs: Runs) -> str:
    """A sentence for a study whose runs were made by different compiled code; else empty."""
    codes: list[dict[str, Any]] = [{COMPILED: _code(run)} for run in runs]
    found = [described(code) for code in kinds(codes)]
    engines = {run.final.get(ENGINE) == PLAIN for run in runs if not run.config.get("baseline")}
    if len(engines) > 1:
        found.append(f"the {PLAIN} engine")
    if len(found) < 2:
        return ""
    names = found if len(set(found)) == len(found) else [f"{len(found)} kinds of CPU or settings"]
    return (
        f"Made by different code ({'; '.join(names[:SHOWN])}): equal experiments may differ"
        " between them in their last bits, and in what follows from them."
    )


def _held_out(runs: Runs) -> str:
    found = [
        [int(run.final.get(name) or 0) for run in runs] for name in ("queries", "empty_queries")
    ]
    whole, empty = (
        f"{min(n):,}" if min(n) == max(n) else f"{min(n):,} to {max(n):,}" for n in found
    )
    return f"{whole} in a run; {empty} of them without a relevant document"


def _empty_queries(run: Recorded) -> str:
    return f"Offline, queries without a relevant document {empty_rule(run)}."


def _common_fields(study: Study) -> str:
    """The fields of the experiment that are equal in all runs. Of a component that differs, its
    own fields that are equal: "learner=PDGD, learner.sessions=5"."""
    runs = list(study.runs)
    configs, tables = [run.config for run in runs], [run.fields for run in runs]
    parts = []
    for name, value in configs[0].items():
        if _is_equal(configs, name):
            parts.append(f"{name}={value}")
        elif len({opened(config.get(name)).name for config in configs}) == 1:
            parts.append(f"{name}={opened(value).name}")
            inner = [field for field in tables[0] if field.startswith(f"{name}.")]
            same = [field for field in inner if field.count(".") == 1 and _is_equal(tables, field)]
            parts += [f"{field}={tables[0][field]!r}" for field in same]
    return ", ".join(parts)


def _is_equal(tables: list[dict[str, Any]], name: str) -> bool:
    return len({repr(table.get(name)) for table in tables}) == 1


def _repetitions(study: Study) -> str:
    values: dict[str, set[Any]] = {name: set() for name in study.paired_by}
    for run in study.runs:
        for name in values:
            values[name].add(run.fields.get(name))
    return "; ".join(f"{name}: {_listed(found)}" for name, found in values.items())


def _listed(values: set[Any]) -> str:
    """Numbers by size, then everything else as text."""

    def order(value: Any) -> tuple[bool, float, str]:
        is_number = isinstance(value, int | float)
        return not is_number, value if is_number else 0, str(value)

    ordered = sorted(values, key=order)
    shown = ", ".join(str(value) for value in ordered[:LISTED])
    more = len(ordered) - LISTED
    return shown + (f" and {more:,} more" if more > 0 else "")


def command(run: Recorded) -> str:
    """The command that makes a run again, with every field given."""
    return " ".join([COMMAND, *(f"{name} {value}" for name, value in options(run).items())])


def options(run: Recorded) -> dict[str, str]:
    """Options and their values, quoted for a shell: {"--data": "'Synthetic(queries=60)'",
    "--seed": "1", ...}."""
    found = {}
    for name, value in run.config.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found[f"--{name.replace('_', '-')}"] = quoted(text)
    if run.use:
        found["--use"] = " --use ".join(map(quoted, run.use))
    if run.final.get("engine", "local") != "local":  # the default
        found["--engine"] = quoted(str(run.final["engine"]))
    return found


def quoted(text: str) -> str:
    """A text as one word of a shell. Specs hold single quotes, so double quotes are used where
    they are safe: they are easier to read."""
    if "'" in text and not set(text) & set('"$`\\!\n'):
        return f'"{text}"'
    return shlex.quote(text)
