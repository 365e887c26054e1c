"""`foltr run`: one experiment, given by a file and options, with its progress and its result."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from foltr.cli.tools import (
    Engine,
    Json,
    Logs,
    Measures,
    Out,
    PerQuery,
    Quiet,
    Use,
    trusted_code,
    typed_value,
)

if TYPE_CHECKING:
    from foltr.simulation.runs.result import Result


class ExperimentCommand(TyperCommand):
    """A command with an option for each field of `Experiment`, after its argument. The options
    are made when they are needed: other commands do not load the experiment."""

    def get_params(self, ctx: Any) -> list[Any]:
        argument, *options = super().get_params(ctx)
        return [argument, *field_options(), *options]


@cache
def field_options() -> list[Any]:
    """One option per field, as typer makes it from a parameter."""
    from foltr.core.spec import hints_of
    from foltr.experiment import Experiment

    def command(**options: str | None) -> None: ...

    parameters = []
    for field in fields(Experiment):
        option = typer.Option(
            metavar=metavar(hints_of(Experiment)[field.name]),
            help=f"{field.metadata['help']} Default: {default_text(field.default)}",
            show_default=False,
            expose_value=False,
            callback=keep,
        )
        annotation = Annotated[str | None, option]
        parameters.append(
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(command)
    made = typer.main.get_command(app).params
    return [option for option in made if option.name != "help"]


def keep(context: typer.Context, option: typer.CallbackParam, text: str | None) -> str | None:
    """Keep a value that is given, as it is typed, in the context: `Experiment` checks it."""
    if text is not None:
        context.ensure_object(dict)[str(option.name)] = text
    return text


def metavar(hint: Any) -> str:
    """What one types for a field of this type."""
    from foltr.core.spec import FAMILIES

    kind, *_ = (*get_args(hint), hint)  # of `int | None`, int
    if any(kind is family.protocol for family in FAMILIES):
        return "SPEC"
    return {int: "INT", float: "FLOAT", bool: "BOOL"}.get(kind, "TEXT")


def default_text(default: Any) -> str:
    """A default as one types it."""
    from foltr.core.spec import brief

    if is_dataclass(default):
        return brief(default)
    return {None: "none", (): "nobody"}.get(default) or str(default).lower()


def run(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file that sets any of the fields below.")
    ] = None,
    use: Use = None,
    engine: Engine = "local",
    threads: Annotated[
        str, typer.Option(metavar="INT", help="Number of threads. Results do not depend on it.")
    ] = "1",
    out: Out = Path("runs"),
    per_query: PerQuery = False,
    measures: Measures = "",
    log: Logs = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run one experiment, given by a TOML file, by options, or both (options override the file).

    Give the same command again to continue a run that was stopped or killed. A finished run is not
    repeated.

    A SPEC is a component with its fields, as in --learner 'PDGD(lr=0.1, sessions=5)'. `foltr list`
    lists all components, `foltr show PDGD` explains one."""
    from foltr.simulation.runs import config
    from foltr.simulation.runs.progress import RunProgress, label_of

    given = {name: typed_value(text) for name, text in context.ensure_object(dict).items()}
    experiment = config.load_experiment(file, trusted_code(use), given)
    with RunProgress(label_of(experiment), quiet, engine) as watch:
        result = experiment.run(
            out,
            typed_value(threads),
            engine,  # type: ignore[arg-type]  # checked there
            watch,
            per_query,
            measures,
            log=log or (),
        )
    print(json_line(result) if json else summary(result))


def json_line(result: Result) -> str:
    import json

    return json.dumps({**result.final, "run": str(result.folder)}, allow_nan=False)


def summary(result: Result) -> str:
    from foltr.core.metrics import EMPTY
    from foltr.core.system.terminal import sparkline

    final, e = result.final, result.experiment
    lines = [
        (
            f"offline nDCG@10  {measure(final['ndcg@10'])} "
            f" {sparkline(result.metrics.offline['ndcg@10'][1:])}"
        ),
        f"MRR@10           {measure(final['mrr@10'])}",
        f"expected MaxRR   {measure(final['expected_maxrr'])}",
        *_more(result),
        *_training(result),
        (
            f"held-out queries {final['queries']:,}; those without a relevant document"
            f" ({final['empty_queries']:,}) {EMPTY[e.empty]}"
        ),
        *(f"note: {note}" for note in final["notes"]),
        *(final["privacy"]["lines"] if "privacy" in final else ()),
        f"{'finished before, not repeated' if result.found else 'run'}: {result.folder}",
    ]
    return "\n".join(lines)


def _more(result: Result) -> list[str]:
    """The measures that were asked for, and nDCG@10 on the validation queries."""
    from foltr.simulation.runs.columns import MEASURES, VALIDATION, columns_of

    asked = result.final.get(MEASURES, {})
    known = columns_of(asked.values())
    name = f"{VALIDATION}ndcg@10"
    found = [name] if name in result.final else []
    found += [name for name, each in known.items() if name in asked and not each.place]
    shown = {name: known[name].curve_label.removeprefix("offline ") for name in found}
    return [f"{shown[name]:<16} {measure(result.value(name))}" for name in found]


def _training(result: Result) -> list[str]:
    """What the ranker learned from, and the quality of the lists shown during training."""
    final = result.final
    if result.experiment.baseline is not None:
        return [f"learned from     labels, without clients, in {final['seconds']:.1f} s"]
    made, planned = final["rounds"], result.experiment.rounds
    early = result.experiment.patience is not None and made < planned
    stopped = f"; {made:,} of {planned:,} rounds" if early else ""
    ndcg = result.metrics.online["online_ndcg@10"]
    mean = sum(ndcg) / len(ndcg) if ndcg else float("nan")  # NaN also where it is unknown
    return [
        (
            f"online nDCG@10   {mean:.4f}  mean over all lists shown; discounted sum over rounds"
            f" {measure(final['online'])}"
        ),
        f"interactions     {final['interactions']:,} in {final['seconds']:.1f} s{stopped}",
    ]


def measure(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:,.0f}" if float(value).is_integer() and value > 1.0 else f"{value:.4f}"
