"""A node's disk: a round is there or not, and nothing is left of what was forgotten."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.system.state_file import Unusable
from foltr.deployment.protocol.participant import clients_hash
from foltr.deployment.protocol.records import CONVERTED, Record, Records
from old_records import content_of, store_as_before

FEDERATION, OTHER = b"f" * 16, b"g" * 16


def record(client, round=0, value=1.0, kind=np.float32, **changes):
    numbers = np.full(3, value, kind)
    kept = np.full(2, value, np.float32)
    made = Record(client, round, b"ask", kept, kept + 1, numbers, 2.0, 1, -1)
    return replace(made, **changes)


def same(one, other):
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all(
        np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node.db"


@pytest.mark.parametrize("kind", [np.float32, np.uint32])
def test_records_go_to_the_disk_and_back(path, kind):
    one, two = record(4, kind=kind), record(2**32 - 1, 2**32 - 1, 7.0, kind, spent=2**31 - 1)
    Records(path, FEDERATION).keep([one, two], {4: 0.25})
    again = Records(path, FEDERATION)
    found = again.of((1, 4, 2**32 - 1))
    assert found.keys() == {4, 2**32 - 1}
    assert same(found[4], one) and same(found[2**32 - 1], two)
    assert again.norm(0, 4) == 0.25 and again.norm(0, 1) is None and again.norm(1, 4) is None


def test_the_last_round_replaces_the_one_before(path):
    records = Records(path, FEDERATION)
    records.keep([record(1), record(2)])
    records.keep([record(2, 1, 5.0)])
    records.release([2], 1)
    found = Records(path, FEDERATION).of((1, 2))
    assert found[1].round == 0 and found[1].released == -1
    assert found[2].round == 1 and found[2].released == 1 and found[2].payload[0] == 5.0


def test_a_round_is_stored_as_a_whole(path):
    """The second record cannot be stored: the first one is not either."""
    records = Records(path, FEDERATION)
    records.keep([record(1)])
    with pytest.raises(Mistake, match="cannot be used"):
        records.keep([record(1, 1, 9.0), record(2, 1, weight=None)])
    found = records.of((1, 2))
    assert same(found[1], record(1)) and 2 not in found
    records.keep([record(2, 1)])
    assert records.of((2,))[2].round == 1


KILLED = """
import os, sys
sys.path[:0] = {tests!r}
from pathlib import Path
from test_records import FEDERATION, record
from foltr.deployment.protocol.records import Records
records = Records(Path({path!r}), FEDERATION)
def rows():
    for client in range(2000):
        if client == {at}:
            os.kill(os.getpid(), 9)
        yield record(client, 1, 9.0)
records.keep(rows())
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("at", "round"), [(0, 0), (1000, 0), (1999, 0), (-1, 1)])
def test_a_node_that_is_killed_has_all_of_a_round_or_nothing(path, at, round):
    Records(path, FEDERATION).keep(record(client) for client in range(2000))
    code = KILLED.format(tests=sys.path, path=str(path), at=at)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr
    found = Records(path, FEDERATION).of(range(2000))
    assert {each.round for each in found.values()} == {round} and len(found) == 2000


def test_a_full_disk_is_told_and_changes_nothing(path):
    records = Records(path, FEDERATION)
    records.keep([record(1)])
    (pages,) = records._db.execute("pragma page_count").fetchone()
    records._db.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(Mistake, match="free some space"):
        records.keep(record(client, 1, 9.0) for client in range(1000))
    assert same(records.of((1,))[1], record(1)) and records.of(range(2, 1000)) == {}
    records._db.execute("pragma max_page_count = 100000")
    records.keep(record(client, 1, 9.0) for client in range(1000))
    assert len(Records(path, FEDERATION).of(range(1000))) == 1000


def test_the_file_of_another_federation_is_refused(path):
    Records(path, FEDERATION).keep([record(1)])
    with pytest.raises(Mistake, match="another federation"):
        Records(path, OTHER)
    assert Records(path, FEDERATION).of((1,))


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"\0" * 4096])
def test_another_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(Mistake, match="is damaged"):
        Records(path, FEDERATION)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(Mistake, match="permissions"):
        Records(tmp_path / "nowhere" / "node.db", FEDERATION)


SECRET = b"a secret of a client that is long enough to be found"


def secret(client, round=0):
    words = np.frombuffer(SECRET, np.uint32)
    kept = words.view(np.float32)
    return record(client, round, before=kept, after=kept, payload=words)


def left(path):
    return any(SECRET in file.read_bytes() for file in path.parent.iterdir())


def test_nothing_is_left_of_what_was_forgotten(path):
    records = Records(path, FEDERATION)
    records.keep((secret(client) for client in range(300)), dict.fromkeys(range(300), 1.0))
    assert left(path)
    size = path.stat().st_size
    records.forget()
    assert not left(path) and path.stat().st_size < size
    assert records.of(range(300)) == {} and records.norm(0, 5) is None
    again = Records(path, FEDERATION)  # it is still of this federation
    again.keep([record(1)])


