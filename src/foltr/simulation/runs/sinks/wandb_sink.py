"""Weights & Biases: a run of the project `foltr` (or WANDB_PROJECT), with its files in the folder
`wandb` beside the runs. WANDB_MODE=offline sends nothing."""

from __future__ import annotations

import os
from typing import Any

from foltr.simulation.runs.sinks.sink import About, Row

PROJECT = "foltr"


class WandbSink:
    """A run of foltr is one run of Weights & Biases, known by the name of its folder. Who
    continues it continues the log; offline, where nobody knows what was sent, the log is written
    from its beginning."""

    complete = False  # its server takes a finished run again

    def __init__(self, about: About) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=about.name,
            name=about.name,
            dir=str(about.folder.parent),
            config=about.fields,
            resume="allow",
            reinit="create_new",  # a run of the user's own stays as it is
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.first = int(self._run.step)

    def write(self, rows: list[Row]) -> None:
        for t, values in rows:
            self._run.log(values, step=t)

    def finish(self, rounds: int, final: dict[str, float]) -> None:
        self._run.summary.update(final)

    def close(self) -> None:
        self._run.finish()
