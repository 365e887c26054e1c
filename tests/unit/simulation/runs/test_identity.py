"""The identity of a run: what it depends on, and the name of the folder that carries it."""

import subprocess
import sys
from dataclasses import replace

import pytest

from foltr.experiment import Experiment
from foltr.simulation.runs.identity import folder_name, identity, identity_in, revisions

SMALL = Experiment(
    data="Synthetic(queries=40)",
    clients=6,
    rounds=30,
    evaluate_every=7,
    learner="PDGD(sessions=3)",
)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "identity_before"),
    [
        ({}, "6ada63fb42a199ec"),
        ({"privacy": "Laplace(epsilon=1.0, clip=0.1)"}, "9b1c57fcecfc988a"),
        ({"learner": "ES()", "privacy": "RandomizedReward(p=0.5)"}, "0f4d90d97f469bde"),
        ({"channel": "SecureSum()"}, "6a1cccc82422cad8"),
        ({"learner": "Personal()", "attack": "Mimic()", "malicious": 1}, "d16bf8ddfcb9dfe0"),
        ({"privacy": "Gaussian(noise=1.0, clip=0.1)"}, None),
        ({"privacy": "GammaShares(epsilon=1.2, sensitivity=3.0)"}, None),
    ],
)
def test_finished_runs_are_found_unless_their_mechanism_changed(fields, identity_before):
    """Identities as they were at commit 9756b49; a component with a revision has another one."""
    e = Experiment(data="Synthetic(queries=20)", clients=6, rounds=3, **fields)
    now = identity(e, e.data.load("train"), e.data.load("test"))
    assert (now == identity_before) == (revisions(e) == {}) and (identity_before is None) == bool(
        revisions(e)
    )


def test_identity_is_of_config_and_data_not_of_threads_or_engine(tmp_path):
    folder = SMALL.run(tmp_path).folder
    assert SMALL.run(tmp_path, threads=2).folder == folder
    assert SMALL.run(tmp_path, engine="debug").found
    changes = {"seed": 2}, {"learner": "PDGD(sessions=3, lr=0.2)"}, {"evaluate_every": 8}
    others = [replace(SMALL, **change) for change in changes]
    assert len({folder, *(e.run(tmp_path).folder for e in others)}) == 4


SCRIPT = """
from dataclasses import dataclass
import foltr
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator

@aggregator
@dataclass(frozen=True)
class Scaled(Memoryless):
    def combine(self, cohort):
        return FACTOR * cohort.updates.mean(axis=0, dtype=float)

e = foltr.Experiment(data="Synthetic(queries=40)", clients=4, rounds=5, aggregator=Scaled())
result = e.run("runs")
print(result.found, result.final["ndcg@10"])
"""


def test_a_component_of_a_script_is_part_of_the_identity(tmp_path):
    """Edited, the same repr is another experiment; typed at a prompt, it has no identity that a
    folder could keep."""

    def printed_with(factor):
        (tmp_path / "script.py").write_text(SCRIPT.replace("FACTOR", factor))
        words = [sys.executable, "script.py"]
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.split()

    first, again, other = printed_with("1.0"), printed_with("1.0"), printed_with("-1.0")
    assert (first[0], again[0], other[0]) == ("False", "True", "False")
    assert first[1] == again[1] != other[1]
    words = [sys.executable, "-c", SCRIPT.replace("FACTOR", "1.0")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "Scaled is in no file" in done.stderr and len(list((tmp_path / "runs").iterdir())) == 2


def test_a_folder_is_recognised_by_the_name_that_it_was_given(tmp_path):
    small = {"data": "Synthetic(queries=40)"}
    for e in (Experiment(**small), Experiment(**small, baseline="LeastSquares()")):
        name = folder_name(e, "0123456789abcdef")
        assert identity_in(name) == "0123456789abcdef"
    for name in ("mine", "a-0123456789abcdef", "a-b-c-d-0123456789abcdef",
                 "a-b-c-0123456789ABCDEF", "a-b-0123456789abcde", "a--0123456789abcdef",
                 "2024-b-0123456789abcdef", "a-b-0123456789abcdef\n"):  # fmt: skip
        assert identity_in(name) is None
