"""One experiment as a run: found finished, or made, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.metrics import DEPTH, online_performance
from foltr.runs.account import ledger_of
from foltr.runs.baseline import level
from foltr.runs.config import written
from foltr.runs.folder import RESULTS, Folder, Metrics
from foltr.runs.identity import folder_name, identity, revisions
from foltr.runs.interruptions import Interruptions
from foltr.runs.lock import Claim
from foltr.runs.preflight import notes_of, people_of
from foltr.runs.result import Progress, Result, known
from foltr.runs.train import learn
from foltr.runs.unlearn import forget, took_part
from foltr.runs.user_files import sources_behind
from foltr.simulation.departures import base_of
from foltr.simulation.evaluation import Evaluator
from foltr.system.environment import environment
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset
from foltr.world.history import History


class Run:
    def __init__(
        self,
        experiment: Experiment,
        out: str | Path | None,
        threads: int,
        engine: str = "local",
        watch: Callable[[Progress], None] = lambda progress: None,
        per_query: bool = False,
        wait: bool = True,  # for another process that makes the same run; else raise `claim.Busy`
        stop: Callable[[], bool] | None = None,  # asked every second, by a sweep
        # where a run that clients leave may lie finished, if not in `out`
        known: Path | None = None,
    ) -> None:
        self.experiment, self.engine_name, self.watch = experiment, engine, watch
        self.per_query, self.wait, self.stop, self.out, self.known = (
            per_query,
            wait,
            stop,
            out,
            known,
        )
        # what devices stored, where it was made by this process
        self.history: History | None = None
        e = experiment
        self.train, self.test = e.data.load("train"), e.data.load("test")
        self.population = people_of(e, self.train, self.test)
        self.identity = identity(e, self.train, self.test)
        if out is not None and (
            unknown := [name for name, content in sources_behind(e).items() if content is None]
        ):
            lost = (
                "is in no file, so that its runs could not be told from those of another version"
                " of it"
            )
            raise Mistake(
                f"{unknown[0]} {lost}: write it to a file for foltr.use, or run without out"
            )
        self.folder = None if out is None else Folder(Path(out) / folder_name(e, self.identity))
        self.threads = Threads(threads)
        self.notes = notes_of(e, self.train, self.test)

    def result(self) -> Result:
        if self.folder is not None and (found := self._found()):
            return found
        if self.experiment.unlearning is not None:
            self.base  # noqa: B018  # first, under a claim of its own
        if self.folder is None:
            return self._made(None)
        self.folder.create()
        with Claim(self.folder.path).held(self.wait, self.stop) as claim:
            return self._found() or self._made(claim)  # who held it before us may have finished it

    @cached_property
    def base(self) -> tuple[Run, Result]:
        """The run that clients leave, where they are unlearned, and what came of it: found or
        made."""
        e = base_of(self.experiment)
        took_part(self.experiment)
        options = (
            self.threads.number,
            self.engine_name,
            self.watch,
            False,
            self.wait,
            self.stop,
            self.known,
        )
        run = Run(e, self.out if self.known is None else self.known, *options)
        if self.known is not None and run.folder is not None and run.folder.finished() is None:
            run = Run(e, self.out, *options)
        return run, run.result()

    def _found(self) -> Result | None:
        """The finished run of the folder, with its queries if they are asked for."""
        assert self.folder is not None
        done = self.folder.finished()
        if done is None:
            return None
        if self.per_query and not self.folder.queries():
            with self.threads.running():
                self.keep_queries(done[0])
        params, metrics, final = done
        # as it is promised now: an earlier ledger may have said more than holds
        if "privacy" in final:
            final["privacy"] = ledger_of(self.experiment, self.train.width).plain()
        return Result(
            self.experiment, params, metrics, final, self.folder.path, self.train.width, found=True
        )

    def _made(self, claim: Claim | None) -> Result:
        with self.threads.running():
            if self.experiment.baseline is not None:
                return level(self, self.experiment.baseline)
            with Interruptions(self.folder, self.stop) as interruptions:
                make = learn if self.experiment.unlearning is None else forget
                return make(self, interruptions, claim)

    def finished(self, params: Array, metrics: Metrics, final: dict[str, Any]) -> Result:
        if self.folder is not None:
            self.folder.finish(params, metrics, final)
        return Result(
            self.experiment,
            params,
            metrics,
            final,
            self.folder.path if self.folder else None,
            self.train.width,
        )

    def keep_queries(self, params: Array) -> None:
        e = self.experiment
        if e.baseline is not None:
            raise Mistake(
                f"{self.folder and self.folder.path} has no results per query: delete it to make"
                " it again"
            )
        self.keep(self.evaluator().per_query(params.astype(np.float32)))

    def keep(self, values: Array) -> None:
        assert self.folder is not None
        names = [name.decode(errors="replace") for name in self.test.query_ids.tolist()]
        self.folder.keep_queries(names, self.evaluator().measures, values)

    def about(self) -> dict[str, str]:
        about = {
            "identity": self.identity,
            "results": RESULTS,
            "data": {"train": self.train.content, "test": self.test.content},
            "files": sources_behind(self.experiment),
            "revisions": revisions(self.experiment),
            **environment(),
        }
        return {
            "config.toml": written(self.experiment),
            "environment.json": json.dumps(about, indent=1) + "\n",
        }

    def evaluator(self, data: Dataset | None = None) -> Evaluator:
        e, p, tables = self.experiment, self.population, self.population.tables(DEPTH)
        models = p.models[: p.clients]
        shares = np.bincount(models.ravel(), minlength=len(p.click_models)) / models.size
        clicks = () if tables is None else tuple(zip(shares.tolist(), tables[0], strict=True))
        return Evaluator(
            e.ranker,
            data or self.test,
            clicks,
            e.empty,
            e.seed,
            self.threads,
            self.engine_name == "debug",
        )

    def final(
        self, metrics: Metrics, seconds: tuple[float, float], notes: tuple[str, ...]
    ) -> dict[str, Any]:
        last = {name: values[-1] for name, values in metrics.offline.items()}
        nothing, held_out = [float("nan")], self.test  # a baseline's users never searched
        online, max_rr = (metrics.online[name] or nothing for name in ("online_ndcg@10", "maxrr"))
        relevant = np.add.reduceat((held_out.labels > 0).any(axis=0), held_out.offsets[:-1])
        measures = {
            **last,
            "online": online_performance(np.array(online)),
            "online_ndcg@10": online[-1],
            "maxrr": max_rr[-1],
        }
        return {
            **{name: known(value) for name, value in measures.items()},
            "interactions": int(sum(metrics.online["interactions"])),
            "rounds": len(metrics.online["interactions"]),
            "queries": held_out.queries,
            "empty_queries": int((relevant == 0).sum()),
            "empty": self.experiment.empty,
            "engine": self.engine_name,
            "seconds": round(seconds[0], 3),
            "kernel_seconds": round(seconds[1], 3),
            "notes": list(notes),
        }
