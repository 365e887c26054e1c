"""The contract tests themselves: what breaks a contract fails, what keeps it passes, whatever
fields it has and without being mentioned there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foltr.core import spec

ROOT = Path(__file__).resolve().parents[2]
PLANTED = '''
"""Components that keep their contract, and some that do not."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from foltr.core import Aggregator, ClickModel
from foltr.core.errors import require
from foltr.core.kinds import (
    ChangesMessages, Memoryless, PrivatizerDefaults, SendsUpdates, TableClickModel,
    UnlearnerDefaults,
)
from foltr.core.world.measures import OfflineMeasure
from foltr.core.spec import (
    aggregator, attack, baseline, channel, click_model, learner, measure, optimizer, partition,
    privatizer, ranker, source, unlearner
)
from foltr.components.optimizers.sgd import SGD
from foltr.components.partitions.iid import IID
from foltr.components.rankers.linear import Linear
from foltr.components.channels.secure_sum import SecureSum
from foltr.core.world.protocols import Phase, Ranked


@aggregator
@dataclass(frozen=True)
class PlantedHonest(Memoryless):
    """A mean that asks for a bit of everything."""

    share: float
    count: int
    name: str
    kind: Literal["one", "other"]
    users: ClickModel
    several: tuple[float, ...]
    pair: tuple[int, str]
    perhaps: float | None
    yes: bool
    rule: Aggregator

    def __post_init__(self):
        require(0.5 < self.share < 1.0 and self.count == 3 and len(self.several) == 2, "no")

    def combine(self, cohort):
        return cohort.updates.mean(axis=0, dtype=float)


@aggregator
@dataclass(frozen=True)
class PlantedImpossible(Memoryless):
    """Takes nothing that one would think of."""

    share: float

    def __post_init__(self):
        require(self.share == 0.123, f"share must be 0.123, got {self.share}")

    def combine(self, cohort):
        return cohort.updates.mean(axis=0, dtype=float)


@aggregator
@dataclass(frozen=True)
class PlantedFirst(Memoryless):
    """Depends on the order of clients."""

    def combine(self, cohort):
        return cohort.updates[0].astype(float)


@optimizer
@dataclass(frozen=True)
class PlantedDown(SGD):
    """Goes downhill."""

    def __call__(self, params, direction, memory):
        return params - self.lr * direction, memory


@ranker
@dataclass(frozen=True)
class PlantedSlope(Linear):
    """Its pullback is half of the gradient."""

    def pullback(self, params, docs, dscores):
        return np.float32(0.5) * (dscores @ docs)


@click_model
@dataclass(frozen=True)
class PlantedSure(TableClickModel):
    """Clicks with a probability of two."""

    click: float

    def tables(self, grades, depth):
        return np.full((depth, grades), 2.0), np.zeros((depth, grades))


@privatizer
@dataclass(frozen=True)
class PlantedLong(PrivatizerDefaults):
    """Sends numbers of eight bytes."""

    clip: float

    def on_client(self, payload, n, rng):
        return payload.astype(float)

    def events(self, setting):
        return ()

    def nominal(self):
        return "nothing"


@channel
@dataclass(frozen=True)
class PlantedPlain(SecureSum):
    """Gives the mean of the updates, whatever their weights."""

    def carry(self, cohort, ask, rng):
        got = super().carry(cohort, ask, rng)
        return replace(got, updates=cohort.updates.mean(axis=0, keepdims=True))


@attack
@dataclass(frozen=True)
class PlantedPeeks(ChangesMessages):
    """Looks at everybody, and says otherwise."""

    rule: Aggregator

    overhears = False

    def craft(self, cohort, malicious, *rest):
        return np.tile(cohort.updates.mean(axis=0), (malicious.sum(), 1))


@partition
@dataclass(frozen=True)
class PlantedBusy(IID):
    """Clients who search more often than they say."""

    def most_sessions(self, sessions):
        return sessions - 1


