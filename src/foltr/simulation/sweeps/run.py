"""Execution of a sweep: plans its runs, lets workers make those that are not finished, and
survives failures of runs and workers."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from foltr.core.errors import Mistake, explained
from foltr.core.seeds import stream
from foltr.core.spec import brief
from foltr.core.system.files import given_path, write_whole, writing
from foltr.core.system.lock import FILE as CLAIM
from foltr.core.world.dataset import Dataset
from foltr.core.world.measures import Measure
from foltr.experiment import Experiment
from foltr.experiment.user_files import check_in_files, code_of, files_behind
from foltr.simulation.runs.columns import CODES, parse_measures
from foltr.simulation.runs.execution import USUAL, RunOptions, check_engine
from foltr.simulation.runs.folder import Folder
from foltr.simulation.runs.identity import difference, folder_name, identity, made_with
from foltr.simulation.runs.interruptions import Stopped, on_signals, print_in_handler
from foltr.simulation.runs.setup import validation_of
from foltr.simulation.runs.sinks.log import checked_logs
from foltr.simulation.sweeps.estimate import Part, kind_of, work_of
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.pools import BROKEN, Pool, in_pool, installed
from foltr.simulation.sweeps.state import SWEEP, Overview, Planned, Record, SweepState
from foltr.simulation.sweeps.workers import TOUCH_SECONDS, Lease, Outcome, Task

VAIN = 3  # passes in which every worker stopped; one may happen if the machine slept
DIED = "its worker process died (killed, or out of memory)"


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep. Points whose data cannot be read are `unplanned`, with the reason."""

    record: Record
    experiments: dict[str, Experiment]  # by run
    unplanned: dict[Experiment, tuple[str, str]]  # label, reason
    bytes: int  # on disk, of the runs that are not finished


@dataclass
class Swept:
    """The outcome of a sweep."""

    record: Record
    made: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # run, or label if unplanned -> error
    damaged: dict[str, str] = field(default_factory=dict)  # run -> damage, not made again
    healed: dict[str, str] = field(default_factory=dict)  # run -> damage, made again
    waiting: int = 0  # not made, because the sweep was stopped
    signum: int = 0  # by this signal
    full: str = ""  # the system's error, if the disk is full
    kernel_seconds: float = 0.0  # of all workers
    # of the runs that were found, how many other code made, by what differs
    other_code: dict[str, int] = field(default_factory=dict)
    # measures of every round that were asked for -> in how many finished runs they are unknown
    not_recorded: dict[str, int] = field(default_factory=dict)


def plan(points: Sequence[Point], out: Path, name: str, title: str) -> Plan:
    """Name every run by its identity. Each data set is read once."""
    loaded: dict[Any, tuple[Dataset, Dataset, Dataset | None] | str] = {}
    runs, experiments, unplanned, size = [], {}, {}, 0
    for point in points:
        e = point.experiment
        key = e.data, e.evaluate_on
        if key not in loaded:
            try:
                train = e.data.load("train")
                loaded[key] = train, e.data.load("test"), validation_of(e, train)
            except (Mistake, OSError, MemoryError) as error:
                loaded[key] = explained(error)
        data = loaded[key]
        if isinstance(data, str):
            label = point.label or f"{brief(e.data)}, {brief(e.learner)}, seed {e.seed}"
            unplanned[e] = label, data
            continue
        run = folder_name(e, identity(e, *data))
        runs.append(Planned(run, point.method, work_of(e), kind_of(e), point.sets, point.label))
        experiments[run] = e
        size += 0 if Folder(out / run).is_finished else _bytes(e, data[0].width)
    return Plan(Record(out / f"{name}{SWEEP}", title, tuple(runs)), experiments, unplanned, size)