def test_nothing_is_left_of_what_was_replaced(path):
    records = Records(path, FEDERATION)
    records.keep(secret(client) for client in range(300))
    records.keep(record(client, 1) for client in range(300))
    assert not left(path)


def test_of_two_processes_with_one_file_the_second_stores_nothing(path):
    """Both have read the same round: only one of them may answer it."""
    one, other = Records(path, FEDERATION), Records(path, FEDERATION)
    one.of((1,))
    other.of((1,))
    one.keep([record(1)])
    with pytest.raises(Mistake, match="another process"):
        other.keep([record(1, value=9.0)])
    with pytest.raises(Mistake, match="another process"):
        other.release([1], 0)
    assert same(other.of((1,))[1], record(1))  # and once it has read this
    other.keep([record(2)])
    one.of((1,))
    one.forget()
    other.forget()
    other.keep([record(3)])
    one.forget()


@pytest.fixture
def switching_often():
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_threads_share_the_records(path, switching_often):
    """None takes the rows of another: a client without a record would have a whole budget."""
    records = Records(path, FEDERATION)
    records.keep([record(i) for i in range(5)])

    def work(thread):
        for i in range(300):
            assert len(records.of(range(5))) == 5
            if i % 50 == thread:
                records.keep([record(thread)])
        return thread

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]


def test_a_thread_waits_for_the_transaction_of_another(path):
    records = Records(path, FEDERATION)
    with ThreadPoolExecutor(1) as pool:
        with records._transaction():
            other = pool.submit(records.keep, [record(1)])
            done, _ = wait([other], timeout=0.2)
            assert not done  # it would raise: a connection has one transaction at a time
        other.result(60)
    assert same(records.of((1,))[1], record(1))


# --- the file of an earlier version ---


def with_position(client, before, after, **changes):
    return record(client, position_before=before, position_after=after, **changes)


def test_positions_are_whole_numbers_of_any_size(path):
    one, two = with_position(1, 2**24, 2**24 + 1), with_position(2, 0, 2**62)
    Records(path, FEDERATION, with_log=True).keep([one, two])
    found = Records(path, FEDERATION, with_log=True).of((1, 2))
    assert same(found[1], one) and same(found[2], two)


def test_the_records_of_an_earlier_version_are_converted(path):
    stored = [with_position(1, 0, 50), with_position(7, 2**24 - 50, 2**24, kind=np.uint32)]
    Records(path, FEDERATION).keep(stored, {7: 2.0})
    store_as_before(path)
    for _ in range(2):
        records = Records(path, FEDERATION, with_log=True)
        found = records.of((1, 7))
        assert same(found[1], stored[0]) and same(found[7], stored[1])
        assert records.norm(0, 7) == 2.0
    (rows,) = records._db.execute(f"select count(*) from {CONVERTED}").fetchone()
    assert rows == 2  # as they were
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        records._db.execute("select before from client")  # by the earlier version
    records.forget()
    assert not any(CONVERTED in line for line in content_of(path))


def test_records_without_a_log_keep_their_whole_memory(path):
    Records(path, FEDERATION).keep([record(1)])
    store_as_before(path)
    assert same(Records(path, FEDERATION).of((1,))[1], record(1))


@pytest.mark.parametrize("last", [b"", np.float32(np.nan).tobytes()])
def test_an_earlier_file_without_a_position_is_refused_and_not_changed(path, last):
    Records(path, FEDERATION).keep([with_position(1, 0, 50), with_position(2, 0, 50)])
    store_as_before(path)
    with sqlite3.connect(path) as db:
        db.execute("update client set after = ? where id = 2", (last,))
    before = content_of(path)
    with pytest.raises(Unusable, match="no position in the log"):
        Records(path, FEDERATION, with_log=True)
    assert content_of(path) == before


def test_an_earlier_file_of_another_federation_is_refused_and_not_changed(path):
    Records(path, FEDERATION).keep([with_position(1, 0, 50)])
    store_as_before(path)
    before = content_of(path)
    with pytest.raises(Mistake, match="another federation"):
        Records(path, OTHER)
    assert content_of(path) == before


def test_simulations_keep_records_in_memory():
    records = Records(None, FEDERATION)
    records.keep([record(1)], {1: 3.0})
    assert same(records.of((1,))[1], record(1)) and records.norm(0, 1) == 3.0
    records.set_about("name", b"value")
    assert records.about("name") == b"value" and records.about("other") is None
    records.close()
    with pytest.raises(Mistake):
        records.of((1,))


def test_records_are_plain_sqlite(path):
    Records(path, FEDERATION).keep([record(1)])
    with sqlite3.connect(path) as db:
        assert db.execute("select count(*) from client").fetchone() == (1,)


def test_records_are_for_nobody_else_on_the_machine(path):
    Records(path, FEDERATION).keep([record(1)])
    assert path.stat().st_mode & 0o077 == 0


def test_the_hash_of_clients_in_records_of_before_is_the_same():
    """After an update, a node still knows among whom it has sent masked updates."""
    ids = b"\1\0\0\0\2\1\0\0"
    assert clients_hash(np.array([1, 258])) == sha256(ids).digest()
