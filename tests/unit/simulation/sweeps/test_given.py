"""`--set` in a sweep: what has no effect is refused."""

import pytest

from foltr.core.errors import Mistake
from foltr.simulation.sweeps.file import read_sweep

STUDY = """
rounds = 5
[sweep]
seed = [1, 2]
users = ["Cascade()"]
[sweep.zip]
optimizer.lr = [0.1, 1.0]
evaluate_every = [1, 5]
[[sweep.method]]
name = "few, B"
clients = 3
learner = "PDGD(sessions=2)"
[[sweep.method]]
name = "many"
clients = 9
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


@pytest.mark.parametrize(
    "given, told",
    [
        ({"clients": 3}, "--set clients=3 has no effect: every method .* \"method='few, B'\""),
        ({"seed": 1}, r"lists the values of seed \(1, 2\). --only 'seed=1' narrows the sweep"),
        ({"seed": 7}, "--only 'seed=1' .* one of them; for another value, change the list"),
        ({"optimizer.lr": 0.1}, "--only 'optimizer.lr=0.1' narrows"),
        ({"users.kind": "poison"}, "lists the values of users .*Change users in the file"),
    ],
)
def test_what_has_no_effect_is_refused(study, given, told):
    with pytest.raises(Mistake, match=told):
        read_sweep(study, given)


def test_what_only_some_methods_take_is_told(study):
    swept = read_sweep(study, {"learner.lr": 0.5, "rounds": 2})
    assert swept.notes == ("--set learner.lr=0.5 does not change methods that set it: 'few, B'",)
    rates = {(p.method, p.experiment.learner.lr, p.experiment.rounds) for p in swept.points}
    assert rates == {("few, B", 0.1, 2), ("many", 0.5, 2)}
    with pytest.raises(Mistake, match=r"--set learner\.lr=0\.5 has no effect"):
        read_sweep(study, {"learner.lr": 0.5}, only={"method": ["few, B"]})
    assert read_sweep(study, {"learner.lr": 0.5}, only={"method": ["many"]}).notes == ()
