"""`foltr audit`: attacks on a finished run, or on a run of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Delta, Json, Out, Quiet, Threads, UseOnly, given_code
from foltr.core.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.core import Array
    from foltr.experiment import Experiment
    from foltr.simulation.audits.audit import Effort


def audit(
    path: Annotated[
        Path, typer.Argument(help="The folder of a finished run, or an experiment's TOML file.")
    ],
    users: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="How the attacked users click. Default: as in the run."),
    ] = None,
    use: UseOnly = None,
    out: Out = Path("runs"),
    delta: Delta = 1e-5,
    queries: Annotated[int, typer.Option(help="Number of queries to attack, at most.")] = 500,
    games: Annotated[
        int, typer.Option(help="Number of trials per input in each distinguishing game, at most.")
    ] = 20_000,
    threads: Threads = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack what the server of a run sees, and compare the attacks with the privacy guarantee.

    The attacks infer clicks, distinguish two inputs, and test whether a client took part. If a
    TOML file is given, its experiment is run first.

    Component files of your own (`use` in the config or the TOML file) must also be given by --use:
    no other code is loaded.

    Exit code 1: an attack achieves more than the stated epsilon allows."""
    from json import dumps

    from foltr.core.spec import click_models
    from foltr.simulation.audits.audit import Effort
    from foltr.simulation.audits.audit import audit as attack
    from foltr.simulation.audits.text import lines
    from foltr.simulation.runs import config
    from foltr.simulation.runs.progress import StepProgress

    effort = Effort(queries, games, min(games, Effort.trials), threads)
    _check(delta, effort)
    finished, code = path.is_dir(), given_code(use, quiet)
    load = config.load_finished if finished else config.load_experiment
    experiment = load(path, code)
    clicking = None if users is None else click_models.build(users)
    params = _learned(path, experiment) if finished else _run(experiment, out, threads, quiet)
    with StepProgress(quiet) as progress:
        found = attack(experiment, params, clicking, effort, delta, progress)
    print(dumps(found.plain(), allow_nan=False) if json else "\n".join(lines(found)))
    if found.broken:
        raise typer.Exit(1)


def _check(delta: float, effort: Effort) -> None:
    from foltr.simulation.runs.execution import checked_threads

    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    require(effort.queries >= 1, f"queries must be >= 1, got {effort.queries}")
    require(effort.games >= 200, f"games must be >= 200, got {effort.games}: fewer prove nothing")
    checked_threads(effort.threads)


def _learned(path: Path, experiment: Experiment) -> Array:
    """The parameters of a finished run, if its data has not changed since."""
    import numpy as np

    from foltr.core.spec import brief
    from foltr.simulation.runs.folder import Folder

    data = Folder(path).environment().get("data")
    if not isinstance(data, dict) or experiment.data.load("train").content != data.get("train"):
        raise Mistake(f"{brief(experiment.data)} has changed since {path} learned from it")
    done = Folder(path).finished()
    if done is None:
        raise Mistake(f"{path} was deleted while it was read")
    return np.asarray(done[0])


def _run(experiment: Experiment, out: Path, threads: int, quiet: bool) -> Array:
    from foltr.simulation.runs.progress import RunProgress, label_of

    with RunProgress(label_of(experiment), quiet) as watch:
        return experiment.run(out, threads, watch=watch).params
