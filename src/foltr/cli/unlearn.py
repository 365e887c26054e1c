"""`foltr unlearn`: removes clients from a finished run, and compares it with retraining."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from foltr.cli.tools import Engine, Json, Quiet, Threads, UseOnly, given_code
from foltr.core.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.experiment import Experiment
    from foltr.simulation.runs.result import Result
    from foltr.simulation.runs.run import Run

REPORT = "unlearning.json"  # in the folder of the new run
USUAL = 3  # sessions
MEASURED = {
    "ndcg@10": "offline nDCG@10",
    "own_ndcg@10": "nDCG@10 on their own data",
    "mark": "effect of unique features",
    "distance": "L2 distance to retrained 1",
    "cosine": "cosine to retrained 1",
}
Group = Literal["malicious"] | tuple[int, ...]  # clients who leave together


def unlearn(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    clients: Annotated[
        str, typer.Option(help="The clients that leave: numbers, as in 3,7, or malicious.")
    ],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="The unlearning method. Default: FedEraser(sessions=3).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which run folders are kept. Default: the folder of the run.",
            show_default=False,
        ),
    ] = None,
    retrainings: Annotated[
        int,
        typer.Option(
            help="Number of rankers retrained without the clients, for comparison. At"
            " least 3 are needed to measure the remaining influence; 0 skips the comparison."
        ),
    ] = 3,
    use: UseOnly = None,
    engine: Engine = "local",
    threads: Threads = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove the influence of clients from a finished run, and measure the remaining influence.

    Clients must have stored their updates in the run (history = 10 in its file), unless the method
    is Retrain() or FineTune(). The original run is not changed. The new ranker is stored as a run
    of its own; more clients can be removed from it later.

    Component files of your own (`use` in the run's config) must also be given by --use: no other
    code is loaded."""
    from json import dumps

    from foltr.core.spec import brief, unlearners
    from foltr.core.system.files import write_whole
    from foltr.simulation.runs import config
    from foltr.simulation.runs.execution import RunOptions
    from foltr.simulation.runs.forgetting import compared
    from foltr.simulation.runs.progress import RunProgress
    from foltr.simulation.runs.run import Run

    options = RunOptions(threads, engine)
    require(retrainings >= 0, f"retrainings must be >= 0, got {retrainings}")
    path = run.resolve()
    before = config.load_finished(path, given_code(use, quiet))
    chosen = None if method is None else unlearners.build(method)
    target = without(before, leaving_clients(clients), chosen, path)
    place = path.parent if out is None else out

    def made(e: Experiment, doing: str) -> tuple[Run, Result]:
        with RunProgress(f"{doing}: {brief(e.unlearning)}", quiet, engine) as watch:
            run = Run(e, place, options, watch, known=path.parent)
            return run, run.result()

    first = Run(target.base, path.parent, options)
    changed = (
        f"{path} is not the run that its config describes: its data, its components or foltr have"
        " changed. Run it again"
    )
    require(first.folder is not None and first.folder.path == path, changed)
    new, after = made(target, "unlearning")
    results: dict[str, Any] = {
        **after.final["unlearning"],
        "seconds": after.final["seconds"],
        "run": str(after.folder),
    }
    retrained = [made(e, "retraining")[1] for e in retrainings_of(target, retrainings)]
    if retrained:
        results |= compared(new.context, first.result(), after, retrained)
        assert after.folder is not None  # it was made in one
        write_whole(after.folder / REPORT, dumps(results, indent=1, allow_nan=False) + "\n")
    if target.privacy is not None:
        results["privacy"] = after.final["privacy"]
    print(dumps(results, allow_nan=False) if json else "\n".join(summary(results, after)))


def leaving_clients(text: str) -> Group:
    if text.strip() == "malicious":
        return "malicious"
    try:
        return tuple(sorted(int(part) for part in text.split(",")))
    except ValueError:
        raise Mistake(f"--clients needs numbers, as in 3,7, or malicious; got {text!r}") from None


