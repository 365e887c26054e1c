"""The state of a federation's server on disk."""

import stat
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core.errors import Mistake
from foltr.core.federation import State
from foltr.core.scoring import numbered
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.state import FILE, Forgotten, Plan, ServerState
from foltr.deployment.server.state_folder import open_state
from foltr.experiment.user_files import Code
from foltr.simulation.exports.export import trained_in
from foltr.simulation.runs.trained import load_ranker


def agreed(**changes):
    given = {"ranker": Linear(), "learner": PDGD(), "features": numbered(3)}
    return Agreement(**{**given, "asked": 2, "fewest": 1, "sessions": 4, "rounds": 9, **changes})


def test_a_folder_belongs_to_one_federation(tmp_path):
    state = open_state(tmp_path / "state", print)
    state.check_agreement(agreed())
    state.check_agreement(agreed())
    with pytest.raises(
        Mistake, match="another federation: rounds is 8 in the settings, 9 in the folder"
    ):
        state.check_agreement(agreed(rounds=8))
    assert state.folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in state.folder.iterdir())


def test_a_seed_is_drawn_once(tmp_path):
    state = open_state(tmp_path, print)
    assert state.seed(None) == state.seed(None) and state.seed(7) == 7


def test_only_the_last_models_are_kept(tmp_path):
    state = open_state(tmp_path, print)
    for t in range(6):
        state.keep_model(t, np.full(3, float(t)), keep=3)
    assert state.models() == [3, 4, 5] and state.model(4).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(Mistake, match=r"no model of round 2 is kept: choose one of rounds 3"):
        state.model(2)


def test_what_is_written_together_is_written_whole_or_not_at_all(tmp_path):
    state = open_state(tmp_path, print)
    with pytest.raises(KeyboardInterrupt), state.together():
        state.add_round({"round": 0})
        state.save(State(np.ones(2), (), (), 1))
        raise KeyboardInterrupt
    assert state.rounds() == [] and state.load() is None
    with state.together():
        state.add_round({"round": 0})
    assert ServerState(tmp_path / FILE).rounds() == [{"round": 0}]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from foltr.core.federation import State
from foltr.deployment.server.state import ServerState
state = ServerState(Path(sys.argv[1]))
for t in range(10**6):
    with state.together():
        state.add_round({"round": t})
        state.keep_model(t + 1, np.full(1_000, float(t)), 5)
        state.save(State(np.full(1_000, float(t)), (np.full(3, float(t)),), (), t + 1))
    print(t, flush=True)
