"""A component that gives what it should not, or writes where it should not, is told by name;
nothing else is hurt."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import foltr
from foltr.errors import Mistake
from foltr.kinds import ChangesMessages, Forgets, Memoryless, PartitionDefaults, Remembering
from foltr.runs.setup import population_of
from foltr.spec import FAMILIES, aggregators, attacks, partitions, unlearners
from foltr.world.population import iid
from foltr.world.protocols import Phase

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
    class Unsound(Forgets):
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
        "every client must search at least once",
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
