"""What devices store: rows by round and client, in place, surviving kills, and refused when it is
not whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core import Cohort
from foltr.core.errors import Mistake
from foltr.core.world.history import CLIENTS, NOBODY, UPDATES, History


def cohort(clients, d=3, t=0):
    clients = np.array(clients)
    return Cohort(
        clients, np.outer(clients + 1, np.arange(d) + t).astype(np.float32), np.ones(len(clients))
    )


@given(every=st.integers(1, 7), rounds=st.integers(1, 30), n=st.integers(1, 4))
def test_every_so_many_rounds_from_the_first(every, rounds, n):
    history = History.of(None, every, rounds, n, 3)
    for t in range(rounds):
        history.keep(t, cohort(range(n), t=t))
    kept = list(range(0, rounds, every))
    assert len(history.clients) == len(kept)
    assert history.stand_for.sum() == rounds  # every round is stood for once
    for row, t in enumerate(kept):
        assert history.clients[row].tolist() == list(range(n))
        np.testing.assert_array_equal(history.updates[row], cohort(range(n), t=t).updates)


def test_fewer_clients_than_places(tmp_path):
    for folder in (None, tmp_path):
        history = History.of(folder, 1, 2, 3, 3)
        history.keep(0, cohort([5, 2, 9]))
        history.keep(1, cohort([9]))
        assert history.clients[1].tolist() == [9, NOBODY, NOBODY]
        assert history.with_any(np.array([5])).tolist() == [0]
        assert history.took_part(0, np.array([9, 2, 7])).tolist() == [2, 9]
        np.testing.assert_array_equal(history.sent(0, np.array([2, 9])), cohort([2, 9]).updates)


def test_it_is_written_in_place_and_read_back(tmp_path):
    history = History.of(tmp_path, 2, 5, 2, 3)
    history.keep(0, cohort([0, 1]))
    history.flush()
    again = History.of(tmp_path, 2, 5, 2, 3)  # as a run that goes on does
    again.keep(2, cohort([1, 2]))
    again.keep(4, cohort([2, 3]))
    again.flush()
    read = History.read(tmp_path, 2, 5, 3, again.sum())
    assert read.clients.tolist() == [[0, 1], [1, 2], [2, 3]]
    with pytest.raises(ValueError, match="read-only"):
        read.updates[0, 0, 0] = 1.0


@pytest.mark.parametrize("damage", ["gone", "short", "other", "one bit"])
def test_what_is_not_whole_is_refused(tmp_path, damage):
    history = History.of(tmp_path, 2, 5, 2, 3)
    history.flush()
    file, written = tmp_path / UPDATES, history.sum()
    if damage == "gone":
        file.unlink()
    elif damage == "short":
        file.write_bytes(file.read_bytes()[:40])
    elif damage == "one bit":
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)
    else:
        np.save(tmp_path / CLIENTS, np.zeros((9, 9), np.int32))
    with pytest.raises(Mistake, match=r"history of .* cannot be read .*make the run again"):
        History.read(tmp_path, 2, 5, 3, written)


def test_a_run_that_was_begun_does_not_go_on_with_another_history(tmp_path):
    History.of(tmp_path, 2, 5, 2, 3)
    History.of(tmp_path, 2, 5, 2, 3, begun=True)
    (tmp_path / UPDATES).write_bytes(b"no array")
    with pytest.raises(Mistake, match="gone or damaged"):
        History.of(tmp_path, 2, 5, 2, 3, begun=True)
    History.of(tmp_path, 2, 5, 2, 3)  # a run that begins makes it anew


def test_a_full_disk_is_reported_before_the_first_round(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foltr.core.world.history.os.posix_fallocate", full, raising=False)
    monkeypatch.setattr("foltr.core.world.history.sys.platform", "linux")
    with pytest.raises(Mistake, match="No space left"):
        History.of(tmp_path, 2, 5, 2, 3)
