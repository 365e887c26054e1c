"""What it takes to make one run: the experiment with its data and clients, folder and threads, and
how its ranker is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.metrics import DEPTH, online_performance
from foltr.core.system.process import Threads, environment
from foltr.core.world.dataset import Dataset
from foltr.core.world.history import History
from foltr.core.world.measures import Measure
from foltr.core.world.population import Population
from foltr.experiment import Experiment
from foltr.experiment.user_files import code_of, sources_behind
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.columns import CODES, MEASURES, VALIDATION, Metrics, late_or_sum
from foltr.simulation.runs.config import written
from foltr.simulation.runs.execution import MakeEngine
from foltr.simulation.runs.folder import CONFIG, ENVIRONMENT, RESULTS, Folder
from foltr.simulation.runs.identity import made_with, revisions
from foltr.simulation.runs.result import Progress, Result, known
from foltr.simulation.runs.trained import about_features


def evaluated(
    evaluators: Mapping[str, Evaluator], scores: Callable[[Evaluator], Array]
) -> dict[str, float]:
    """What each of `Context.evaluators` measures of these scores of its documents, by the names of
    the columns."""
    return {
        place + name: value
        for place, evaluator in evaluators.items()
        for name, value in evaluator.means(scores(evaluator)).items()
    }


def by_params(params: Array) -> Callable[[Evaluator], Array]:
    """The scores of the experiment's ranker with these parameters, for `evaluated`."""
    return lambda evaluator: evaluator.scores(params)


@dataclass(frozen=True)
class Context:
    """All that a run is made of."""

    experiment: Experiment
    train: Dataset
    test: Dataset
    validation: Dataset | None  # measured beside the test queries
    population: Population
    identity: str
    folder: Folder | None
    threads: Threads
    engine: MakeEngine
    watch: Callable[[Progress], None]
    per_query: bool
    notes: tuple[str, ...]
    measures: tuple[Measure, ...] = ()  # recorded besides the usual columns

    def evaluator(self, data: Dataset | None = None) -> Evaluator:
        """Measures rankers on the test queries, or on other data."""
        e, p, tables = self.experiment, self.population, self.population.tables(DEPTH)
        models = p.models[: p.clients]
        shares = np.bincount(models.ravel(), minlength=len(p.click_models)) / models.size
        clicks = () if tables is None else tuple(zip(shares.tolist(), tables[0], strict=True))
        asked = data or self.test, clicks, e.empty, e.seed, self.threads
        return Evaluator(e.ranker, *asked, more=self.measured("offline"))

    def evaluators(self) -> dict[str, Evaluator]:
        """What the ranker is measured on while it learns, by the beginning of the columns' names:
        the test queries, and the validation queries if the experiment says so."""
        found = {"": self.evaluator()}
        if self.validation is not None:
            found[VALIDATION] = self.evaluator(self.validation)
        return found

    def measured(self, kind: Literal["offline", "online", "run"]) -> tuple[Measure, ...]:
        """The measures of a kind that were asked for."""
        return tuple(each for each in self.measures if each.kind == kind)

    def history(self, every: int, rounds: int, n: int, d: int) -> History:
        """A history of n messages of d numbers in every stored round; in the run's folder, if it
        has one."""
        if self.folder is None:
            return History.of(None, every, rounds, n, d)
        begun = self.folder.has_checkpoint
        return History.of(self.folder.path, every, rounds, n, d, begun)

    @property
    def made_with(self) -> dict[str, Any]:
        """Which code makes this run here."""
        return made_with(self.experiment, self.engine.name)

    def files(self) -> dict[str, str]:
        """The files that a run's folder begins with: its config, and what it is made on."""
        about = {
            "identity": self.identity,
            "results": RESULTS,
            "data": {
                "train": self.train.content,
                "test": self.test.content,
                **({} if self.validation is None else {"validation": self.validation.content}),
            },
            "features": {
                "number": self.train.width,
                **about_features(self.train.names, self.train.normalisation),
            },
            "files": sources_behind(self.experiment),
            "revisions": revisions(self.experiment),
            **self.made_with,
            **environment(),
        }
        return {CONFIG: written(self.experiment), ENVIRONMENT: json.dumps(about, indent=1) + "\n"}

    def keep_queries(self, params: Array) -> None:
        """Store the ranker's measures on each test query."""
        if self.experiment.baseline is not None:
            where = self.folder and self.folder.path
            raise Mistake(f"{where} has no results per query: delete it to make it again")
        self.keep(self.evaluator().per_query(params.astype(np.float32)))

    def keep(self, values: Array) -> None:
        assert self.folder is not None
        names = [name.decode(errors="replace") for name in self.test.query_ids.tolist()]
        self.folder.keep_queries(names, self.evaluator().measures, values)

    def final(
        self, metrics: Metrics, seconds: tuple[float, float], notes: tuple[str, ...]
    ) -> dict[str, Any]:
        """The numbers of result.json that every run has."""
        last = {name: values[-1] for name, values in metrics.offline.items()}
        nothing, held_out = [float("nan")], self.test  # a baseline has no searches
        online, max_rr = (metrics.online[name] or nothing for name in ("online_ndcg@10", "maxrr"))
        relevant = np.add.reduceat((held_out.labels > 0).any(axis=0), held_out.offsets[:-1])
        measures = {
            **last,
            "online": online_performance(np.array(online)),
            "online_ndcg@10": online[-1],
            "maxrr": max_rr[-1],
        }
        for each in self.measured("online"):
            values = np.array(metrics.online.get(each.name, []))  # a baseline has no rounds
            measures[each.name] = late_or_sum(each, values)
        asked = {MEASURES: {m.name: repr(m) for m in self.measures}} if self.measures else {}
        if codes := {m.name: code for m in self.measures if (code := code_of(m))}:
            asked[CODES] = codes
        return {
            **{name: known(value) for name, value in measures.items()},
            **asked,
            "interactions": int(sum(metrics.online["interactions"])),
            "rounds": len(metrics.online["interactions"]),
            "queries": held_out.queries,
            "empty_queries": int((relevant == 0).sum()),
            "empty": self.experiment.empty,
            "engine": self.engine.name,
            "seconds": round(seconds[0], 3),
            "kernel_seconds": round(seconds[1], 3),
            "notes": list(notes),
        }

    def finished(self, params: Array, metrics: Metrics, final: dict[str, Any]) -> Result:
        if self.folder is not None:
            self.folder.finish(params, metrics, final)
        path, data = self.folder.path if self.folder else None, self.train
        about = data.names, data.normalisation
        return Result(self.experiment, params, metrics, final, path, data.width, False, *about)
