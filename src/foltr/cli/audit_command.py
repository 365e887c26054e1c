"""`foltr audit`: from a run or a file to attacks on it."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.status import Status

from foltr.audits.audit import Effort, audit
from foltr.audits.telling import lines
from foltr.cli.progress import Watcher
from foltr.core import Array, ClickModel
from foltr.errors import Mistake, require
from foltr.experiment import Experiment
from foltr.runs import config
from foltr.runs.folder import Folder
from foltr.spec import brief, click_models


def audit_command(
    path: Path,
    users: str | None,
    used: list[Path],
    out: Path,
    delta: float,
    effort: Effort,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Prints the audit; whether all promises were kept."""
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    require(effort.queries >= 1, f"queries must be >= 1, got {effort.queries}")
    require(effort.games >= 200, f"games must be >= 200, got {effort.games}: fewer show nothing")
    require(effort.threads >= 1, f"threads must be >= 1, got {effort.threads}")
    finished = path.is_dir()
    experiment = (config.read_finished if finished else config.read_given)(path, used, quiet)
    clicking: ClickModel | None = None if users is None else click_models.build(users)
    params = (
        _learned(path, experiment) if finished else _run(experiment, out, effort.threads, quiet)
    )
    with Teller(quiet) as tell:
        found = audit(experiment, params, clicking, effort, delta, tell)
    print(json.dumps(found.plain(), allow_nan=False) if as_json else "\n".join(lines(found)))
    return not found.broken


def _learned(path: Path, experiment: Experiment) -> Array:
    """The parameters of a finished run, if its data is still what it learned from."""
    data = Folder(path).environment().get("data")
    if not isinstance(data, dict) or experiment.data.load("train").content != data.get("train"):
        raise Mistake(f"{path} learned from other data than {brief(experiment.data)} is now")
    done = Folder(path).finished()
    if done is None:
        raise Mistake(f"{path} has gone while it was read")
    return np.asarray(done[0])


def _run(experiment: Experiment, out: Path, threads: int, quiet: bool) -> Array:
    parts = (experiment.data, experiment.users, experiment.learner, experiment.ranker)
    label = (
        "  ".join(map(brief, parts))
        + f"  {experiment.clients:,} clients, {experiment.rounds:,} rounds"
    )
    with Watcher(label, quiet) as watch:
        result = experiment.run(out, threads, watch=watch)
    return result.params


@dataclass
class Teller(AbstractContextManager["Teller"]):
    """Says on standard error what is being done: in place in a terminal, else a line whenever that
    changes."""

    quiet: bool
    console: Console = field(default_factory=lambda: Console(stderr=True))
    status: Status | None = None
    said: str = ""
    shown: float = 0.0

    def __enter__(self) -> Teller:
        if not self.quiet and self.console.is_terminal:
            self.status = self.console.status("audit")
            self.status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.status is not None:
            self.status.stop()

    def __call__(self, what: str, done: int, of: int) -> None:
        if self.quiet:
            return
        now, far = time.monotonic(), f"{what}: {done:,} of {of:,}" if of > 1 else what
        if self.status is not None and now - self.shown > 0.1:
            self.status.update(far)
            self.shown = now
        elif self.status is None and (what != self.said or now - self.shown > 5.0):
            print(f"audit: {far}", file=sys.stderr, flush=True)
            self.said, self.shown = what, now
