"""The log of searches by itself: what is stored, counted, exported and deleted."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.device.click_log import ClickLog, Epoch, LoggedSearch, Period
from foltr.device.service import exported

HOME, OTHER = b"\x01" * 16, b"\x02" * 16  # federations


def search(epoch=0, clicks=(False, False, False), learned=False, shown_by="learned", time=1.0):
    """A search of four documents, 10 .. 13, of which three are shown: 12, 10, 13."""
    return LoggedSearch(
        id=0,
        time=time,
        query="words",
        epoch=epoch,
        shown_by=shown_by,
        documents=np.arange(10, 14),
        features=np.arange(8, dtype=np.float32).reshape(4, 2),
        ranking=np.array([2, 0, 3]),
        teams=np.array([1, 2, 0]),
        clicks=np.array(clicks),
        learned=learned,
    )


def epoch(number, round=0):
    return Epoch(number, round, np.full(2, number, np.float32), np.zeros(1, np.float32))


def stored_clicks(log, id):
    (stored,) = log._db.execute("select clicks from search where id = ?", (id,)).fetchone()
    return list(stored)


def message(log, federation, next_epoch, round, time, ask=b"ask"):
    memory = np.array([0.5, 0.25])
    return log.note_message(federation, ask + b"%d" % round, round, next_epoch - 1, memory, time)


def test_the_stored_clicks_count_up_to_255():
    log = ClickLog(None)
    id = log.add(search()).id
    for document in (10, 12, 10):
        assert log.click(id, document, time=2.0, how="opened")
    assert stored_clicks(log, id) == [2, 3, 0]
    for _ in range(300):
        log.click(id, 13, time=3.0, how="opened")
    assert stored_clicks(log, id) == [2, 3, 255]


def test_a_click_on_what_is_not_in_the_list_changes_nothing():
    log = ClickLog(None)
    id = log.add(search()).id
    with pytest.raises(Mistake, match=r"document 11 is not in the list of search 1"):
        log.click(id, 11, time=2.0, how="opened")
    assert stored_clicks(log, id) == [0, 0, 0] and log.opened(id) == []


def test_a_message_is_noted_once_and_keeps_what_the_device_kept():
    log = ClickLog(None)
    log.set_epochs([epoch(3), epoch(4)])
    sent, open_search = log.add(search(3, learned=True)).id, log.add(search(3)).id
    assert message(log, HOME, 4, round=7, time=100.0)
    assert not message(log, HOME, 4, round=7, time=100.0)
    assert log.one(sent).sent == 7 and log.one(open_search).sent is None
    before, after = log.epochs(3)
    assert before.memory.tolist() == [0.0] and after.memory.tolist() == [0.5, 0.25]


def test_messages_of_one_federation_and_of_all():
    log = ClickLog(None)
    message(log, HOME, 1, round=5, time=10.0)
    message(log, OTHER, 2, round=6, time=20.0)
    message(log, HOME, 3, round=8, time=15.0)  # the clock was set back: it counts as at 20
    assert log.messages(HOME) == [(5, 10.0), (8, 15.0)] and log.messages(OTHER) == [(6, 20.0)]
    assert log.messages() == [(5, 10.0), (6, 20.0), (8, 15.0)]
    assert log.messages_by_federation(10.0) == {HOME: 2, OTHER: 1}
    assert log.messages_by_federation(20.0) == {HOME: 1, OTHER: 1}


def test_the_last_round_before_a_period():
    log = ClickLog(None)
    assert log.period == Period(0, b"")
    message(log, HOME, 1, round=5, time=10.0)  # of epoch 0
    message(log, HOME, 2, round=8, time=20.0)  # of epoch 1
    message(log, OTHER, 2, round=9, time=30.0)
    assert [log.round_before(Period(first, HOME)) for first in (0, 1, 2)] == [-1, 5, 8]


def test_a_period_begins_with_the_open_searches():
    log = ClickLog(None)
    closed, still_open = log.add(search(1, learned=True)).id, log.add(search(1)).id
    log.begin_period(epoch(2), HOME)
    assert log.period == Period(2, HOME) and log.epoch().epoch == 2
    assert log.one(closed).epoch == 1 and log.one(still_open).epoch == 2


def test_searches_that_wait_for_a_message():
    log = ClickLog(None)
    for number in (0, 1, 1, 2):
        log.add(search(number, learned=True))
    log.add(search(2))
    assert [log.waiting(first) for first in (0, 1, 2, 3)] == [4, 3, 1, 0]
    message(log, HOME, 2, round=5, time=10.0)  # with the searches of epoch 1
    assert log.waiting(0) == 2


def test_an_epoch_keeps_its_first_searches_and_the_next_one_gets_the_rest():
    log = ClickLog(None)
    ids = [log.add(search(number, learned=True)).id for number in (0, 1, 1, 1)]
    still_open = log.add(search(1)).id
    log.set_epochs([epoch(2), epoch(3)], most=2)
    assert [log.one(id).epoch for id in (*ids, still_open)] == [0, 1, 1, 2, 2]
    assert [each.epoch for each in log.epochs(2)] == [2, 3] and log.epoch().epoch == 3


def test_outcomes_are_of_mixed_lists_that_were_learned_from_oldest_first():
    log = ClickLog(None)
    clicked = (True, False, False), (False, True, False), (False, False, True)  # whose: 1, 2, 0
    for clicks in (*clicked, clicked[0]):
        log.add(search(clicks=clicks, learned=True, shown_by="mixed"))
    log.add(search(clicks=clicked[1], learned=False, shown_by="mixed"))
    log.add(search(clicks=clicked[1], learned=True, shown_by="bm25"))
    assert log.outcomes(10) == [1, -1, 0, 1] and log.outcomes(2) == [0, 1]


def test_counts_and_pages_of_the_log():
    log = ClickLog(None)
    ids = [log.add(search(clicks=(False, c, False), learned=c)).id for c in (True, False, True)]
    assert log.counts() == (3, 2) and log.learned() == 2
    assert [each.id for each in log.last(2)] == [ids[2], ids[1]]
    assert [each.id for each in log.last(5, before=ids[2])] == [ids[1], ids[0]]
    assert [each.id for each in log.unfinished()] == [ids[1]]
    with pytest.raises(Mistake, match="there is no search 99"):
        log.one(99)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_is_forgotten_leaves_no_row(all_of_them):
    log = ClickLog(None)
    log.set_epochs([epoch(0), epoch(1), epoch(2)])
    ids = [log.add(search()).id for _ in range(3)]
    for id in ids:
        log.click(id, 12, time=2.0, how="opened")
    log.forget(None if all_of_them else ids[:2], [epoch(1, round=9)], first=1)
    kept = [] if all_of_them else ids[2:]
    assert [each.id for each in log.last(5)] == kept
    rows = log._db.execute("select search from opened").fetchall()
    assert [id for (id,) in rows] == kept
    assert [(each.epoch, each.round) for each in log.epochs(0)] == [(1, 9), (2, 0)]


def test_the_export_of_a_search():
    log = ClickLog(None)
    log.add(search(clicks=(True, False, True)))
    paths = {10: SimpleNamespace(path="a.txt"), 12: SimpleNamespace(path="ö.txt")}  # 13 is gone
    text = exported(log, SimpleNamespace(documents=lambda ids: paths))
    assert json.loads(text) == [
        {
            "time": 1.0,
            "query": "words",
            "shown_by": "learned",
            "shown": ["ö.txt", "a.txt", None],
            "clicked": ["ö.txt", None],
            "sent": None,
        }
    ]
    assert '"ö.txt"' in text and "\n  " in text  # to be read by its owner
