"""The contract tests of learners themselves: a learner that breaks its contract fails them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ONE = '''
@learner
@dataclass(frozen=True)
class Planted{name}(SendsUpdates):
    """It shows the first documents, and learns nothing."""

    sessions: int = 3

    def learn(self, ranker, params, memory, user, rng, t, send_reward):
        for s in range({sessions}):
            user.session(lambda docs: {shown})
        {more}
        return {gives}
'''
USUAL = {
    "sessions": "user.sessions",
    "shown": "np.arange(5)",
    "more": "",
    "gives": "0 * params, float(user.sessions), memory",
}
MESSAGE = "test_a_message_is_finite_numbers_of_four_bytes"
BROKEN = {
    "Dupes": ({"shown": "np.zeros(5, int)"}, MESSAGE),
    "Documents": ({"shown": "docs[:5]"}, MESSAGE),
    "TooFew": ({"sessions": "user.sessions - 1"}, "test_all_sessions_are_asked_for_and_no_other"),
    "TooMany": ({"sessions": "user.sessions + 1"}, "test_all_sessions_are_asked_for_and_no_other"),
    "Long": ({"gives": "params.astype(float), 1.0, memory"}, MESSAGE),
    "Short": ({"gives": "params[1:], 1.0, memory"}, MESSAGE),
    "NotFinite": ({"gives": "np.nan * params, 1.0, memory"}, MESSAGE),
    "Weightless": ({"gives": "params, 0.0, memory"}, MESSAGE),
    "One": ({"gives": "params"}, MESSAGE),
    "Writes": ({"more": "params += 1"}, MESSAGE),
    "Remembers": (
        {"gives": "params, 1.0, np.zeros(3, np.float32)"},
        "test_what_a_device_keeps_has_its_shape_and_kind",
    ),
    "Random": (
        {"gives": "np.random.default_rng().normal(size=len(params)).astype('f4'), 1.0, memory"},
        "test_the_same_streams_give_the_same_message",
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    file = tmp_path_factory.mktemp("planted") / "planted.py"
    head = (
        "from dataclasses import dataclass\nimport numpy as np\n"
        "from foltr.core.kinds import SendsUpdates\nfrom foltr.core.spec import learner\n"
    )
    broken = [ONE.format(name=name, **{**USUAL, **BROKEN[name][0]}) for name in BROKEN]
    file.write_text("\n".join([head, ONE.format(name="Good", **USUAL), *broken]))
    words = ["tests/contracts/test_learners.py", "-v", "-k", "Planted", "-p", "no:cacheprovider"]
    code = (
        f"import foltr, pytest; foltr.use({str(file)!r}); raise SystemExit(pytest.main({words}))"
    )
    # options that a user gives to pytest by PYTEST_ADDOPTS are not for this one
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "300", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BROKEN)
def test_a_learner_that_breaks_its_contract_is_found(told, name):
    assert re.search(rf"::{BROKEN[name][1]}\[Planted{name}\] FAILED", told), told


def test_a_learner_that_keeps_it_passes(told):
    assert len(re.findall(r"\[PlantedGood\] PASSED", told)) == 8
    assert not re.search(r"\[PlantedGood\] FAILED", told)
