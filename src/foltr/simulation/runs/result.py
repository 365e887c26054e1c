"""What a run reports: its progress, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from foltr.components.rankers.linear import Linear
from foltr.core import Array
from foltr.core.errors import Mistake, did_you_mean, require
from foltr.core.scoring import Normalisation
from foltr.core.spec import brief
from foltr.core.system.tables import html_table, paragraphs
from foltr.core.world.measures import RunMeasure
from foltr.experiment import Experiment
from foltr.simulation.runs.columns import MEASURES, Curve, Metrics, columns_of
from foltr.simulation.runs.trained import TrainedRanker

# what unlearning takes: key of `unlearning` in result.json -> name
COSTS = {
    "local_steps": "local steps",
    "messages": "messages to server",
    "bytes": "bytes to server",
}


@dataclass(frozen=True)
class Progress:
    """What a watcher sees while a run is made."""

    experiment: Experiment
    t: int  # rounds done
    began: int  # rounds that were done when this process took over
    rounds: int  # in all
    metrics: Metrics
    notes: tuple[str, ...]
    # after the last round, while clients are measured: how many are, and of how many. There may be
    # two passes: of the shared ranker, and of clients' own
    measured: tuple[int, int] | None = None


@dataclass(frozen=True, repr=False)
class Result:
    """What a run gives: its measures, and the ranker that it trained."""

    experiment: Experiment
    params: Array  # (d,) float64, as the server holds them
    metrics: Metrics  # of every round and of those that were evaluated; `curve` reads them
    final: dict[str, Any]  # as in result.json: "ndcg@10", "online", "interactions", ...
    folder: Path | None  # where it is kept, if `run` was given `out`
    features: int  # of a document
    found: bool = False  # in the folder of an earlier run, finished, and not made again
    names: tuple[str, ...] | None = None  # of the features, if the data source has names
    normalisation: Normalisation | None = None  # of the features, by the data source

    def __repr__(self) -> str:
        """One line, with rounded numbers; `final` has all of them, and all digits."""
        named = ("ndcg@10", "online", "interactions", "seconds")
        values = {name: self.final[name] for name in named if self.final[name] is not None}
        shown = ", ".join(f"{name}={round(value, 4)}" for name, value in values.items())
        folder = None if self.folder is None else str(self.folder)
        return f"Result({shown}, folder={folder!r})"

    def _repr_html_(self) -> str:
        """In a notebook: the final measures as a table, and the run's notes."""
        known = columns_of(self.final.get(MEASURES, {}).values())
        of_runs = (name for name, each in known.items() if each.measure.kind == "run")
        names = [name for name in dict.fromkeys([*self.final, *of_runs]) if name in known]
        values = {name: self._value_if_known(name) for name in names}
        values |= {name: self.final[name] for name in ("interactions", "rounds", "seconds")}
        shown = {name: value for name, value in values.items() if value is not None}
        meant = [known[name].curve_label if name in known else "" for name in shown]
        table: dict[str, list[Any]] = {
            "": list(shown),
            "value": list(shown.values()),
            "measure": meant,
        }
        e, notes = self.experiment, [f"note: {note}" for note in self.final["notes"]]
        learned = (e.users, e.learner, e.ranker) if e.baseline is None else (e.baseline,)
        about = ", ".join(map(brief, (e.data, *learned)))
        where = "not kept: run(out=...) keeps it" if self.folder is None else f"run: {self.folder}"
        found = " (finished before, not repeated)" if self.found else ""
        lines = paragraphs([*notes, where + found])
        return paragraphs([about]) + html_table(table, ["value"], len(shown)) + lines

    def curve(self, name: str) -> Curve:
        """`rounds, values = result.curve("ndcg@10")`; also mrr@10, expected_maxrr, online_ndcg@10,
        maxrr."""
        return curve_of(self.metrics, self.final, name)

    def value(self, name: str) -> float | None:
        """The final value of a measure, such as "ndcg@10"; of a measure of whole runs as well, if
        it was asked for. None where it is undefined."""
        asked = self.final.get(MEASURES, {})
        found = columns_of(asked.values()).get(name)
        if found is not None and found.measure.kind == "run":
            return cast(RunMeasure, found.measure).of_run(self)
        if name not in self.final:
            raise Mistake(f"no measure is called {name!r}: {did_you_mean(name, self.final)}")
        value: float | None = self.final[name]
        return value

    def _value_if_known(self, name: str) -> float | None:
        try:
            return self.value(name)
        except Mistake:  # of a curve that was not recorded
            return None

    @property
    def trained(self) -> TrainedRanker:
        """The ranker: to rank new documents with, to save, to export."""
        about = self.features, self.names, self.normalisation
        return trained_by(self.experiment, self.params, *about)


def curve_of(metrics: Metrics, final: dict[str, Any], name: str) -> Curve:
    """A curve of a run. Raises a Mistake if it has none, or if only its end is known."""
    recorded = name in metrics.online or name in metrics.offline
    if not recorded and name in final.get(MEASURES, {}):
        raise Mistake(
            f"{name} was not recorded while this run was made: only its final value is known, from"
            " the final parameters. To record its curve, make the run again in another folder"
        )
    return metrics.curve(name)


def trained_by(
    e: Experiment,
    params: Array,
    features: int,
    names: tuple[str, ...] | None,
    normalisation: Normalisation | None,
) -> TrainedRanker:
    """The ranker of an experiment with its final parameters. Raises a Mistake for a baseline whose
    model is no ranker of foltr."""
    own = "is no ranker of foltr: its params are the bytes of its own model"
    foreign = e.baseline is not None and params.dtype == np.uint8
    require(not foreign, f"{type(e.baseline).__name__} {own}")
    ranker = e.ranker if e.baseline is None else Linear()
    return TrainedRanker(ranker, params.astype(np.float32), features, names, normalisation)


def known(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else value
