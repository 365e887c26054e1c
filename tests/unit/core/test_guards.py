"""A component that gives what it should not, or writes where it should not, is refused by name;
nothing else is hurt."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.kinds import (
    ChangesMessages,
    Memoryless,
    OptimizerDefaults,
    PartitionDefaults,
    PrivatizerDefaults,
    Remembering,
    SendsUpdates,
    UnlearnerDefaults,
)
from foltr.core.spec import (
    FAMILIES,
    aggregators,
    attacks,
    learners,
    optimizers,
    partitions,
    privatizers,
    rankers,
    unlearners,
)
from foltr.core.world.population import iid
from foltr.core.world.protocols import Phase
from foltr.experiment import Experiment
from foltr.simulation.runs.setup import population_of

SMALL = foltr.Experiment(
    data="Synthetic(queries=30)", clients=5, rounds=4, learner="PDGD(sessions=2)"
)


@pytest.fixture(autouse=True)
def only_here():
    """What a test registers is forgotten after it."""
    yield
    for family in FAMILIES:
        family.forget(__name__)


def made(family, kind):
    family.register(kind)
    return kind()


def test_a_rule_cannot_change_what_others_see():
    @dataclass(frozen=True)
    class Writes(Memoryless):
        def combine(self, cohort):
            cohort.updates[:] = 0.0
            return cohort.updates.mean(axis=0, dtype=float)

    with pytest.raises(ValueError, match="read-only"):
        replace(SMALL, aggregator=made(aggregators, Writes)).run()


def test_an_attack_cannot_change_honest_messages():
    @dataclass(frozen=True)
    class Reaches(ChangesMessages):
        def craft(self, cohort, malicious, ask, rng):
            cohort.updates[~malicious] = 0.0
            return cohort.updates[malicious]

    with pytest.raises(ValueError, match="read-only"):
        replace(SMALL, attack=made(attacks, Reaches), malicious=1).run()


@pytest.mark.parametrize("memory", [None, [], (1.0,), ([0.0],)])
def test_a_memory_that_no_checkpoint_can_hold(memory):
    @dataclass(frozen=True)
    class Keeps(Remembering):
        def init(self, dim):
            return memory

        def __call__(self, cohort, memory, rng):
            return cohort.updates.mean(axis=0, dtype=float), memory

    with pytest.raises(Mistake, match=r"Keeps remembers .* not a tuple of arrays"):
        replace(SMALL, aggregator=made(aggregators, Keeps)).run()


def test_remarks_are_sentences():
    @dataclass(frozen=True)
    class Remarks(Memoryless):
        def fits(self, n):
            return "one sentence, not in a tuple"

        def combine(self, cohort):
            return cohort.updates.mean(axis=0, dtype=float)

    with pytest.raises(Mistake, match=r"Remarks\.fits gave .* not a tuple of sentences"):
        replace(SMALL, aggregator=made(aggregators, Remarks))


UNSOUND = {
    "no tuple": ([Phase(1, 1)], "not a tuple of Phase"),
    "no phase": ((3,), "not a tuple of Phase"),
    "negative": ((Phase(-1, 1),), "no phase has rounds < 0"),
    "nobody searches": ((Phase(1, 0),), "sessions < 1"),
    "somebody else": (
        (Phase(1, 1, "everybody"),),
        "who must be one of remaining, leaving, stored, got 'everybody'",
    ),
    "nothing stored": ((Phase(1, 1, "stored"),), "says that it stores nothing"),
    "no number": (
        (Phase(1, 1, send=lambda updates, clients, t: updates * np.nan),),
        "sends numbers that are not finite",
    ),
    "another shape": ((Phase(1, 1, send=lambda updates, clients, t: updates[1:]),), "instead of"),
}


@pytest.mark.parametrize("which", UNSOUND)
def test_phases_that_cannot_be_made(which, tmp_path):
    phases, says = UNSOUND[which]

    @dataclass(frozen=True)
    class Unsound(UnlearnerDefaults):
        def phases(self, past):
            return phases

    before = SMALL.run(tmp_path)
    result = (before.folder / "result.json").read_bytes()
    with pytest.raises(Mistake, match=f"Unsound.*{says}"):
        replace(SMALL, unlearning=made(unlearners, Unsound), leaving=((1,),)).run()
    assert (before.folder / "result.json").read_bytes() == result


TABLES = {
    "a document that is not there": (
        {"rows": lambda p: p.rows + 10**6},
        "every row must be one of",
    ),
    "an empty block": ({"stops": lambda p: p.starts}, "every block must hold at least one"),
    "a block beyond the documents": (
        {"stops": lambda p: p.stops + len(p.rows)},
        "every block must hold at least one",
    ),
    "a judge who is not there": (
        {"labelling": lambda p: p.labelling + 9},
        "every block must be judged by one of",
    ),
    "a client without queries": (
        {"last": lambda p: p.first},
        "every client must draw from at least one",
    ),
    "users who do not click": (
        {"models": lambda p: p.models + 5},
        "every client must click by one of",
    ),
    "nobody searches": (
        {"sessions": lambda p: p.sessions * 0},
        "sessions must be >= 0, and some client must search",
    ),
    "another kind": (
        {"first": lambda p: p.first.astype(float)},
        "the table first .* wrong kind or shape",
    ),
    "no number": ({"ideals": lambda p: p.ideals * np.nan}, "ideals .* not finite"),
}


@pytest.mark.parametrize("which", TABLES)
def test_tables_that_a_kernel_could_not_trust(which):
    (change, says), data = TABLES[which], SMALL.data.load("train")

    @dataclass(frozen=True)
    class Wrong(PartitionDefaults):
        def population(self, data, users, clients, sessions, seed):
            p = iid(data, users, clients, sessions)
            return replace(p, **{name: of(p) for name, of in change.items()})

    with pytest.raises(Mistake, match=says):
        population_of(replace(SMALL, partition=made(partitions, Wrong)), data)


THREE = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)


@dataclass(frozen=True)
class Short:
    """A ranker whose scores are too few."""

    head = 0

    def init(self, features, rng):
        return np.zeros(features, np.float32)

    def scores(self, params, docs):
        return np.zeros(1, np.float32)

    def pullback(self, params, docs, dscores):
        return dscores @ docs


@dataclass(frozen=True)
class Halving(Short):
    """A ranker that writes into the documents."""

    def scores(self, params, docs):
        docs *= 0.5
        return docs @ params


def test_scores_are_checked_before_a_kernel_reads_them():
    rankers.register(Short)
    for engine in ("local", "debug"):
        with pytest.raises(
            Mistake, match=r"Short\.scores gave, for .* documents, float32 of shape \(1,\), not"
        ):
            replace(THREE, ranker=Short()).run(engine=engine)  # type: ignore[arg-type]


def test_nobody_writes_into_what_all_share():
    rankers.register(Halving)
    with pytest.raises(ValueError, match="read-only"):
        replace(THREE, ranker=Halving()).run()


@pytest.mark.parametrize("kind", ["one number", "one row", "complex", "short"])
def test_a_direction_of_another_shape_is_not_stretched(kind):
    @dataclass(frozen=True)
    class Odd(Memoryless):
        """An aggregator that gives something else."""

        kind: str = "one number"

        def combine(self, cohort):
            mean = cohort.updates.mean(axis=0, dtype=float)
            return {
                "one number": mean.sum(),
                "one row": mean[:1],
                "complex": mean * 1j,
                "short": mean[:-1],
            }[self.kind]

    aggregators.register(Odd)
    with pytest.raises(Mistake, match=r"round 0: Odd gave .*, not float64 of shape \(46,\)"):
        replace(THREE, aggregator=Odd(kind)).run()


@dataclass(frozen=True)
class Shrinking(OptimizerDefaults):
    """An optimizer that loses a parameter."""

    def init(self, dim):
        return ()

    def __call__(self, params, direction, memory):
        return params[:-1], memory


def test_an_optimizer_keeps_all_parameters():
    optimizers.register(Shrinking)
    with pytest.raises(Mistake, match="Shrinking gave"):
        replace(THREE, optimizer=Shrinking()).run()


def test_parameters_must_fit_a_device():
    with pytest.raises(FloatingPointError, match="round 0"):
        replace(THREE, optimizer="SGD(lr=1e40)").run()


FEW = {"data": "Synthetic(queries=20)", "clients": 30, "rounds": 4, "evaluate_every": 4}


@dataclass(frozen=True)
class Odd(PrivatizerDefaults):
    """A privatizer that does one thing wrong."""

    how: str = "fine"

    def on_client(self, payload, n, rng):
        wrong = {
            "scalar": np.float32(1),
            "one": payload[:1],
            "double": payload.astype(float),
            "rows": payload[None],
        }
        return wrong.get(self.how, payload)

    def on_server(self, direction, n, rng):
        return np.ones(1) if self.how == "server" else direction

    def events(self, setting):
        return {"text": ("bla",), "nothing": None}.get(self.how, ())

    def nominal(self):
        return "nothing"


@dataclass(frozen=True)
class Twice(SendsUpdates):
    """A learner that tells more than it declares."""

    how: str = "often"
    sessions: int = 2
    reward_levels = 3

    def learn(self, ranker, params, memory, user, rng, t, tell):
        for s in range(user.sessions):
            user.session(lambda docs: np.arange(min(10, len(docs))))
            tell(7 if self.how == "range" else 0, 1000 if self.how == "many" else 3, s)
            if self.how == "often":
                tell(0, 3, s)
        return np.zeros(len(params), np.float32), 2.0, memory


@pytest.fixture
def wrong_ones():
    privatizers.register(Odd), learners.register(Twice)


@pytest.mark.parametrize("engine", ["local", "debug"])
@pytest.mark.parametrize("how", ["scalar", "one", "double", "rows", "server"])
def test_what_a_privatizer_gives_is_looked_at(wrong_ones, how, engine):
    with pytest.raises(Mistake, match="Odd"):
        Experiment(**FEW, privacy=f"Odd(how={how!r})").run(engine=engine)


@pytest.mark.parametrize("how", ["text", "nothing"])
def test_events_that_nobody_knows_are_refused(wrong_ones, how):
    with pytest.raises(Mistake):
        Experiment(**FEW, privacy=f"Odd(how={how!r})")


@pytest.mark.parametrize(
    "how, why",
    [("often", "twice"), ("many", "one of 1000 rewards, declared 3"), ("range", "reward 7")],
)
def test_a_learner_sends_the_rewards_that_it_declared(wrong_ones, how, why):
    e = Experiment(**FEW, learner=f"Twice(how={how!r})", privacy="RandomizedReward(p=0.6)")
    with pytest.raises(Mistake, match=why):
        e.run()
