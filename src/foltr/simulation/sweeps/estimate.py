"""How much a sweep has to do, how long that will take, by the finished runs of a folder, and how
it is divided into parts of equal work."""

from __future__ import annotations

import heapq
import json
import re
import tomllib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

from foltr.core.errors import Mistake, require
from foltr.core.spec import brief, opened
from foltr.core.system.files import text_of
from foltr.core.system.process import environment
from foltr.experiment import Experiment
from foltr.experiment.user_files import sources_behind
from foltr.simulation.runs.folder import CONFIG, ENVIRONMENT, RESULTS, UNREADABLE, Folder
from foltr.simulation.runs.identity import folders_with_runs, revisions

REPETITIONS = ("fold", "seed")  # fields of data that do not change the time of a run


def work_of(e: Experiment) -> float:
    """The interactions of a run."""
    return float(e.cohort * e.sessions * e.rounds)


def kind_of(e: Experiment) -> str:
    """Runs of one kind take about the same time per interaction."""
    parts = (e.learner, e.aggregator, e.optimizer, e.unlearning, e.baseline)
    names = (type(part).__name__ for part in parts if part is not None)
    return " ".join([brief(e.data), brief(e.ranker), *names])


class Made(NamedTuple):
    """A finished run."""

    experiment: Experiment
    seconds: float
    processor: str
    engine: str
    current: bool  # whether this foltr, with the same files of the user, would make it so


def finished_in(out: Path) -> list[Made]:
    """The finished runs of a folder whose components are known here."""
    found = []
    for folder in folders_with_runs(out):
        try:
            final = Folder(folder).final()
            if final is None:
                continue
            maker = dict(json.loads(text_of(folder / ENVIRONMENT)))
            config = tomllib.loads(text_of(folder / CONFIG))
            config.pop("use", None)
            e = Experiment(**config)
            current = (
                maker.get("results") == RESULTS
                and maker.get("revisions", {}) == revisions(e)
                and maker.get("files", {}) == sources_behind(e)
            )
            about = str(maker.get("processor")), str(final.get("engine"))
            found.append(Made(e, float(final["seconds"]), *about, current))
        except (Mistake, *UNREADABLE):  # damaged, or of another version: `foltr status` tells
            continue
    return found


@dataclass(frozen=True)
class Estimate:
    """Of the runs that are left to make."""

    finished: int  # runs of the sweep that are not made again
    left: int
    seconds: float | None  # with so many at a time as was asked; None if nothing is known
    unknown: int  # runs among `left` that are like no finished one
    based_on: int  # finished runs
    elsewhere: bool  # whether some of those were made by another kind of processor


def estimate(
    experiments: Sequence[Experiment], made: Iterable[Made], jobs: int, engine: str = "local"
) -> Estimate:
    """A run takes as long per interaction as finished runs that differ from it only in seed and
    fold; else as those of its kind; the median counts, because some compiled kernels first. Runs
    made by this kind of processor are preferred."""
    made = list(made)
    done = {each.experiment for each in made if each.current}
    left = [e for e in experiments if e not in done]
    still = set(left)
    needed = [*_first(left, done | still), *left]
    here = environment()["processor"]
    # finished runs that are like each other: first by their processor, then the others
    tables: tuple[dict[Hashable, list[Made]], ...] = ({}, {})
    for each in made:
        if each.engine == engine:
            for key in (_alike(each.experiment), kind_of(each.experiment)):
                tables[each.processor != here].setdefault(key, []).append(each)
    used: set[Experiment] = set()
    times, unknown, elsewhere = [], 0, False
    for e in needed:
        keys = _alike(e), kind_of(e)
        like = next((table[key] for table in tables for key in keys if key in table), None)
        if like is None:
            unknown += e in still
            continue
        elsewhere |= like[0].processor != here
        used |= {each.experiment for each in like}
        times.append(work_of(e) * median(each.seconds / work_of(each.experiment) for each in like))
    seconds = _together(times, jobs) if times else None
    finished = len(experiments) - len(left)
    return Estimate(finished, len(left), seconds, unknown, len(used), elsewhere)


def _first(left: Sequence[Experiment], known: set[Experiment]) -> list[Experiment]:
    """The runs that clients leave, where those are not `known` as finished or planned: they are
    made first."""
    found: dict[Experiment, None] = {}
    for e in left:
        while e.unlearning is not None:
            e = e.base
            if e not in known:
                found[e] = None
    return list(found)


def _alike(e: Experiment) -> Hashable:
    """Equal for experiments that differ only in seed and fold."""
    config = {name: str(value) for name, value in e.config().items() if name != "seed"}
    name, values = opened(config["data"])
    kept = {field: value for field, value in values.items() if field not in REPETITIONS}
    config["data"] = f"{name} {kept}"
    return tuple(sorted(config.items()))


def _together(times: Sequence[float], jobs: int) -> float:
    """The time of a pool: each run begins when one of `jobs` workers is free."""
    free = [0.0] * max(1, min(jobs, len(times)))
    for seconds in times:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


@dataclass(frozen=True)
class Part:
    """A share of a sweep's runs (`--part 3/10`), for one task of a job array: part `number` of
    `count` parts that have about equal work. Every experiment is in exactly one of them. Which one
    depends on the experiments only, not on runs that are finished."""

    number: int
    count: int

    def __post_init__(self) -> None:
        numbered = f"part {self.number} of {self.count}: parts are numbered 1 .. {self.count}"
        require(1 <= self.number <= self.count, numbered)

    @classmethod
    def of_text(cls, text: str) -> Self:
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        if found is None:
            raise Mistake(f"--part needs NUMBER/COUNT, such as 3/10, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def chosen(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """The experiments of this part, in their order: from the largest to the smallest, each
        goes to the part with the least work."""
        work = [work_of(e) for e in experiments]
        parts = [(0.0, 0, number) for number in range(1, self.count + 1)]
        mine = set()
        for i in sorted(range(len(work)), key=lambda i: -work[i]):
            total, members, number = parts[0]
            heapq.heapreplace(parts, (total + work[i], members + 1, number))
            if number == self.number:
                mine.add(i)
        return [experiments[i] for i in sorted(mine)]