def _bytes(e: Experiment, features: int) -> int:
    """Roughly the size of a finished run on disk, or of its checkpoint."""
    parameters = len(e.ranker.init(features, stream(e.seed, "init")))
    stored = 0
    if e.history is not None:
        stored = -(-e.rounds // e.history) * e.cohort * 4 * (parameters + 1)
    return 16_000 + 8 * parameters + 90 * e.rounds + stored


def sweep(
    points: Sequence[Point],
    out: str | Path,
    name: str,
    title: str = "",
    options: RunOptions = USUAL,
    pool: Pool | None = None,
    show: Callable[[SweepState], None] = lambda state: None,
    part: Part | None = None,
) -> Swept:
    """Make all runs that are not finished, or those of a `part` of the points; the record names
    all of them. `show` is called twice a second. Tools that log runs log also finished ones."""
    measures, logs = parse_measures(options.measures), checked_logs(options.log)
    engine = str(options.engine)
    check_engine(engine)
    out, pool = given_path(out).resolve(), pool or Pool()
    installed(pool)
    apart = pool.dask is not None or pool.apart or pool.jobs > 1
    everything = [point.experiment for point in points]
    for each in (*dict.fromkeys(everything), measures):
        check_in_files(each, apart)
    planned = plan(points, out, name, title or name)
    mine = set(everything if part is None else part.chosen(everything))
    _enough_disk(planned, out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    write_whole(planned.record.path, planned.record.written())
    runs = {run: e for run, e in planned.experiments.items() if e in mine}
    done = {run: _finished(Folder(out / run), options.per_query, measures) for run in runs}
    found = {run: final for run, final in done.items() if final is not None}
    seconds = {run: float(final["seconds"]) for run, final in found.items()}
    overview = Overview(planned.record, pool.jobs, seconds)
    unplanned = [labelled for e, labelled in planned.unplanned.items() if e in mine]
    swept = Swept(planned.record, failed=dict(unplanned))
    if logs:  # workers find and log finished runs
        found = {}
    swept.found = list(found)
    for each in (measure.name for measure in measures if measure.kind == "online"):
        if lacking := sum(each not in final for final in found.values()):
            swept.not_recorded[each] = lacking
    for run in found:
        here = made_with(runs[run], engine)
        if different := difference(Folder(out / run).environment(), here):
            swept.other_code[different] = swept.other_code.get(different, 0) + 1
    files = files_behind(measures)
    plain_options = replace(options, measures=tuple(map(repr, measures)), log=logs)
    with Lease(out, name, lambda: show(overview.look())) as lease:
        left = {
            run: Task(
                run,
                e.config(),
                use=tuple(sorted({**files_behind(e), **files})),
                out=str(out),
                lease=str(lease.path),
                pid=pool.pid,
                options=plain_options,
            )
            for run, e in runs.items()
            if run not in found
        }
        sweeping = _Sweeping(left, pool, lease, swept)
        with on_signals(sweeping.stop):
            sweeping.go()
        show(overview.look())
    return swept


def _finished(
    folder: Folder, per_query: bool, measures: Sequence[Measure]
) -> dict[str, Any] | None:
    """The final measures of a run, if it is finished and readable and has the offline ones of
    these measures, made by the same code. A damaged run goes to a worker, which makes it again."""
    try:
        final = folder.final()
        if final is None or (per_query and not folder.queries()):
            return None
        final |= folder.kept_measures()  # raises if it is damaged
    except Mistake:
        return None
    codes = final.get(CODES, {})
    for each in measures:
        is_known = each.name in final and codes.get(each.name, "") == code_of(each)
        if each.kind == "offline" and not is_known:
            return None
    return final


def _enough_disk(planned: Plan, out: Path) -> None:
    there = next(folder for folder in (out, *out.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if planned.bytes > free:
        needs, has = (f"{number / 1e6:,.1f} MB" for number in (planned.bytes, free))
        raise Mistake(
            f"the sweep needs about {needs} below {out}, where {has} are free: free some space, or"
            " choose another folder with --out"
        )


@dataclass
class _Sweeping:
    """Passes over the tasks until none is left: first all of them, then those that another process
    was making or whose worker died."""

    left: dict[str, Task]
    pool: Pool
    lease: Lease
    swept: Swept
    lost: int = 0  # tasks of this pass whose worker did not see the lease

    def go(self) -> None:
        vain = 0
        while self.left and not self.over:
            before, self.lost = len(self.left), 0
            self._pass(list(self.left.values()), self.pool)
            vain = vain + 1 if self.lost == before else 0
            if vain == VAIN and not self.over:
                raise Mistake(
                    f"no worker can see {self.lease.path.parent}, the folder of the sweep: with"
                    " --dask it must be on a file system that all machines share"
                )
            time.sleep(vain * TOUCH_SECONDS)  # a lease that somebody removed is created again
            if len(self.left) == before and not self.over:
                # other processes make all of them: each worker waits for one at a time
                self._pass([replace(task, wait=True) for task in self.left.values()], self.pool)
        self.swept.waiting = len(self.left)

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """Ctrl-C and SIGTERM revoke the lease; a later Ctrl-C ends the sweep at once. A later
        SIGTERM does not: schedulers of clusters send several."""
        if self.swept.signum:
            if signum == signal.SIGINT:
                raise Stopped("stopped at once: the same command continues", signum)
            return
        self.swept.signum = signum
        self.lease.revoke()
        print_in_handler(
            "\nfoltr: stopping after saving the running experiments (Ctrl-C again: at once)"
        )

    @property
    def over(self) -> bool:
        return bool(self.swept.signum or self.swept.full)

    def _pass(self, tasks: list[Task], pool: Pool) -> None:
        try:
            for outcome in in_pool(tasks, pool):
                self._note(outcome)
        except BROKEN as error:
            if self.over:
                return
            if len(tasks) == 1:
                self._died(tasks[0], explained(error))
                return
            # Runs that had begun when a worker died are made again, each in its own process, to
            # find the one that kills its worker. If none had begun (it died while reading data),
            # all are made so.
            left = [task for task in tasks if task.run in self.left]
            for task in [task for task in left if _begun(task)] or left:
                self._pass([task], replace(pool, jobs=1, apart=True))

    def _note(self, outcome: Outcome) -> None:
        self.swept.kernel_seconds += outcome.kernel_seconds
        if outcome.healed:
            self.swept.healed[outcome.run] = outcome.healed
        if outcome.kind in ("made", "found"):
            getattr(self.swept, outcome.kind).append(outcome.run)
        elif outcome.kind in ("failed", "damaged"):
            getattr(self.swept, outcome.kind)[outcome.run] = outcome.error
        elif outcome.kind == "full":
            self.swept.full = outcome.error
            self.lease.revoke()
        else:  # busy or stopped
            self.lost += outcome.kind == "stopped"
        if outcome.kind in ("made", "found", "failed", "damaged"):
            del self.left[outcome.run]

    def _died(self, task: Task, error: str) -> None:
        Folder(Path(task.out) / task.run).fail(DIED, error)
        self.swept.failed[task.run] = DIED
        del self.left[task.run]


def _begun(task: Task) -> bool:
    return (Path(task.out) / task.run / CLAIM).exists()
