"""The guard: mixed lists are fair, and the evidence decides what is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import plausible
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.device.guard import BM25, BOTH, LEARNED, Guard, click_order, mixed, winner


@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(0, 2**32))
def test_a_mixed_list_has_the_best_of_both(learned, bm25, seed):
    learned, bm25 = learned[:5], bm25[:5]
    shown, teams = mixed(learned, bm25, stream(seed))
    assert len(set(shown.tolist())) == len(shown) == 5
    assert set(shown.tolist()) <= {*learned, *bm25}
    assert shown[0] in (learned[0], bm25[0])
    chosen = [(teams == team).sum() for team in (LEARNED, BM25)]
    assert abs(int(chosen[0]) - int(chosen[1])) <= 1
    own = [d for d, team in zip(shown.tolist(), teams, strict=True) if team == LEARNED]
    assert own == sorted(own, key=learned.index)


def test_equal_lists_decide_nothing():
    shown, teams = mixed([3, 1, 2], [3, 1, 2], stream(1))
    assert shown.tolist() == [3, 1, 2] and teams.tolist() == [BOTH] * 3
    assert winner(teams, np.ones(3, bool)) == 0


def test_lists_that_begin_alike_differ_after_that():
    shown, teams = mixed([1, 2, 3, 4], [1, 5, 6, 7], stream(1))
    assert shown[0] == 1 and teams[0] == BOTH and set(teams[1:].tolist()) == {LEARNED, BM25}


def test_every_place_goes_to_both_equally_often():
    """A user who clicks the first place always prefers nobody."""
    first = [mixed([0, 1, 2], [3, 4, 5], stream(s))[1][0] for s in range(2000)]
    assert plausible(first.count(LEARNED), 2000, 0.5)
    won = [
        winner(mixed([0, 1, 2], [3, 4, 5], stream(s))[1], np.eye(3, dtype=bool)[0])
        for s in range(2000)
    ]
    assert abs(sum(won)) < 300  # wins and losses: six standard errors and more


def test_who_has_the_last_click_wins():
    teams = np.array([LEARNED, BM25, BOTH, LEARNED, BM25])
    assert winner(teams, np.array([1, 2, 3, 4, 0])) == 1
    assert winner(teams, np.array([4, 3, 2, 0, 1])) == 1
    assert winner(teams, np.array([1, 2, 0, 0, 0])) == -1
    assert winner(teams, np.array([1, 2, 3, 0, 0])) == 0
    assert winner(teams, np.zeros(5, int)) == 0
    assert click_order(np.array([0, 1, 0, 1, 1], bool)).tolist() == [0, 1, 0, 2, 3]


def test_evidence_fades():
    guard = Guard(fade=0.5)
    assert guard.evidence([1, 0, 1]) == 1.5 and guard.evidence([1, 1, -1]) == -0.25
    assert guard.evidence([]) == 0.0


def test_what_is_shown():
    guard = Guard(up=2.0, down=-1.0, mix_learned=4, mix_bm25=5)
    assert {guard.choice(0.0, made) for made in range(20)} == {"mixed"}
    assert [guard.choice(2.0, made) for made in range(4)] == ["learned"] * 3 + ["mixed"]
    assert [guard.choice(-1.0, made) for made in range(5)] == ["bm25"] * 4 + ["mixed"]
    assert Guard(on=False).choice(-9.0, 3) == "learned"


@pytest.mark.parametrize(
    "wrong", [{"up": -1.0, "down": 1.0}, {"fade": 0.0}, {"fade": 1.5}, {"mix_bm25": 1}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(Mistake):
        Guard(**wrong)