"""


def test_after_a_kill_it_has_all_of_a_round_or_nothing(tmp_path):
    for draw in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / f"{draw}.db")],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        told = [process.stdout.readline() for _ in range(3 + 4 * draw)][-1]
        process.kill()
        told = int((process.stdout.read().splitlines() or [told])[-1])
        process.wait()
        state = ServerState(tmp_path / f"{draw}.db")
        now = state.load()
        assert now.t in (told + 1, told + 2), "what was told was on disk"
        assert len(state.rounds()) == now.t == state.models()[-1]
        assert now.params.tolist() == state.model(now.t).tolist() == [now.t - 1.0] * 1_000
        assert now.aggregator[0].tolist() == [now.t - 1.0] * 3


def test_who_was_forgotten_comes_back_as_it_was(tmp_path):
    plan = Plan(("c",), 5, (0, 2), 1, erased=True, clients=(7,))
    about = Forgotten(
        nodes=("b", "a"), pending=("d", "c"), wished=("b", "c"), clients=(4, 2),
        pending_clients=(7, 3), untold_clients=(2,), since=5, compared=4, restarted=3, plan=plan,
    )  # fmt: skip
    state = open_state(tmp_path, print)
    assert state.forgotten == Forgotten()
    state.set_forgotten(about)
    assert ServerState(tmp_path / FILE).forgotten == about


def test_a_deleted_model_is_in_no_file(tmp_path):
    state = open_state(tmp_path, print)
    params = np.random.default_rng(1).normal(size=500)
    state.keep_model(1, params, 9)
    state.save(State(params, (), (), 1))
    state.save_ranker(agreed(features=numbered(500)), params)
    assert any(params[:4].tobytes() in file.read_bytes() for file in tmp_path.iterdir())
    with state.together():
        state.erase_models()
        state.save(State(np.zeros(500), (), (), 2))
    assert state.truncate_log(1_000)
    assert not any(params[:4].tobytes() in file.read_bytes() for file in tmp_path.iterdir())
    assert [file.name for file in tmp_path.glob("*.json")] == []


def test_a_state_of_a_later_foltr_is_refused(tmp_path):
    open_state(tmp_path, print).set_about("format", b"2")
    with pytest.raises(Mistake, match="was made by a later foltr: update foltr"):
        open_state(tmp_path, print)


def test_what_is_saved_is_loaded(tmp_path):
    state = open_state(tmp_path, print)
    assert state.load() is None
    params = np.array([0.1, 0.2, 0.3])
    state.save(State(params, (np.ones(2),), (), 4, 1))
    found = state.load()
    assert found.params.tolist() == params.tolist() and (found.t, found.withheld) == (4, 1)
    assert found.aggregator[0].tolist() == [1.0, 1.0] and found.optimizer == ()


def test_who_took_part_is_known_without_those_who_left(tmp_path):
    state = open_state(tmp_path, print)
    state.add_participants(0, np.array([1, 2, 5]))
    state.add_participants(10, np.array([2, 3]))
    state.add_contributors(np.array([1, 2, 3, 5]))
    state.erase_clients(np.array([2, 9]))
    assert {t: who.tolist() for t, who in state.participants().items()} == {0: [1, 5], 10: [3]}
    assert state.contributors().tolist() == [1, 3, 5]
    state.erase_clients(None)
    assert state.participants() == {} and len(state.contributors()) == 0


def test_a_key_that_was_replaced_fits_and_nothing_else_does(tmp_path):
    from foltr.deployment.keys.keys import make_node
    from foltr.deployment.keys.roster import Roster

    made = [make_node(tmp_path / name, name, 2)[0] for name in ("a", "b", "c")]
    before = Roster((made[0], made[1]))
    new = made[0].with_next_keys(made[2].key, made[2].signs)
    state = open_state(tmp_path / "state", print)
    state.check_roster(before)
    with pytest.raises(Mistake, match="a node was removed or changed"):
        state.check_roster(Roster((replace(new.with_replaced_keys(), replaced=()), made[1])))
    state.check_roster(before.with_seat(new))
    state.check_roster(
        before.with_seat(new.with_replaced_keys())
    )  # also if it was stopped meanwhile
    state.check_roster(before.with_seat(new.with_replaced_keys()))
    with pytest.raises(Mistake, match="does not fit"):
        state.check_roster(before)  # the old key does not come back
    for other in (
        Roster((made[1], new.with_replaced_keys())),
        Roster((new.with_replaced_keys(),)),
        Roster((replace(new.with_replaced_keys(), clients=3), made[1])),
    ):
        with pytest.raises(Mistake, match="a node was removed or changed"):
            state.check_roster(other)


def test_the_saved_ranker_has_the_agreed_names(tmp_path):
    state, model = open_state(tmp_path, print), np.array([0.5, 1.0, 2.0])
    trained = load_ranker(state.save_ranker(agreed(), model))
    assert trained.names is None and trained.params.tolist() == model.tolist()
    names = ("bm25", "age", "")
    assert load_ranker(state.save_ranker(agreed(features=names), model)).names == names
    assert trained_in(tmp_path, Code(trusted=False)).names == names


def test_a_folder_with_files_of_others_is_no_state(tmp_path):
    """Its mode would be changed, and a server's files would lie among them."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    (folder / "photo.png").write_bytes(b"")
    with pytest.raises(Mistake, match="has files of others: name a folder of its own"):
        open_state(folder, print)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
