"""One experiment under way: resumes, learns, evaluates, records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.claim import Claim
from foltr.core import Array, Baseline, Cohort, Observed, Ranked, require
from foltr.data.dataset import Dataset
from foltr.engines.debug import Debug
from foltr.environment import environment
from foltr.errors import Mistake
from foltr.evaluation import MEASURES, Evaluator
from foltr.experiment import Experiment
from foltr.federation import Server, State, federate, participants
from foltr.identity import folder_name, identity
from foltr.interruptions import Interruptions
from foltr.looks import agree, notes_of
from foltr.metrics import DEPTH, online_performance
from foltr.privacy_account import ledger_of
from foltr.rankers.linear import Linear
from foltr.record import RESULTS, Curve, Folder, Metrics
from foltr.seeds import stream
from foltr.simulation import Population, iid
from foltr.threads import Threads
from foltr.toml import written
from foltr.trained import TrainedRanker
from foltr.user_files import sources_behind

CHECKPOINT_SECONDS = 5.0


@dataclass(frozen=True)
class Progress:
    """What a watcher sees after each round."""

    experiment: Experiment
    t: int  # rounds done
    began: int  # rounds that were done when this process took over
    metrics: Metrics
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Result:
    experiment: Experiment
    params: Array  # (d,) float64, as the server holds them
    metrics: Metrics
    final: dict[str, Any]
    folder: Path | None
    features: int
    found: bool = False  # in the folder of an earlier run, finished, and not made again

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={self.final[name]!r}" for name in ("ndcg@10", "online", "interactions", "seconds"))
        return f"Result({told}, folder={str(self.folder)!r})"

    def curve(self, name: str) -> Curve:
        """`rounds, values = result.curve("ndcg@10")`; also mrr@10, expected_maxrr, online_ndcg@10, maxrr."""
        return self.metrics.curve(name)

    @property
    def trained(self) -> TrainedRanker:
        """The ranker: to rank new documents with, to save, to export."""
        baseline = self.experiment.baseline
        if baseline is not None:
            other = f"{type(baseline).__name__} is no ranker of foltr: its params are the bytes of its own model"
            require(self.params.dtype != np.uint8, other)
            return TrainedRanker(Linear(), self.params.astype(np.float32), self.features)
        return TrainedRanker(self.experiment.ranker, self.params.astype(np.float32), self.features)


def known(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else value


def scored_by(baseline: Baseline, ranked: Ranked, data: Dataset) -> Array:
    scores = np.asarray(ranked.scores(data.features))
    fits = scores.shape == (data.documents,) and scores.dtype.kind == "f"
    given = f"{scores.shape} of kind {scores.dtype.kind!r}"
    require(fits, f"the scores of {type(baseline).__name__} are {given}, not one real number per document")
    return scores.astype(np.float32)


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
    ) -> None:
        self.experiment, self.engine_name, self.watch = experiment, engine, watch
        self.per_query, self.wait, self.stop = per_query, wait, stop
        e = experiment
        self.train, self.test = e.data.load("train"), e.data.load("test")
        agree(self.train, self.test, type(e.data).__name__)
        self.population: Population = iid(self.train, e.users, e.clients, e.sessions)
        if e.privacy is not None and e.privacy.even:
            uneven = f"{type(e.privacy).__name__} needs equal weights: every client must search equally often"
            require(bool((self.population.sessions == self.population.sessions[0]).all()), uneven)
        self.identity = identity(e, self.train, self.test)
        if out is not None and (unknown := [name for name, content in sources_behind(e).items() if content is None]):
            lost = "is in no file, so that its runs could not be told from those of another version of it"
            raise Mistake(f"{unknown[0]} {lost}: write it to a file for foltr.use, or run without out")
        self.folder = None if out is None else Folder(Path(out) / folder_name(e, self.identity))
        self.threads = Threads(threads)
        self.notes = notes_of(e, self.train, self.test)

    def result(self) -> Result:
        if self.folder is None:
            return self._made(None)
        if found := self._found():
            return found
        self.folder.create()
        with Claim(self.folder.path).held(self.wait, self.stop) as claim:
            return self._found() or self._made(claim)  # who held it before us may have finished it

    def _found(self) -> Result | None:
        """The finished run of the folder, with its queries if they are asked for."""
        assert self.folder is not None
        done = self.folder.finished()
        if done is None:
            return None
        if self.per_query and not self.folder.queries():
            with self.threads.running():
                self._keep_queries(done[0])
        return Result(self.experiment, *done, self.folder.path, self.train.width, found=True)

    def _made(self, claim: Claim | None) -> Result:
        with self.threads.running():
            if self.experiment.baseline is not None:
                return self._level(self.experiment.baseline)
            with Interruptions(self.folder, self.stop) as interruptions:
                return self._learn(interruptions, claim)

    def _keep_queries(self, params: Array) -> None:
        e = self.experiment
        if e.baseline is not None:
            raise Mistake(f"{self.folder and self.folder.path} has no results per query: delete it to make it again")
        self._keep(self._evaluator().per_query(params.astype(np.float32)))

    def _keep(self, values: Array) -> None:
        assert self.folder is not None
        names = [name.decode(errors="replace") for name in self.test.query_ids.tolist()]
        self.folder.keep_queries(names, MEASURES, values)

    def _learn(self, interruptions: Interruptions, claim: Claim | None) -> Result:
        e, began = self.experiment, time.perf_counter()
        promised = ledger_of(e, self.train.width).plain()  # first: what cannot be accounted for is not run
        server = Server(e.device_learner, e.aggregator, e.optimizer, e.privacy)
        state = server.init(e.ranker.init(self.train.width, stream(e.seed, "init")))
        engine, evaluate = self._engine(state.params), self._evaluator()
        metrics, before = Metrics(), (0.0, 0.0)
        if self.folder is not None:
            self.folder.open(self._about())
            if stored := self.folder.resume():
                state, engine.memory, metrics, before = stored
        if not metrics.evaluated:
            metrics.evaluate(0, evaluate(state.params))
        first, saved = state.t, time.monotonic()

        def seconds() -> tuple[float, float]:
            """Since the run began, over all processes that worked on it: in all, and inside kernels."""
            return before[0] + time.perf_counter() - began, before[1] + self.threads.busy

        def record(state: State, cohort: Cohort, observed: Observed | None) -> None:
            nonlocal saved
            interruptions.under_way = True
            metrics.add_round(cohort, observed)
            if state.t % e.evaluate_every == 0 or state.t == e.rounds:
                metrics.evaluate(state.t, evaluate(state.params))
            self.watch(Progress(e, state.t, first, metrics, self.notes + engine.notes))
            if claim is not None and claim.tell(state.t, e.rounds):
                interruptions.ask_outside()
            due = interruptions.asked or time.monotonic() - saved > CHECKPOINT_SECONDS
            if self.folder is not None and due and state.t < e.rounds:
                self.folder.checkpoint(state, engine.memory, metrics, seconds())
                saved = time.monotonic()
                interruptions.obey(state.t, e.rounds)

        def choose(t: int) -> Array:
            return participants(e.clients, e.participation, e.seed, t)

        state = federate(server, engine, state, e.rounds, choose, e.seed, record, e.channel, e.dropout)
        notes = self.notes + engine.notes
        if state.withheld:
            notes += (
                f"too few messages arrived in {state.withheld:,} of {e.rounds:,} rounds: nothing was learned then",
            )
        final = self._final(metrics, seconds(), notes)
        final |= {f"train_{name}": known(value) for name, value in self._evaluator(self.train)(state.params).items()}
        final["privacy"] = promised
        if self.folder is not None:
            if self.per_query:
                self._keep_queries(state.params)
            self.folder.finish(state.params, metrics, final)
        return Result(e, state.params, metrics, final, self.folder.path if self.folder else None, self.train.width)

    def _about(self) -> dict[str, str]:
        about = {
            "identity": self.identity,
            "results": RESULTS,
            "data": {"train": self.train.content, "test": self.test.content},
            "files": sources_behind(self.experiment),
            **environment(),
        }
        return {"config.toml": written(self.experiment), "environment.json": json.dumps(about, indent=1) + "\n"}

    def _level(self, baseline: Baseline) -> Result:
        """A ranker trained on labels, in no round and by no interaction. Its parameters are those of the linear ranker
        that it is, or the bytes of its model."""
        e, began, metrics = self.experiment, time.perf_counter(), Metrics()
        validation = e.data.load("vali") if "vali" in e.data.splits else None
        ranked = baseline.fit(self.train, validation, e.seed)
        known_model = bool(ranked.model) if ranked.params is None else np.shape(ranked.params) == (self.train.width,)
        require(known_model, f"{type(baseline).__name__} gave neither a model nor {self.train.width} parameters")
        params = np.frombuffer(ranked.model, np.uint8) if ranked.params is None else ranked.params
        queries, trained_on = (
            self._evaluator(data).of_scores(scored_by(baseline, ranked, data)) for data in (self.test, self.train)
        )
        means = self._evaluator().means
        metrics.evaluate(0, means(queries))
        final = self._final(metrics, (time.perf_counter() - began, 0.0), self.notes)
        final |= {f"train_{name}": known(value) for name, value in means(trained_on).items()}
        if self.folder is not None:
            self.folder.open(self._about())
            if self.per_query:
                self._keep(queries)
            self.folder.finish(params, metrics, final)
        return Result(e, params, metrics, final, self.folder.path if self.folder else None, self.train.width)

    def _engine(self, params: Array) -> Any:
        e, p = self.experiment, self.population
        start = e.device_learner.remembered(params.astype(np.float32))
        memory = np.tile(start, (e.clients, 1))  # (clients, numbers kept on each device)
        if self.engine_name == "debug":
            return Debug(e.device_learner, e.ranker, p, e.seed, memory, e.privacy)
        from foltr.engines.local import Local

        return Local(e.device_learner, e.ranker, p, e.seed, memory, self.threads, e.privacy)

    def _evaluator(self, data: Dataset | None = None) -> Evaluator:
        e, p, tables = self.experiment, self.population, self.population.tables(DEPTH)
        shares = np.bincount(p.models.ravel(), minlength=len(p.click_models)) / p.models.size
        clicks = () if tables is None else tuple(zip(shares.tolist(), tables[0], strict=True))
        return Evaluator(
            e.ranker, data or self.test, clicks, e.empty, e.seed, self.threads, self.engine_name == "debug"
        )

    def _final(self, metrics: Metrics, seconds: tuple[float, float], notes: tuple[str, ...]) -> dict[str, Any]:
        last = {name: values[-1] for name, values in metrics.offline.items()}
        nothing, held_out = [float("nan")], self.test  # a baseline's users never searched
        online, max_rr = (metrics.online[name] or nothing for name in ("online_ndcg@10", "maxrr"))
        relevant = np.add.reduceat(held_out.labels[0] > 0, held_out.offsets[:-1])
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
