"""`foltr run`: one experiment, given by a file and options, with its progress and its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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


def field(metavar: str, meaning: str, default: str) -> Any:
    """An option for a field of `Experiment`, as text: `Experiment` checks its value."""
    return typer.Option(metavar=metavar, help=f"{meaning} Default: {default}", show_default=False)


def run(
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file that sets any of the fields below.")
    ] = None,
    data: Annotated[
        str | None, field("SPEC", "Queries, documents and relevance labels.", "Synthetic()")
    ] = None,
    partition: Annotated[
        str | None, field("SPEC", "How data and behaviour are divided among clients.", "IID()")
    ] = None,
    users: Annotated[str | None, field("SPEC", "How users click.", "Cascade()")] = None,
    ranker: Annotated[
        str | None, field("SPEC", "The model that scores documents.", "Linear()")
    ] = None,
    learner: Annotated[
        str | None, field("SPEC", "How a client turns clicks into an update.", "PDGD()")
    ] = None,
    attack: Annotated[str | None, field("SPEC", "What malicious clients do.", "none")] = None,
    malicious: Annotated[str | None, field("INT", "Number of malicious clients.", "0")] = None,
    roaming: Annotated[
        str | None, field("BOOL", "Draw the malicious clients again in each round.", "false")
    ] = None,
    aggregator: Annotated[
        str | None, field("SPEC", "How the server combines the updates of a round.", "Mean()")
    ] = None,
    optimizer: Annotated[
        str | None, field("SPEC", "How the server applies the combined update.", "SGD()")
    ] = None,
    privacy: Annotated[
        str | None, field("SPEC", "The privacy mechanism, such as Laplace(...).", "none")
    ] = None,
    channel: Annotated[
        str | None,
        field("SPEC", "The protocol that carries messages, such as SecureSum().", "none"),
    ] = None,
    baseline: Annotated[
        str | None, field("SPEC", "A baseline that learns from labels, not clicks.", "none")
    ] = None,
    unlearning: Annotated[
        str | None, field("SPEC", "The unlearning method for clients that leave.", "none")
    ] = None,
    leaving: Annotated[
        str | None,
        field("TEXT", "Groups of clients that leave: [[3], [7]], or malicious.", "nobody"),
    ] = None,
    clients: Annotated[str | None, field("INT", "Number of clients.", "100")] = None,
    participation: Annotated[
        str | None, field("FLOAT", "Fraction of the clients that take part in a round.", "1.0")
    ] = None,
    dropout: Annotated[
        str | None, field("FLOAT", "Probability that a message is lost.", "none")
    ] = None,
    rounds: Annotated[str | None, field("INT", "Number of rounds.", "100")] = None,
    history: Annotated[
        str | None,
        field(
            "INT", "Number of rounds between updates that clients store, for unlearning.", "none"
        ),
    ] = None,
    evaluate_every: Annotated[
        str | None, field("INT", "Number of rounds between evaluations.", "10")
    ] = None,
    empty: Annotated[
        str | None,
        field("TEXT", "How queries without a relevant document count: skip, zero or one.", "skip"),
    ] = None,
    seed: Annotated[str | None, field("INT", "Seed of all random draws.", "1")] = None,
    evaluate_on: Annotated[
        str | None,
        field("TEXT", "validation: measure the validation queries beside the test ones.", "none"),
    ] = None,
    patience: Annotated[
        str | None,
        field(
            "INT",
            "End the run when this many evaluations in a row bring no higher nDCG@10 on the"
            " validation queries.",
            "none",
        ),
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
    given = {
        "data": data, "partition": partition, "users": users, "ranker": ranker, "learner": learner,
        "attack": attack, "malicious": malicious, "roaming": roaming, "aggregator": aggregator,
        "optimizer": optimizer, "privacy": privacy, "channel": channel, "baseline": baseline,
        "unlearning": unlearning, "leaving": leaving, "clients": clients,
        "participation": participation, "dropout": dropout, "rounds": rounds, "history": history,
        "evaluate_every": evaluate_every, "empty": empty, "seed": seed,
        "evaluate_on": evaluate_on, "patience": patience,
    }  # fmt: skip
    from foltr.simulation.runs import config
    from foltr.simulation.runs.progress import RunProgress, label_of

    fields = {name: typed_value(value) for name, value in given.items() if value is not None}
    experiment = config.load_experiment(file, trusted_code(use), fields)
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
