"""The state of a federation's server on disk."""

import stat
from dataclasses import replace

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core.errors import Mistake
from foltr.core.federation import State
from foltr.core.scoring import numbered
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.state import ServerState
from foltr.experiment.user_files import Code
from foltr.simulation.exports.export import trained_in
from foltr.simulation.runs.trained import load_ranker


def agreed(**changes):
    given = {"ranker": Linear(), "learner": PDGD(), "features": numbered(3)}
    return Agreement(**{**given, "asked": 2, "fewest": 1, "sessions": 4, "rounds": 9, **changes})


def test_a_folder_belongs_to_one_federation(tmp_path):
    state = ServerState(tmp_path / "state")
    state.open(agreed())
    state.open(agreed())
    with pytest.raises(
        Mistake, match="another federation: rounds is 8 in the settings, 9 in the folder"
    ):
        state.open(agreed(rounds=8))
    assert state.path.stat().st_mode & 0o077 == 0


def test_a_seed_is_drawn_once(tmp_path):
    state = ServerState(tmp_path)
    assert state.seed(None) == state.seed(None) and state.seed(7) == 7


def test_only_the_last_models_are_kept(tmp_path):
    state = ServerState(tmp_path)
    state.open(agreed())
    for t in range(6):
        state.keep_model(t, np.full(3, float(t)), keep=3)
    assert state.models() == [3, 4, 5] and state.model(4).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(Mistake, match=r"no model of round 2 is kept: choose one of rounds 3"):
        state.model(2)


def test_a_line_that_a_crash_has_cut_is_left_out(tmp_path):
    state = ServerState(tmp_path)
    state.add_round({"round": 0})
    with open(tmp_path / "rounds.jsonl", "a") as file:
        file.write('{"round": 1, "ask')
    state.add_round({"round": 2})
    assert [line["round"] for line in state.rounds()] == [0, 2]


def test_what_is_saved_is_loaded(tmp_path):
    state = ServerState(tmp_path)
    assert state.load() is None
    params = np.array([0.1, 0.2, 0.3])
    state.save(State(params, (np.ones(2),), (), 4, 1))
    found = state.load()
    assert found.params.tolist() == params.tolist() and (found.t, found.withheld) == (4, 1)
    assert found.aggregator[0].tolist() == [1.0, 1.0] and found.optimizer == ()


def test_who_took_part_is_known_without_those_who_left(tmp_path):
    state = ServerState(tmp_path)
    state.add_participants(0, np.array([1, 2, 5]))
    state.add_participants(10, np.array([2, 3]))
    state.set_participants({t: who[who != 2] for t, who in state.participants().items()})
    assert {t: who.tolist() for t, who in state.participants().items()} == {0: [1, 5], 10: [3]}


def test_a_key_that_was_replaced_fits_and_nothing_else_does(tmp_path):
    from foltr.deployment.keys.keys import make_node
    from foltr.deployment.keys.roster import Roster

    made = [make_node(tmp_path / name, name, 2)[0] for name in ("a", "b", "c")]
    before = Roster((made[0], made[1]))
    new = made[0].with_next_keys(made[2].key, made[2].signs)
    state = ServerState(tmp_path / "state")
    state.open(agreed())
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
    state, model = ServerState(tmp_path), np.array([0.5, 1.0, 2.0])
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
        ServerState(folder).open(agreed())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
