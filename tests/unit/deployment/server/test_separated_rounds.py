"""Whom a server asks if clients take part once in s rounds."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from test_leaving_nodes import Here

from foltr.core.errors import Mistake
from foltr.deployment.server.rounds import Rounds


@pytest.fixture
def here(tmp_path):
    """Two of six clients are asked in a round, each once in three rounds: none is left over."""
    found = Here(tmp_path, 12)
    found.rounds.agreement = replace(found.rounds.agreement, separation=3, asked=2, fewest=2)
    found.engine.on_wait = waits
    return found


def waits(clients):
    raise AssertionError("the server waits for clients that nobody has")


def test_everybody_has_a_turn_before_anybody_has_the_next(here):
    asked = [here.rounds.choose(t).tolist() for t in range(9)]
    for t in range(7):
        assert sorted(asked[t] + asked[t + 1] + asked[t + 2]) == list(range(6))


def test_a_server_that_was_killed_in_a_round_asks_the_same_clients_again(here):
    """They are not left out because they were asked: they repeat their answers."""
    for t in range(5):
        first = here.rounds.choose(t).tolist()
        assert here.rounds.choose(t).tolist() == first
    assert sorted(here.state.asked_between(2, 99)) == list(range(6))


def test_if_others_are_asked_then_the_first_ones_have_had_their_turn(here):
    """Those that answered the killed server cannot answer in the next round."""
    first = here.rounds.choose(0).tolist()
    there = here.engine.there
    here.engine.there = lambda without: there(np.union1d(without, first))
    second = here.rounds.choose(0).tolist()
    here.engine.there = there
    assert not set(first) & set(second)
    assert not {*first, *second} & set(here.rounds.choose(1).tolist())


def test_too_few_clients_for_the_separation_are_refused(here):
    for separation, asked, fits in ((3, 2, True), (4, 2, False), (2, 3, True), (2, 4, False)):
        agreed = here.rounds.agreement
        here.engine.agreement = replace(agreed, separation=separation, asked=asked)
        if fits:
            Rounds(here.engine)
        else:
            with pytest.raises(Mistake, match=f"separation = {separation} need 8 clients"):
                Rounds(here.engine)
