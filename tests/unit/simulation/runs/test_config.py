"""From values by name to an experiment."""

import pytest

from foltr.components.learners.es import ES
from foltr.core.errors import Mistake
from foltr.simulation.runs.config import experiment


def test_fields_of_a_component_are_judged_together():
    made = experiment({"learner": "ES()", "learner.sessions": 3, "learner.antithetic": False})
    assert made.learner == ES(sessions=3, antithetic=False)
    made = experiment({"learner": "ES()", "privacy": "RandomizedReward(p=0.08)", "learner.k": 30})
    assert made.learner.reward_levels == 31
    made = experiment({"channel": "SecureSum()", "dropout": 0.4, "channel.threshold": 0.55})
    assert made.channel.threshold == 0.55
    with pytest.raises(Mistake, match="no privacy is set: give privacy as a whole first"):
        experiment({"privacy.epsilon": 3})
    with pytest.raises(Mistake, match="did you mean 'sessions'"):
        experiment({"learner.sesions": 3})
