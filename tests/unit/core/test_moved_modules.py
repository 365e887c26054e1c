"""An import of before is told the new one: every line at once, and the right one."""

import re

import pytest
from foltr.advice.imports import advice, home_of, module_now, names_of
from foltr.advice.moved import MODULES, NAMES

# the imports of the how-to pages, the examples and the README of cf2290c that no longer work
BEFORE = {
    "from foltr.core import Array, Cohort, Memory, require": [
        "from foltr.core import Array, Cohort, Memory",
        "from foltr.core.errors import require",
    ],
    "from foltr.core import Array, Ranker, Tell, User, require": [
        "from foltr.core import Array, Ranker, SendReward, User",
        "from foltr.core.errors import require",
        "Tell is called SendReward now",
    ],
    "from foltr.data.dataset import Dataset, padded": [
        "from foltr.core.world.dataset import Dataset, padded"
    ],
    "from foltr.worlds import Past, Phase": ["from foltr.core.world.protocols import Past, Phase"],
    "from foltr.worlds import Partition": ["from foltr.core.world.protocols import Partition"],
    "from foltr.worlds import Ranked": ["from foltr.core.world.protocols import Ranked"],
    "from foltr.users.cascade import Cascade": [
        "from foltr.components.users.cascade import Cascade"
    ],
    "from foltr.core.spec import FAMILIES, described": [
        "from foltr.core.spec import FAMILIES",
        "from foltr.cli.components import described",
    ],
    "from foltr.simulation import Population, holding": [
        "from foltr.core.world.population import Population, holding"
    ],
    "from foltr.privacy_account import ledger_of": [
        "from foltr.privacy.guarantee import ledger_of"
    ],
    "from foltr.privacy.laplace import Laplace": [
        "from foltr.components.privatizers.laplace import Laplace"
    ],
    "from foltr.privacy.events import Event, RandomizedResponse, Setting": [
        "from foltr.core.events import Event, RandomizedResponse, Setting"
    ],
    "from foltr.policies import best_first, scored": [
        "from foltr.core.ranking import best_first, scored"
    ],
    "from foltr.partitions.iid import IID": ["from foltr.components.partitions.iid import IID"],
    "from foltr.learners.pdgd import PDGD": ["from foltr.components.learners.pdgd import PDGD"],
    "from foltr.data.synthetic import Synthetic": [
        "from foltr.components.sources.synthetic import Synthetic"
    ],
    "from foltr.cli import app": [],  # the module app of the package cli
    "from foltr.baselines.ranking_svm import RankingSVM": [
        "from foltr.components.baselines.ranking_svm import RankingSVM"
    ],
    # others of which several things have the name now
    "from foltr.worlds import Attack": ["from foltr.core.world.protocols import Attack"],
    "from foltr.worlds import Baseline as B": [
        "from foltr.core.world.protocols import Baseline as B"
    ],
    "from foltr.crafting import known, mean, spread": [
        "from foltr.components.attacks._crafting import known, mean, spread"
    ],
    "from foltr.gating import look": ["from foltr.components.aggregators._gating import look"],
    "from foltr.outcome import known": ["from foltr.simulation.runs.result import known"],
    "from foltr.core.cohorts import middle": ["from foltr.core.cohorts import median"],
    "from foltr.simulation import Simulated": [
        "from foltr.core.world.population import SimulatedUser"
    ],
    "from foltr.secure_sum.client import Client": ["import SumClient"],
    "from foltr.core.kinds import require, Cohort": [
        "from foltr.core.kinds import require, Cohort"
    ],
    # other forms
    "import foltr.policies as policies": ["`import foltr.core.ranking as policies`"],
    "import foltr.aggregators.mean": ["`import foltr.components.aggregators.mean`"],
    "from foltr import policies": ["`from foltr import ranking as policies`"],
    "from foltr import worlds as w": ["`from foltr.core.world import protocols as w`"],
    "import foltr\nfoltr.policies.best_first": ["foltr.core.ranking for foltr.policies"],
}


@pytest.mark.parametrize("line", BEFORE)
def test_an_import_of_before_is_told_the_right_one(line):
    told = advice(line)
    if BEFORE[line] and BEFORE[line][0] != line:
        assert all(part in told for part in BEFORE[line]), told
    else:
        assert not told


@pytest.mark.parametrize("line", BEFORE)
def test_what_is_told_can_be_imported(line):
    told = advice(line).partition(" instead of ")[0]
    lines = re.findall(r"`((?:from|import) [^`]+)`", told)
    assert lines or not told or " for foltr." in told
    for each in lines:
        exec(each, {})


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_module_that_stands_for_another_exists(module):
    assert names_of(module_now(f"foltr.{module}")) is not None


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_name_that_stands_for_another_exists(name):
    module, _, called = name.rpartition(".")
    home, now = home_of(f"foltr.{module}", called)
    assert now in names_of(home)


def test_all_lines_of_a_file_are_told_at_once():
    told = advice(
        "from foltr.core import require\n"
        "from foltr.partitions.iid import IID\n"
        "from foltr.core.spec import partition\n"
        "@partition\n"
        "class Mine:\n"
        "    def most(self, sessions):\n"
        "        return self.of.most(sessions)\n"
    )
    assert [int(n) for n in re.findall(r"line (\d+):", told)] == [1, 2, 6, 7]
    assert told.count("most_sessions") == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("from foltr.core.kinds import Memorless", "did you mean 'Memoryless'?"),
        ("from foltr.core.spec import aggregater", "did you mean 'aggregator'?"),
        ("from foltr.core import Coort", "did you mean 'Cohort'?"),
        ("from foltr.kindz import Memoryless", "foltr.core.kinds import Memoryless"),
        ("import foltr.kindz", "did you mean 'foltr.core.kinds'?"),
    ],
)
def test_a_misspelt_name_is_told_the_nearest(line, told):
    assert told in advice(line)


def test_imports_of_today_are_left_alone():
    assert not advice(
        "import foltr\nimport numpy as np\nfrom foltr import PDGD, Experiment, kinds\n"
        "from foltr.core.kinds import Memoryless\nfrom foltr.core import Array\n"
        "from foltr.components.aggregators.mean import Mean\nfoltr.PDGD\nfoltr.ranking.scored\n"
    )
