"""An experiment: all components and settings of a run, and the checks that they fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

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

    T = TypeVar("T")

    class Part(Generic[T]):
        """The type of a field that holds a component: it may be given as its spec, too."""

        def __get__(self, experiment: object, owner: type) -> T: ...
        def __set__(self, experiment: object, component: T | str) -> None: ...
else:

    class Part:
        def __class_getitem__(cls, hint: Any) -> Any:
            return hint


def setting(default: Any, help: str) -> Any:
    """A field of `Experiment` with its default and its meaning. It is declared nowhere else:
    TOML files, the options of `foltr run`, `foltr show Experiment` and the documentation are made
    of it."""
    return field(default=default, metadata={"help": help})


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

    data: Part[Source] = setting(Synthetic(), "Queries, documents and relevance labels.")
    partition: Part[Partition] = setting(
        IID(), "How data and behaviour are divided among clients."
    )
    users: Part[ClickModel] = setting(Cascade(), "How users click.")
    ranker: Part[Ranker] = setting(Linear(), "The model that scores documents.")
    learner: Part[Learner] = setting(PDGD(), "How a client turns clicks into an update.")
    attack: Part[Attack | None] = setting(None, "What malicious clients do.")
    malicious: int = setting(0, "Number of malicious clients.")
    roaming: bool = setting(False, "Draw the malicious clients again in each round.")
    aggregator: Part[Aggregator] = setting(
        Mean(), "How the server combines the updates of a round."
    )
    optimizer: Part[Optimizer] = setting(SGD(), "How the server applies the combined update.")
    privacy: Part[Privatizer | None] = setting(
        None, "The privacy mechanism, such as Laplace(...)."
    )
    channel: Part[Channel | None] = setting(
        None, "The protocol that carries messages, such as SecureSum()."
    )
    baseline: Part[Baseline | None] = setting(
        None, "A baseline that learns from labels, not clicks."
    )
    unlearning: Part[Unlearner | None] = setting(
        None, "The unlearning method for clients that leave."
    )
    leaving: Leaving = setting((), "Groups of clients that leave: [[3], [7]], or malicious.")
    clients: int = setting(100, "Number of clients.")
    participation: float = setting(1.0, "Fraction of the clients that take part in a round.")
    dropout: float | None = setting(None, "Probability that a message is lost.")
    rounds: int = setting(100, "Number of rounds.")
    history: int | None = setting(
        None, "Number of rounds between updates that clients store, for unlearning."
    )
    evaluate_every: int = setting(10, "Number of rounds between evaluations.")
    empty: Empty = setting(
        "skip", "How queries without a relevant document count: skip, zero or one."
    )
    seed: int = setting(1, "Seed of all random draws.")
    evaluate_on: Literal["validation"] | None = added(
        help="validation: measure the validation queries beside the test ones."
    )
    patience: int | None = added(
        help="End the run when this many evaluations in a row bring no higher nDCG@10 on the"
        " validation queries."
    )

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
        from foltr.simulation.runs.execution import RunOptions

        options = RunOptions(threads, engine, per_query, measures, log)
        from foltr.simulation.runs.run import Run

        require(
            out is not None or not per_query,
            "per_query keeps its table in the run's folder: give out=...",
        )
        if progress:
            from foltr.simulation.runs.progress import RunProgress, label_of

            with RunProgress(label_of(self), engine=str(engine)) as bar:
                return Run(self, out, options, bar.beside(watch)).result()
        return Run(self, out, options, watch).result()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float | str) else repr(value)
