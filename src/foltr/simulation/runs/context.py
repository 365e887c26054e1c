"""What it takes to make one run: the experiment with its data and clients, folder and threads, and
how its ranker is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
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
from foltr.experiment.user_files import check_in_files, code_of, sources_behind
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.columns import (
    CODES,
    MEASURES,
    VALIDATION,
    Metrics,
    check_labels,
    late_or_sum,
    parse_measures,
)
from foltr.simulation.runs.config import written
from foltr.simulation.runs.execution import MakeEngine, RunOptions, engine_maker
from foltr.simulation.runs.folder import CONFIG, ENVIRONMENT, RESULTS, Folder
from foltr.simulation.runs.identity import folder_name, identity, made_with, revisions
from foltr.simulation.runs.result import Progress, Result, known
from foltr.simulation.runs.setup import checked_population, notes_of, validation_of
from foltr.simulation.runs.trained import about_features

Scores = Callable[[Evaluator], Array]  # what a ranker gives to the documents of an evaluator


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

    @classmethod
    def load(
        cls,
        e: Experiment,
        out: Path | None,
        options: RunOptions,
        watch: Callable[[Progress], None],
    ) -> Context:
        """Load the data of an experiment, and check that it can be run on them."""
        measures = parse_measures(options.measures)
        train, test = e.data.load("train"), e.data.load("test")
        notes = check_labels(measures, test, "the test queries")
        validation = validation_of(e, train)
        if validation is not None:
            check_labels(measures, validation, "the validation queries")
        if every_round := [each.name for each in measures if each.kind == "online"]:
            notes += (f"rounds are made one by one, to record {', '.join(every_round)}",)
        population = checked_population(e, train, test)
        if out is not None:
            check_in_files(e)
        its_identity = identity(e, train, test, validation)
        return cls(
            experiment=e,
            train=train,
            test=test,
            validation=validation,
            population=population,
            identity=its_identity,
            folder=None if out is None else Folder(out / folder_name(e, its_identity)),
            threads=Threads(options.threads),
            engine=engine_maker(options.engine),
            watch=watch,
            per_query=options.per_query,
            notes=notes_of(e, train, test) + notes,
            measures=measures,
        )

    def evaluator(self, data: Dataset) -> Evaluator:
        """Measures rankers on these queries."""
        e, p, tables = self.experiment, self.population, self.population.tables(DEPTH)
        models = p.models[: p.clients]
        shares = np.bincount(models.ravel(), minlength=len(p.click_models)) / models.size
        return Evaluator(
            e.ranker,
            data,
            clicks=() if tables is None else tuple(zip(shares.tolist(), tables[0], strict=True)),
            empty=e.empty,
            seed=e.seed,
            threads=self.threads,
            more=self.measured("offline"),
        )

    @cached_property
    def on_test(self) -> Evaluator:
        return self.evaluator(self.test)

    @cached_property
    def on_validation(self) -> Evaluator | None:
        """The evaluator of the validation queries, if the experiment is measured on them."""
        return None if self.validation is None else self.evaluator(self.validation)

    def evaluate(self, scores: Scores) -> dict[str, float]:
        """The offline columns of a ranker: measures on the test queries, and on the validation
        queries if the experiment says so."""
        found = self.on_test.means(scores(self.on_test))
        if self.on_validation is not None:
            validated = self.on_validation.means(scores(self.on_validation))
            found |= {VALIDATION + name: value for name, value in validated.items()}
        return found

    def evaluate_params(self, params: Array) -> dict[str, float]:
        """`evaluate` the experiment's ranker with these parameters."""
        return self.evaluate(lambda evaluator: evaluator.scores(params))

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
        contents = {"train": self.train.content, "test": self.test.content}
        if self.validation is not None:
            contents["validation"] = self.validation.content
        about = {
            "identity": self.identity,
            "results": RESULTS,
            "data": contents,
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
        self.keep_query_values(self.on_test.per_query(params.astype(np.float32)))

    def keep_query_values(self, values: Array) -> None:
        assert self.folder is not None
        ids = [name.decode(errors="replace") for name in self.test.query_ids.tolist()]
        self.folder.keep_queries(ids, self.on_test.measures, values)

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

    def result(
        self, params: Array, metrics: Metrics, final: dict[str, Any], found: bool = False
    ) -> Result:
        """The result of this run; stored, unless it was `found`."""
        if self.folder is not None and not found:
            self.folder.finish(params, metrics, final)
        return Result(
            self.experiment,
            params,
            metrics,
            final,
            folder=None if self.folder is None else self.folder.path,
            features=self.train.width,
            found=found,
            names=self.train.names,
            normalisation=self.train.normalisation,
        )