@unlearner
@dataclass(frozen=True)
class PlantedShort(UnlearnerDefaults):
    """Starts with numbers of four bytes."""

    rounds: int

    def start(self, past):
        return past.final.astype(np.float32)

    def phases(self, past):
        return (Phase(self.rounds, past.sessions),)


@source
@dataclass(frozen=True)
class PlantedHalf:
    """Has nothing to test with."""

    path: str
    splits = ("train",)

    def load(self, split):
        raise NotImplementedError


@learner
@dataclass(frozen=True)
class PlantedLuck(SendsUpdates):
    """Makes users draw from its own stream."""

    sessions: int

    def learn(self, ranker, params, memory, user, rng, t, tell):
        return np.zeros_like(params), 1.0, memory

    def user_draws(self, users, own):
        return own


@baseline
@dataclass(frozen=True)
class PlantedWorst:
    """Ranks the worst documents first."""

    strength: float

    def fit(self, data, validation, seed):
        w = -(data.features * data.labels[0][:, None]).mean(axis=0)
        return Ranked(lambda docs: docs @ w, w)


@measure
@dataclass(frozen=True)
class PlantedDeep(OfflineMeasure):
    """Looks deeper than it says."""

    k: int

    @property
    def depth(self):
        return self.k

    def of_list(self, grades, best):
        return float(grades[: self.k + 1].sum()) / float(best.sum()) if best.any() else np.nan
'''
BROKEN = {
    "PlantedImpossible": "test_an_aggregator_gives_one_direction",
    "PlantedFirst": "test_the_order_of_clients_does_not_matter",
    "PlantedDown": "test_an_optimizer_goes_uphill_and_keeps_its_input",
    "PlantedSlope": "test_a_pullback_is_the_gradient",
    "PlantedSure": "test_click_tables_are_probabilities_and_clicks_follow_them",
    "PlantedLong": "test_a_privatizer_takes_any_update_and_leaves_the_original",
    "PlantedPlain": "test_a_channel_gives_the_weighted_mean_or_nothing",
    "PlantedPeeks": "test_own_knowledge_looks_at_no_other_client",
    "PlantedBusy": "test_nobody_searches_more_than_the_most",
    "PlantedShort": "test_it_starts_with_parameters_and_makes_rounds",
    "PlantedHalf": "test_a_source_has_train_and_test",
    "PlantedLuck": "test_a_learner_knows_how_often_it_learns",
    "PlantedDeep": "test_a_measure_looks_no_deeper_than_it_says",
    "PlantedWorst": "test_a_baseline_ranks_the_better_documents_first",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    file = tmp_path_factory.mktemp("planted") / "planted.py"
    file.write_text(PLANTED, encoding="utf-8")
    words = ["tests/contracts", "-v", "-k", "Planted", "--tb=short", "-p", "no:cacheprovider"]
    code = (
        f"import foltr, pytest; foltr.use({str(file)!r}); raise SystemExit(pytest.main({words}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        # options that a user gives to pytest by PYTEST_ADDOPTS are not for this one
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "300", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and " PASSED" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BROKEN)
def test_a_component_that_breaks_its_contract_is_found(output, name):
    assert re.search(rf"::{BROKEN[name]}\[.*\b{name}\b.*\] (FAILED|ERROR)", output), output
    if name != "PlantedImpossible":  # all else about it is as it should be
        for test in ("test_a_spec_round_trips", "test_is_frozen_and_explained"):
            assert re.search(rf"::{test}\[{name}\] PASSED", output), output


def test_a_component_that_takes_no_plain_value_says_which(output):
    assert "PlantedImpossible: no plain value of share will do" in output
    assert "share must be 0.123, got" in output


def test_a_component_with_required_fields_of_every_kind_passes(output):
    assert len(re.findall(r"\[PlantedHonest\] PASSED", output)) >= 7
    assert not re.search(r"PlantedHonest\] (FAILED|ERROR)", output)


def test_every_family_is_planted():
    planted = re.findall(r"^@(?!dataclass)(\w+)$", PLANTED, re.M)
    assert {family.register for family in spec.FAMILIES} == {
        getattr(spec, name) for name in planted
    }
