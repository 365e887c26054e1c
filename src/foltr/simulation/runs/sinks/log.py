"""What a run measures, for other tools: `foltr run --log tensorboard`,
`Experiment.run(log=...)`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from foltr.core.errors import Mistake, did_you_mean
from foltr.experiment import Experiment
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.config import fields_of, written
from foltr.simulation.runs.result import Progress, Result
from foltr.simulation.runs.sinks.sink import FINAL, About, Row, Sink, tag

PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}
SECONDS = 1.0  # between two writes


def checked_logs(names: str | Sequence[str]) -> tuple[str, ...]:
    """The tools that are named; raises a Mistake for one that is unknown or not installed."""
    found = tuple(dict.fromkeys([names] if isinstance(names, str) else names or ()))
    for name in found:
        if name not in PACKAGES:
            raise Mistake(f"no log is called {name!r}: {did_you_mean(str(name), PACKAGES)}")
        package = PACKAGES[name]
        if find_spec(package) is None:
            raise Mistake(f"{package} is not installed: pip install 'foltr[{name}]'")
    return found


def opened(name: str, about: About) -> Sink:
    """The log of a run in one of the tools."""
    if name == "tensorboard":
        from foltr.simulation.runs.sinks.tensorboard_sink import TensorBoardSink

        return TensorBoardSink(about)
    if name == "mlflow":
        from foltr.simulation.runs.sinks.mlflow_sink import MlflowSink

        return MlflowSink(about)
    from foltr.simulation.runs.sinks.wandb_sink import WandbSink

    return WandbSink(about)


class Log:
    """The logs of one run. It watches the run, and is told its result."""

    def __init__(self, names: str | Sequence[str], e: Experiment, folder: Path | None) -> None:
        self.names, self.experiment = checked_logs(names), e
        if folder is None:
            raise Mistake("a log belongs to a run that is kept: give out=...")
        self.folder = folder
        self._sinks: dict[str, Sink] = {}
        self._next: dict[str, int] = {}  # the first round that a sink lacks
        self._latest: Metrics | None = None
        self._opened, self._wrote = False, 0.0

    def open(self) -> None:
        """Before the first round. A tool that cannot be opened is a Mistake: nothing is lost
        yet."""
        self._opened = True
        for name in self.names:
            toml, config = written(self.experiment), self.experiment.config()
            fields = dict(pair for each in config.items() for pair in fields_of(*each))
            try:
                sink = opened(name, About(self.folder, toml, fields))
            except (Exception, SystemExit) as error:  # of another library: anything
                raise Mistake(f"the log cannot be opened: {_why(name, error)}") from error
            self._sinks[name], self._next[name] = sink, sink.first

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:  # a run that was stopped
            self._write(self._latest)
        for name in list(self._sinks):
            self._try(name, self._sinks[name].close)
        self._sinks.clear()

    def __call__(self, progress: Progress) -> None:
        """To watch a run."""
        if not self._sinks:
            return
        self._latest = progress.metrics
        if time.monotonic() - self._wrote >= SECONDS:
            self._write(progress.metrics)

    def finished(self, result: Result) -> Result:
        """Log what is left of a run, and its final measures; all of it, if it was found."""
        if not self._opened:
            try:
                self.open()
            except Mistake as mistake:
                _tell(f"{mistake}; the run itself is finished")
        self._write(result.metrics)
        self._latest = None
        numbers = {
            tag(FINAL.rstrip("/"), name): float(value)
            for name, value in result.final.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        rounds = int(result.final["rounds"])
        for name, sink in list(self._sinks.items()):
            if not sink.complete:
                self._try(name, partial(sink.finish, rounds, numbers))
        return result

    def _write(self, metrics: Metrics) -> None:
        self._wrote = time.monotonic()
        made = len(metrics.online["interactions"])
        for name, sink in list(self._sinks.items()):
            if sink.complete or self._next[name] > made:
                continue
            rows = rows_of(metrics, self._next[name])
            if self._try(name, partial(sink.write, rows)):
                self._next[name] = made + 1

    def _try(self, name: str, act: Callable[[], None]) -> bool:
        """Whether it worked. A sink that failed is left out from then on."""
        try:
            act()
            return True
        except (Exception, SystemExit) as error:  # noqa: BLE001  # of another library: anything
            self._sinks.pop(name, None)
            again = "the same command logs it when it is finished"
            _tell(f"the log ended, the run goes on: {_why(name, error)}; {again}")
            return False


def rows_of(metrics: Metrics, first: int) -> list[Row]:
    """The rounds from `first` on, each with what is known of it. Round 0 is before the first."""
    at = {t: i for i, t in enumerate(metrics.evaluated)}
    rows = []
    for t in range(first, len(metrics.online["interactions"]) + 1):
        found = {tag("online", name): all_[t - 1] for name, all_ in metrics.online.items() if t}
        if t in at:
            values = metrics.offline.items()
            found |= {tag("offline", name): each[at[t]] for name, each in values}
        known = {name: float(value) for name, value in found.items() if math.isfinite(value)}
        if known:
            rows.append((t, known))
    return rows


def _why(name: str, error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{name}: {type(error).__name__}{f': {first}' if first else ''}"


def _tell(message: str) -> None:
    print(f"foltr: {message}", file=sys.stderr, flush=True)
