"""Nodes that learn from a log of searches."""

import json

import numpy as np
import pytest

from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core import Ask
from foltr.core.errors import Mistake
from foltr.deployment.node.logged import Log, Logged
from foltr.experiment import Experiment

DATA = Experiment(data="Synthetic(queries=20)").data.load("train")
NAME = DATA.query_ids[0].decode()


def line(**changes):
    return json.dumps({"query": NAME, "shown": [2, 0, 1], "clicked": [0], **changes}) + "\n"


def engine(tmp_path, text, sessions=2, learner=None):
    file = tmp_path / "clicks.jsonl"
    file.write_text(text)
    log, learner = Log(file, DATA, 3), learner or PDGD(sessions=sessions)
    return Logged(learner, Linear(), log, sessions, 1, np.zeros((3, 0), np.float32))


def collect(made, t=0, clients=(0, 1, 2)):
    params = np.zeros(DATA.width, np.float32)
    return made.collect(Ask(params, t, 3), np.array(clients)).arrived


def test_a_click_pulls_the_clicked_document_up(tmp_path):
    got = collect(engine(tmp_path, line() * 2))
    assert got.clients.tolist() == [0] and got.weights.tolist() == [2.0]
    first = DATA.offsets[0]
    clicked, passed = DATA.features[first + 2], DATA.features[first]
    assert got.updates[0] @ (clicked - passed) > 0.0


def test_each_search_is_learned_from_once_and_the_log_may_grow(tmp_path):
    made = engine(tmp_path, line() * 3 + line(client=2) * 2)
    assert collect(made).clients.tolist() == [0, 2]
    assert len(collect(made, 1)) == 0
    assert made.positions.tolist() == [2, 0, 2]
    with open(tmp_path / "clicks.jsonl", "a") as file:
        file.write(line() + line()[:10])  # the last line is not whole yet
    assert collect(made, 2).clients.tolist() == [0]
    with open(tmp_path / "clicks.jsonl", "a") as file:
        file.write(line()[10:] + line())
    assert collect(made, 3).clients.tolist() == [0]


class LongLog:
    """So many searches, all the same."""

    def __init__(self, search, count):
        self.search, self.count = search, count

    def __getitem__(self, places):
        return [self.search] * len(range(self.count)[places])


def test_a_log_of_more_than_2_to_the_24_searches_is_read_to_its_end(tmp_path):
    made = engine(tmp_path, line() * 2)
    made.log.found[0] = LongLog(made.log.found[0][0], 2**24 + 5)
    made.positions[0] = 2**24 - 1
    assert [len(collect(made, t)) for t in range(4)] == [1, 1, 1, 0]
    assert made.positions[0] == 2**24 + 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "line 1 is not JSON"),
        (line(query="no such"), "has no query 'no such'"),
        (line(shown=[10**6]), "shown must be numbers in"),
        (line(shown=[0, 0]), "names one twice"),
        (line(shown=[]), "no document was shown"),
        (line(clicked=[3]), "clicked must be numbers in 0 .. 2"),
        (line(client=3), "client 3 is not in 0 .. 2"),
        (line(other=1), "must have query, shown and clicked"),
        ("[]\n", "must have query, shown and clicked"),
    ],
)
def test_a_mistake_in_a_log_names_its_line(tmp_path, text, told):
    with pytest.raises(Mistake, match=told):
        engine(tmp_path, text if text.endswith("\n") else text + "\n")


def test_rewards_of_own_lists_cannot_be_learned_from_a_log(tmp_path):
    with pytest.raises(Mistake, match="cannot learn from a log"):
        engine(tmp_path, line(), learner=ES())
