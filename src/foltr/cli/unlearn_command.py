"""`foltr unlearn`: from a finished run and those who leave it to another run, beside retrained
ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from foltr.cli.progress import Watcher
from foltr.components.unlearners.fed_eraser import FedEraser
from foltr.components.unlearners.retrain import Retrain
from foltr.errors import Mistake, require
from foltr.experiment import Experiment
from foltr.runs import config
from foltr.runs.forgetting import compared
from foltr.runs.result import Result
from foltr.runs.run import Run
from foltr.spec import brief, unlearners
from foltr.system.files import write_whole

REPORT = "unlearning.json"  # in the folder of the unlearned run
USUAL = 3  # sessions
MEASURED = {
    "ndcg@10": "offline nDCG@10",
    "own_ndcg@10": "nDCG@10 on their own data",
    "mark": "features of theirs alone",
    "distance": "L2 to retrained 1",
    "cosine": "cosine to retrained 1",
}
Leaving = Literal["malicious"] | tuple[int, ...]


def unlearn_command(
    path: Path,
    clients: str,
    method: str | None,
    out: Path | None,
    retrainings: int,
    used: list[Path],
    engine: str,
    threads: int,
    as_json: bool,
    quiet: bool,
) -> None:
    require(threads >= 1, f"threads must be >= 1, got {threads}")
    require(engine in ("local", "debug"), f"engine must be 'local' or 'debug', got {engine!r}")
    require(retrainings >= 0, f"retrainings must be >= 0, got {retrainings}")
    path = path.resolve()
    before = config.read_finished(path, used, quiet)
    target = without(
        before, who(clients), None if method is None else unlearners.build(method), path
    )
    place = path.parent if out is None else out

    def made(e: Experiment, doing: str) -> tuple[Run, Result]:
        with Watcher(f"{doing}: {brief(e.unlearning)}", quiet) as watch:
            run = Run(e, place, threads, engine, watch, known=path.parent)
            return run, run.result()

    first = Run(target.base, path.parent, threads)
    other = (
        f"{path} is not the run that its config says: its data, its components or its version of"
        " foltr have changed"
    )
    require(first.folder is not None and first.folder.path == path, f"{other}; make it again")
    run, after = made(target, "unlearning")
    told: dict[str, Any] = {
        **after.final["unlearning"],
        "seconds": after.final["seconds"],
        "run": str(after.folder),
    }
    again = [made(e, "retraining")[1] for e in retrained(target, retrainings)]
    if again:
        told |= compared(run.context, first.result(), after, again)
        assert after.folder is not None  # it was made in one
        write_whole(after.folder / REPORT, json.dumps(told, indent=1, allow_nan=False) + "\n")
    notes = after.final["notes"]
    print(
        json.dumps(told, allow_nan=False)
        if as_json
        else "\n".join([*lines(told, after), *map(noted, notes)])
    )


def who(clients: str) -> Leaving:
    if clients.strip() == "malicious":
        return "malicious"
    try:
        return tuple(sorted(int(part) for part in clients.split(",")))
    except ValueError:
        raise Mistake(
            f"--clients wants numbers, as in 3,7, or malicious; got {clients!r}"
        ) from None


def without(e: Experiment, group: Leaving, method: Any, path: Path) -> Experiment:
    """The experiment with one more group that leaves."""
    if e.baseline is not None:
        raise Mistake(
            f"{path} is a baseline: it learned from labels, and no client has a part in it"
        )
    method = method or e.unlearning or FedEraser(min(USUAL, e.learner.sessions))
    if e.unlearning is None:
        return replace(e, unlearning=method, leaving=group if isinstance(group, str) else (group,))
    earlier = (
        f"{path} has unlearned clients by {brief(e.unlearning)}, and all groups leave in one way"
    )
    require(
        method == e.unlearning,
        f"{earlier}: leave --method out, or unlearn all of them from the run before",
    )
    numbers = f"{path} has unlearned clients {e.leaving!r}: say by numbers who leaves now"
    if isinstance(group, str) or isinstance(e.leaving, str):
        raise Mistake(numbers)
    return replace(e, leaving=(*e.leaving, group))


def retrained(e: Experiment, count: int) -> list[Experiment]:
    """Retrainings without all who have left, of another luck than the run itself and than each
    other."""
    leaving = e.leaving if isinstance(e.leaving, str) else (tuple(e.departures.left.tolist()),)
    assert e.unlearning is not None
    lucks = [luck for luck in range(count + 1) if luck != e.unlearning.luck][:count]
    chosen = [Retrain(luck) for luck in lucks]
    return [replace(e, unlearning=each, leaving=leaving) for each in chosen]


def lines(told: dict[str, Any], after: Result) -> list[str]:
    group = ", ".join(map(str, told["leaving"][-1]))
    e, storage = after.experiment, told["storage"]
    made = "found" if after.found else f"in {told['seconds']:.1f} s"
    many = "clients" if len(told["leaving"][-1]) > 1 else "client"
    head = (
        f"{many} {group} unlearned by {told['method']}, {told['remaining']} of {e.clients} remain"
        f" ({made})"
    )
    shown = [head, *_rankers(told, after)]
    names = {
        "local_steps": "local steps",
        "messages": "messages to server",
        "bytes": "bytes to server",
    }
    shown.append(f"{'':<26}{'made':>14}{'retraining':>14}{'times fewer':>14}")
    for key, name in names.items():
        cost = told[key]
        fewer = "-" if cost["times_fewer"] is None else f"{cost['times_fewer']:,.1f}"
        shown.append(f"{name:<26}{cost['made']:>14,}{cost['retraining']:>14,}{fewer:>14}")
    kept = (
        f"{storage['of']}: {storage['per_device']:,} bytes on a device, {storage['in_all']:,}"
        " in all"
    )
    shown.append(f"{'stored on devices':<26}{kept if storage['in_all'] else 'nothing'}")
    return [*shown, f"run: {told['run']}"]


def _rankers(told: dict[str, Any], after: Result) -> list[str]:
    """A table of the rankers before, after, and retrained."""
    if "runs" not in told:
        own = told["own"]
        pairs = {"offline nDCG@10": (told["before"]["ndcg@10"], after.final["ndcg@10"]),
                 "nDCG@10 on their own data": (own["before"], own["after"])}  # fmt: skip
        rows = [f"{name:<26}{_number(one)}{_number(two)}" for name, (one, two) in pairs.items()]
        return [f"{'':<26}{'before':>11}{'unlearned':>11}", *rows]
    names = list(told["runs"])
    shown = [
        f"{'':<26}" + "".join(f"{'unlearned' if name == 'after' else name:>13}" for name in names)
    ]
    for key, what in MEASURED.items():
        if any(value is not None for value in told[key].values()):
            shown.append(f"{what:<26}" + "".join(_number(told[key][each], 13) for each in names))
    influence = told.get("influence")
    if influence is None:
        return shown
    if influence["left"] is None:
        none = (
            "no more unlike retrained ones before than those are unlike each other: nothing to see"
        )
        return [*shown, f"{'influence left':<26}{none}"]
    values = [1.0, influence["left"], *influence["retrained"]]
    shown.append(f"{'influence left':<26}" + "".join(_number(value, 13, 2) for value in values))
    return [
        *shown,
        (
            f"{'':<26}{influence['visible']:.0%} of what tells before from retrained is more than"
            " luck"
        ),
    ]


def _number(value: float | None, width: int = 11, digits: int = 4) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def noted(note: str) -> str:
    return f"note: {note}"
