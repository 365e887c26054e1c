"""A user's file that was written for an earlier foltr gets an error that names what to change."""

import re

import pytest

from foltr.core.errors import Mistake
from foltr.experiment.user_files import use

HEAD = """
from dataclasses import dataclass
import numpy as np
from foltr import kinds
from foltr.core.spec import aggregator, attack, channel, learner, optimizer, partition, privatizer
"""
ATTACK = """
@attack
@dataclass(frozen=True)
class Mine(kinds.ChangesMessages):
    def craft(self, cohort, malicious, params, rng):
        return -cohort.updates[malicious]
"""
CHANNEL = """
@channel
@dataclass(frozen=True)
class Mine:
    step = 0.0
    def withstands(self, asked): return None
    def fewest(self, asked): return 1
    def carry(self, cohort, asked, rng): return cohort
"""
LEARNER = """
@learner
@dataclass(frozen=True)
class Mine(kinds.SendsUpdates):
    sessions: int = 1
    rewards = 0
    def learn(self, ranker, params, memory, user, rng, t, tell): return params, 1.0, memory
"""
RULE = """
@aggregator
@dataclass(frozen=True)
class Mine(kinds.Memoryless):
    @property
    def trusted(self): return 3
    def combine(self, cohort): return cohort.updates[0]
"""
OPTIMIZER = """
@optimizer
@dataclass(frozen=True)
class Mine:
    def init(self, dim): return ()
    def __call__(self, params, direction, memory): return params + direction, memory
"""
PARTITION = """
@partition
@dataclass(frozen=True)
class Mine:
    def population(self, data, users, clients, sessions, seed): ...
    def most_sessions(self, sessions): return sessions
"""
PRIVATIZER = """
@privatizer
@dataclass(frozen=True)
class Mine(kinds.Untouched):
    even = True
    def events(self, setting): return ()
    def nominal(self): return ""
"""


def refusal(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(Mistake) as error:
        use(file)
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("from foltr.policies import best_first", "from foltr.core.ranking import best_first"),
        ("from foltr.core import Array, require", "from foltr.core.errors import require"),
        (
            "from foltr.simulation import Population",
            "from foltr.core.world.population import Population",
        ),
        ("from foltr.users.cascade import Cascade", "components.users.cascade import Cascade"),
    ],
)
def test_an_import_of_before_gets_the_new_one(tmp_path, line, now):
    assert now in refusal(tmp_path, f"{line}\n")


def test_a_name_that_is_gone_and_a_module_of_others(tmp_path):
    assert "no such name any more" in refusal(
        tmp_path, "from foltr.looks import nothing_like_it\n"
    )
    told = refusal(tmp_path, "import no_such_package\n")
    assert "No module named 'no_such_package'" in told and "any more" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ATTACK, r"write `def craft\(self, cohort, malicious, ask, rng\)`; ask.params is what"),
        (CHANNEL, r"write `def carry\(self, cohort, ask, rng\)`; ask.n is what asked was"),
        (LEARNER, "rewards is called reward_levels now"),
        (RULE, "trusted is called trusted_queries now"),
        (PRIVATIZER, "even is called needs_equal_weights now"),
        (OPTIMIZER, "add `step_size = None`, or inherit OptimizerDefaults of foltr.core.kinds"),
        (PARTITION, "add `identical_clients = False`, or inherit PartitionDefaults"),
    ],
    ids=["attack", "channel", "learner", "rule", "privatizer", "optimizer", "partition"],
)
def test_a_component_of_before_gets_the_line_to_change(tmp_path, text, told):
    assert re.search(told, refusal(tmp_path, HEAD + text))
