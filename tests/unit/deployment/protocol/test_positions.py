"""Clients that learn from logs: each search is in one message only, whatever happens between."""

from dataclasses import dataclass

import numpy as np
import pytest
from small_federation import PARAMS, Small, agreed, ask_of, learned, participant_of, refused

from foltr.core import Answers, Cohort
from foltr.deployment.protocol.records import Records
from old_records import store_as_before

FAR = 2**24  # from here on a float32 does not tell whole numbers apart


@dataclass
class SmallLog(Small):
    """Client c sends the number of the search that it is at, and goes on to the next one."""

    first: int = 0

    def __post_init__(self):
        super().__post_init__()
        self.positions = np.full(self.clients, self.first)

    def collect(self, ask, clients):
        rows = [np.full(3, self.positions[c] - self.first, np.float32) for c in clients]
        self.positions[clients] += 1
        weights = np.full(len(clients), self.weight)
        return Answers(clients, Cohort(clients, np.stack(rows), weights), None)


def sent(path, t, first=0, **how):
    """What client 1 sends, by a process that has just been started."""
    agreement = agreed(rounds=9)
    device = participant_of(agreement, SmallLog(first=first, kept=2), path=path)
    return learned(device, ask_of(agreement, clients=(1,), t=t, **how))[1][0][0]


@pytest.mark.parametrize("first", [0, FAR])
def test_each_search_is_sent_once(tmp_path, first):
    path = tmp_path / "node.db"
    assert [sent(path, t, first) for t in range(3)] == [0.0, 1.0, 2.0]
    assert sent(path, 2, first) == 2.0  # the stored answer
    assert sent(path, 2, first, params=PARAMS + np.float32(1.0)) == 2.0  # the round is repeated
    assert sent(path, 3, first) == 3.0


def test_a_node_goes_on_from_the_records_of_an_earlier_version(tmp_path):
    path, agreement = tmp_path / "node.db", agreed(rounds=9)
    assert [sent(path, t) for t in range(3)] == [0.0, 1.0, 2.0]
    store_as_before(path)
    Records(path, agreement.id, with_log=True).close()
    assert sent(path, 2) == 2.0 and sent(path, 3) == 3.0
    assert sent(path, 3, params=PARAMS + np.float32(1.0)) == 3.0


@pytest.mark.parametrize("first", [0, 50])
def test_whether_there_is_a_log_may_be_known_later(tmp_path, first):
    """As for a device of one's own: the engine says so, when it is first used."""
    path, agreement = tmp_path / "node.db", agreed(rounds=9)
    assert [sent(path, t, first) for t in range(3)] == [0.0, 1.0, 2.0]
    store_as_before(path)
    for _ in range(2):  # it stays unknown while nothing is learned
        Records(path, agreement.id, with_log=None).close()
    assert sent(path, 2, first) == 2.0 and sent(path, 3, first) == 3.0
    assert sent(path, 3, first, params=PARAMS + np.float32(1.0)) == 3.0


def test_the_memory_of_a_client_without_a_log_stays_whole(tmp_path):
    path, agreement = tmp_path / "node.db", agreed(rounds=9)
    learned(participant_of(agreement, path=path), ask_of(agreement, clients=(1,)))
    before = Records(path, agreement.id).of((1,))[1]
    store_as_before(path)
    Records(path, agreement.id, with_log=None).close()
    learned(participant_of(agreement, path=path), ask_of(agreement, clients=(1,), t=1))
    after = Records(path, agreement.id).of((1,))[1]
    assert np.array_equal(after.before, before.after) and after.position_before is None


def test_a_client_that_answered_without_a_log_sends_nothing_from_one(tmp_path):
    """It has no position in the log: perhaps it has sent these searches."""
    path, agreement, told = tmp_path / "node.db", agreed(), []
    learned(participant_of(agreement, path=path), ask_of(agreement, clients=(1,)))
    device = participant_of(agreement, SmallLog(), path=path, told=told)
    assert refused(device, ask_of(agreement, clients=(1,), t=1)) == "failed"
    assert "client 1 has answered without a log of searches: leave clicks out" in told[0]