def without(e: Experiment, group: Group, method: Any, path: Path) -> Experiment:
    """The experiment after one more group has left."""
    from foltr.components.unlearners.fed_eraser import FedEraser
    from foltr.core.spec import brief

    if e.baseline is not None:
        raise Mistake(f"{path} is a baseline: it learned from labels and has no clients")
    method = method or e.unlearning or FedEraser(min(USUAL, e.learner.sessions))
    if e.unlearning is None:
        return replace(e, unlearning=method, leaving=group if isinstance(group, str) else (group,))
    require(
        method == e.unlearning,
        f"{path} was unlearned by {brief(e.unlearning)}, and all groups must leave by one method:"
        " drop --method, or unlearn all clients from the first run",
    )
    if isinstance(group, str) or isinstance(e.leaving, str):
        raise Mistake(
            f"clients {e.leaving!r} have left {path} already: give those that leave now by their"
            " numbers"
        )
    return replace(e, leaving=(*e.leaving, group))


def retrainings_of(e: Experiment, count: int) -> list[Experiment]:
    """Retrainings without all clients that have left. Their random draws differ from those of the
    run and from each other."""
    from foltr.components.unlearners.retrain import Retrain

    leaving = e.leaving if isinstance(e.leaving, str) else (tuple(e.departures.left.tolist()),)
    assert e.unlearning is not None
    draws = [draw for draw in range(count + 1) if draw != e.unlearning.repetition][:count]
    return [replace(e, unlearning=Retrain(draw), leaving=leaving) for draw in draws]


def summary(results: dict[str, Any], after: Result) -> list[str]:
    from foltr.simulation.runs.result import COSTS

    left, storage = results["leaving"][-1], results["storage"]
    clients = f"{'clients' if len(left) > 1 else 'client'} {', '.join(map(str, left))}"
    made = "found, not repeated" if after.found else f"in {results['seconds']:.1f} s"
    lines = [
        f"{clients} unlearned by {results['method']} ({made});"
        f" {results['remaining']} of {after.experiment.clients} clients remain",
        *_rankers(results, after),
        f"{'':<26}{'unlearning':>14}{'retraining':>14}{'times fewer':>14}",
    ]
    for key, name in COSTS.items():
        cost = results[key]
        fewer = "-" if cost["times_fewer"] is None else f"{cost['times_fewer']:,.1f}"
        lines.append(f"{name:<26}{cost['made']:>14,}{cost['retraining']:>14,}{fewer:>14}")
    stored = (
        f"{storage['of']}: {storage['per_device']:,} bytes per client,"
        f" {storage['in_all']:,} in total"
    )
    return [
        *lines,
        f"{'stored by clients':<26}{stored if storage['in_all'] else 'nothing'}",
        f"run: {results['run']}",
        *(f"note: {note}" for note in after.final["notes"]),
        *(results["privacy"]["lines"] if "privacy" in results else ()),
    ]


def _rankers(results: dict[str, Any], after: Result) -> list[str]:
    """A table of the rankers before, after unlearning, and retrained."""
    if "runs" not in results:
        own = results["own"]
        pairs = {
            "offline nDCG@10": (results["before"]["ndcg@10"], after.final["ndcg@10"]),
            "nDCG@10 on their own data": (own["before"], own["after"]),
        }
        rows = [f"{name:<26}{_number(one)}{_number(two)}" for name, (one, two) in pairs.items()]
        return [f"{'':<26}{'before':>11}{'unlearned':>11}", *rows]
    names = list(results["runs"])
    heads = ("unlearned" if name == "after" else name for name in names)
    table = [f"{'':<26}" + "".join(f"{head:>13}" for head in heads)]
    for key, name in MEASURED.items():
        if any(value is not None for value in results[key].values()):
            values = (_number(results[key][each], 13) for each in names)
            table.append(f"{name:<26}" + "".join(values))
    return [*table, *_influence(results.get("influence"))]


def _influence(influence: dict[str, Any] | None) -> list[str]:
    """1 before unlearning, 0 for a retrained ranker on average."""
    if influence is None:
        return []
    if influence["left"] is None:
        return [
            f"{'influence left':<26}not measurable: before unlearning, the ranker was no further"
            " from the retrained ones than they are from each other"
        ]
    values = [1.0, influence["left"], *influence["retrained"]]
    return [
        f"{'influence left':<26}" + "".join(_number(value, 13, 2) for value in values),
        (
            f"{'':<26}randomness explains {1.0 - influence['visible']:.0%} of the squared distance"
            " from before to retrained"
        ),
    ]


def _number(value: float | None, width: int = 11, digits: int = 4) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"
