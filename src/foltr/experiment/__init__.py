"""An experiment: all components and settings of a run, and the checks that they fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.components.partitions.iid import IID
from foltr.components.rankers.linear import Linear
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core import Aggregator, Channel, ClickModel, Learner, Optimizer, Privatizer, Ranker
from foltr.core.errors import require
from foltr.core.federation import cohort_size, on_devices
from foltr.core.metrics import Empty
from foltr.core.spec import added, checked
from foltr.core.world.measures import Measure
from foltr.core.world.protocols import Attack, Baseline, Partition, Source, Unlearner
from foltr.experiment.compatibility import check_fit
from foltr.experiment.departures import Departures, Groups, Leaving
from foltr.experiment.malicious import Malicious

if TYPE_CHECKING:
    from foltr.simulation.runs.execution import MakeEngine
    from foltr.simulation.runs.result import Progress, Result


@checked
@dataclass(frozen=True)
class Experiment:
    """All components and settings of one run; its repr is its config. Two experiments with equal
    fields give bit-identical results with the same versions of foltr, numba, llvmlite and NumPy on
    the same kind of CPU.

    Without `privacy`, messages are sent unchanged; without `channel`, the server sees each
    message. `dropout` is the probability that a message is lost. `malicious` is the number of
    clients that follow the `attack`: always the same ones or, with `roaming`, others in each
    round. Every `history` rounds each device stores the update that it sent, so that a client can
    be unlearned later (`foltr unlearn`). `unlearning` is the method by which the groups of clients
    in `leaving` are unlearned, one group after another, as in ((3, 7), (5,)), or all malicious
    clients as one group. Such a run starts from the run before the last group left, which is made
    first if it does not exist. A `baseline` learns from labels instead of clicks; of the other
    fields it uses only data, users (to measure expected MaxRR), empty, seed and `evaluate_on`.
    With evaluate_on="validation", the validation queries are measured beside the test queries.
    With `patience`, a run ends before its last round when that many evaluations in a row brought
    no higher nDCG@10 on the validation queries; its ranker is that of the last round made."""

    data: Source = Synthetic()
    partition: Partition = IID()
    users: ClickModel = Cascade()
    ranker: Ranker = Linear()
    learner: Learner = PDGD()
    attack: Attack | None = None
    malicious: int = 0
    roaming: bool = False
    aggregator: Aggregator = Mean()
    optimizer: Optimizer = SGD()
    privacy: Privatizer | None = None
    channel: Channel | None = None
    baseline: Baseline | None = None
    unlearning: Unlearner | None = None
    leaving: Leaving = ()
    clients: int = 100
    participation: float = 1.0
    dropout: float | None = None
    rounds: int = 100
    history: int | None = None
    evaluate_every: int = 10
    empty: Empty = "skip"
    seed: int = 1
    evaluate_on: Literal["validation"] | None = added()
    patience: int | None = added()

    if TYPE_CHECKING:  # what `checked` takes: a part may be given as its spec

        def __init__(
            self,
            data: Source | str = ...,
            partition: Partition | str = ...,
            users: ClickModel | str = ...,
            ranker: Ranker | str = ...,
            learner: Learner | str = ...,
            attack: Attack | str | None = ...,
            malicious: int = ...,
            roaming: bool = ...,
            aggregator: Aggregator | str = ...,
            optimizer: Optimizer | str = ...,
            privacy: Privatizer | str | None = ...,
            channel: Channel | str | None = ...,
            baseline: Baseline | str | None = ...,
            unlearning: Unlearner | str | None = ...,
            leaving: Leaving = ...,
            clients: int = ...,
            participation: float = ...,
            dropout: float | None = ...,
            rounds: int = ...,
            history: int | None = ...,
            evaluate_every: int = ...,
            empty: Empty = ...,
            seed: int = ...,
            evaluate_on: Literal["validation"] | None = ...,
            patience: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        require(1 <= self.clients <= 10**8, f"clients must be in 1 .. 10^8, got {self.clients}")
        require(
            0.0 < self.participation <= 1.0,
            f"participation must be in (0, 1], got {self.participation}",
        )
        require(1 <= self.rounds <= 10**9, f"rounds must be in 1 .. 10^9, got {self.rounds}")
        require(
            self.evaluate_every >= 1, f"evaluate_every must be >= 1, got {self.evaluate_every}"
        )
        require(0 <= self.seed < 2**63, f"seed must be in 0 .. 2^63 - 1, got {self.seed}")
        lost = f"dropout must be in (0, 1), or left out (none), got {self.dropout}"
        require(self.dropout is None or 0.0 < self.dropout < 1.0, lost)
        require(
            self.history is None or self.history >= 1,
            f"history must be >= 1 rounds, got {self.history}",
        )
        require(
            self.patience is None or self.patience >= 1,
            f"patience must be >= 1 evaluations, got {self.patience}",
        )
        check_fit(self)

    @property
    def attackers(self) -> Malicious | None:
        """Which clients are malicious; None without an attack."""
        if self.attack is None:
            return None
        return Malicious(self.clients, self.malicious, self.roaming, self.seed)

    @property
    def departures(self) -> Departures:
        """Which clients leave, in which order; raises if none leaves or none remains."""
        return Departures.of(self.leaving, self.clients, self.attackers)

    @property
    def base(self) -> Experiment:
        """The experiment before the last group leaves; earlier groups are already unlearned in
        it."""
        before: Groups = () if isinstance(self.leaving, str) else self.leaving[:-1]
        return replace(self, leaving=before, unlearning=self.unlearning if before else None)

    @property
    def cohort(self) -> int:
        """How many clients are asked in a round."""
        return cohort_size(self.clients, self.participation)

    @property
    def sessions(self) -> int:
        """The most searches that a client makes in a round."""
        return self.partition.most_sessions(self.learner.sessions)

    @property
    def device_learner(self) -> Learner:
        """The learner as it runs on devices: in the ball that the privatizer sets."""
        return on_devices(self.learner, self.privacy)

    def config(self) -> dict[str, Any]:
        """Every field as a TOML value: components as specs, tuples as lists. Fields that are None
        or () are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: _plain(value)
            for name, value in values.items()
            if value is not None and value != ()
        }

    def run(
        self,
        out: str | Path | None = None,
        threads: int = 1,
        engine: Literal["local", "debug"] | MakeEngine = "local",
        watch: Callable[[Progress], None] = lambda progress: None,
        per_query: bool = False,
        measures: str | Sequence[str | Measure] = (),
        progress: bool = False,
        log: str | Sequence[str] = (),
    ) -> Result:
        """Run the experiment, or continue it if it was stopped. With `out`, the run is stored
        there in a folder that is named by its identity; a finished run is not repeated. `engine`
        is a name, or something that makes an engine (`runs.execution.MakeEngine`). `watch` is
        called after the first round and after every round that is evaluated; in between after
        every round or, where rounds are compiled together, about ten times a second; and while
        clients are measured in the end. `per_query` keeps the final ranker's measures on each
        held-out query in the folder. `measures` are recorded besides the usual ones, as in
        measures="nDCG(k=5), MAP()"; they are not part of the run's identity. `progress` shows a
        progress bar, in a terminal or a notebook. `log` names tools that log the run while it is
        made: "tensorboard", "mlflow" or "wandb", or several of them."""
        from foltr.simulation.runs.execution import checked_threads, engine_maker

        threads, engine = checked_threads(threads), engine_maker(engine)
        from foltr.simulation.runs.run import Run

        require(
            out is not None or not per_query,
            "per_query keeps its table in the run's folder: give out=...",
        )
        if progress:
            from foltr.simulation.runs.progress import RunProgress, label_of

            with RunProgress(label_of(self), engine=engine.name) as bar:
                both = bar.beside(watch)
                return self.run(out, threads, engine, both, per_query, measures, log=log)
        made = Run(self, out, threads, engine, watch, per_query, measures=measures, log=log)
        return made.result()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float | str) else repr(value)
