"""The state of a gateway on disk."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.core.system import state_file
from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway.enrolment import DAY, Enrolment, Refused, Standing
from property_settings import examples

FEDERATION, NOW, PLACES = b"f" * 16, 1_700_000_000.0, range(10, 15)


def key(i):
    return bytes([i]) * 32


@pytest.fixture
def state(tmp_path):
    found = Enrolment(tmp_path / "gateway.db", FEDERATION)
    yield found
    found.close()


def opened(state):
    """The same file, as another process opens it."""
    return Enrolment(state.path, FEDERATION)


def enrol(state, i, invitation, places=PLACES, now=NOW):
    return state.enrol(invitation, key(i), places, now)


def test_an_invitation_is_for_one_device(state):
    token = state.invite(1, 7.0, NOW)
    assert enrol(state, 1, token) == 10
    with pytest.raises(Refused, match="has been used") as refused:
        enrol(state, 2, token)
    assert refused.value.status == 403
    assert enrol(state, 1, token) == 10, "the same device again"
    assert enrol(state, 1, "lost") == 10
    assert list(state.devices()) == [10]


def test_an_invitation_has_a_quota(state):
    token = state.invite(3, 7.0, NOW)
    assert [enrol(state, i, token) for i in (1, 2, 3)] == [10, 11, 12]
    with pytest.raises(Refused, match="has been used"):
        enrol(state, 4, token)
    assert state.invitations(NOW) == (0, 0)


def test_an_invitation_expires(state):
    token = state.invite(2, 2.0, NOW)
    assert enrol(state, 1, token, now=NOW + 2 * DAY) == 10
    with pytest.raises(Refused, match="has expired"):
        enrol(state, 2, token, now=NOW + 2 * DAY + 1)
    assert state.invitations(NOW) == (1, 1) and state.invitations(NOW + 2 * DAY) == (0, 0)


@pytest.mark.parametrize("token", ["", "x", "'; drop table device; --", "é" * 99])
def test_an_unknown_invitation_is_refused(state, token):
    state.invite(1, 7.0, NOW)
    with pytest.raises(Refused, match="is unknown"):
        enrol(state, 1, token)
    assert not state.devices() and state.invitations(NOW) == (1, 1)


@pytest.mark.parametrize(
    ("uses", "days", "told"),
    [(0, 1.0, "at least one"), (-1, 1.0, "got -1"), (1, 0.0, "days"), (1, 1e9, "days")],
)
def test_what_is_no_invitation(state, uses, days, told):
    with pytest.raises(Mistake, match=told):
        state.invite(uses, days, NOW)


def test_only_the_hash_of_an_invitation_is_on_disk(state):
    token = state.invite(2, 7.0, NOW)
    enrol(state, 1, token)
    texts = [file.read_bytes() for file in state.path.parent.iterdir()]
    assert sha256(token.encode()).digest() in b"".join(texts)
    assert token.encode() not in b"".join(texts)


def test_nobody_else_can_read_the_state(state):
    state.invite(1, 7.0, NOW)
    files = list(state.path.parent.iterdir())
    assert len(files) >= 2
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_numbers_are_given_in_order_and_never_again(state):
    token = state.invite(9, 7.0, NOW)
    assert [enrol(state, i, token) for i in (1, 2, 3)] == [10, 11, 12]
    for client, standing in (
        (10, Standing.GONE),
        (11, Standing.REVOKED),
        (12, Standing.TO_FORGET),
    ):
        state.set_standing({client: None}, standing, tuple(Standing))
    assert enrol(state, 4, token) == 13
    for i, said in ((1, "is forgotten"), (2, "is revoked"), (3, "has asked to be forgotten")):
        with pytest.raises(Refused, match=f"the device with this key {said}"):
            enrol(state, i, token)
    assert enrol(opened(state), 5, token) == 14


def test_when_all_places_are_taken_the_invitation_stays_valid(state):
    token = state.invite(9, 7.0, NOW)
    for i in range(5):
        enrol(state, i + 1, token)
    with pytest.raises(Refused, match="all 5 places of this gateway are taken") as refused:
        enrol(state, 9, token)
    assert refused.value.status == 409 and state.invitations(NOW) == (1, 4)


def test_open_enrolment_needs_no_invitation(state):
    assert enrol(state, 1, None) == 10 and enrol(state, 2, None) == 11


def test_a_key_is_replaced_and_belongs_to_one_device(state):
    for i in (1, 2):
        enrol(state, i, None)
    state.replace_key(10, key(3))
    state.replace_key(10, key(3))
    assert state.devices()[10].key == key(3)
    with pytest.raises(Refused, match="another device has this key") as refused:
        state.replace_key(10, key(2))
    assert refused.value.status == 409 and state.devices()[10].key == key(3)


def test_the_wish_to_be_forgotten_is_not_lost_by_a_revocation(state):
    enrol(state, 1, state.invite(1, 7.0, NOW))
    state.set_standing({10: None}, Standing.TO_FORGET, tuple(Standing))
    with pytest.raises(Mistake, match="client 10 has asked to be forgotten already"):
        state.revoke(10)
    assert state.devices()[10].standing == Standing.TO_FORGET


def test_erased_answers_are_not_on_the_disk(state):
    state.keep([(b"n" * 16, 10, b"an update" * 99), (b"n" * 16, 11, b"another one" * 99)])
    state.erase([10])
    files = list(state.path.parent.glob("gateway.db*"))
    found = b"".join(path.read_bytes() for path in files)
    assert b"an update" not in found and b"another one" in found


def test_a_device_is_revoked_once(state):
    enrol(state, 1, None)
    state.revoke(10)
    assert state.devices()[10].standing == Standing.REVOKED
    with pytest.raises(Mistake, match="client 10 is revoked already"):
        state.revoke(10)
    with pytest.raises(Mistake, match="no device has the client number 11"):
        state.revoke(11)


def test_a_notice_is_kept_with_the_standing(state):
    enrol(state, 1, None)
    state.set_standing({10: b"notice"}, Standing.FORGOTTEN, tuple(Standing))
    device = opened(state).devices()[10]
    assert (device.standing, device.notice) == (Standing.FORGOTTEN, b"notice")
    state.set_standing({10: None}, Standing.GONE, tuple(Standing))
    assert state.devices()[10].notice is None


def test_a_standing_changes_only_from_what_was_expected(state):
    """Another process has changed it meanwhile."""
    for i in (1, 2):
        enrol(state, i, None)
    opened(state).revoke(10)
    asked = {10: b"one", 11: b"two"}
    found = state.set_standing(asked, Standing.TO_FORGET, (Standing.ACTIVE, Standing.LEFT))
    assert [each.standing for each in found.values()] == [Standing.REVOKED, Standing.TO_FORGET]
    assert found == state.devices() and found[11].notice == b"two" and found[10].notice is None


def test_a_state_belongs_to_one_federation(state):
    with pytest.raises(Mistake, match="another federation"):
        Enrolment(state.path, b"g" * 16)
    assert opened(state).about("federation") == FEDERATION


def test_the_secret_of_the_tokens_is_made_once(state, tmp_path):
    assert state.secret() == opened(state).secret() and len(state.secret()) == 32
    other = Enrolment(tmp_path / "other.db", FEDERATION)
    assert other.secret() != state.secret()


def test_changes_by_others_are_told(state):
    other, before = opened(state), state.changes
    assert state.changes == before
    state.invite(1, 7.0, NOW)
    assert state.changes == before, "its own changes do not count"
    other.invite(1, 7.0, NOW)
    assert state.changes != before


@examples(30)
@given(
    st.lists(
        st.tuples(st.sampled_from("enrol leave revoke invite".split()), st.integers(1, 9)),
        max_size=25,
    )
)
def test_whatever_happens_no_number_is_given_twice(tmp_path_factory, steps):
    """And no invitation is used more often than it allows."""
    state = Enrolment(tmp_path_factory.mktemp("state") / "gateway.db", FEDERATION)
    tokens, owners, uses = [state.invite(2, 7.0, NOW)], {}, 2
    for what, i in steps:
        if what == "invite":
            tokens.append(state.invite(1, 7.0, NOW))
            uses += 1
        elif what == "enrol":
            try:
                client = enrol(state, i, tokens[i % len(tokens)], range(10, 100))
            except Refused:
                continue
            assert owners.setdefault(client, i) == i
        elif 9 + i in owners:
            standing = Standing.GONE if what == "leave" else Standing.REVOKED
            state.set_standing({9 + i: None}, standing, tuple(Standing))
    assert len(owners) <= uses and sorted(owners) == list(range(10, 10 + len(owners)))
    state.close()


# --- answers ---


def test_answers_of_a_step_are_kept_until_the_next_one(state):
    one, two = b"1" * 16, b"2" * 16
    assert stored(state, one) == {}
    state.keep([(one, 10, b"a"), (one, 11, b"b")])
    assert stored(state, one) == stored(opened(state), one) == {10: b"a", 11: b"b"}
    state.keep([(one, 10, b"other")])
    assert stored(state, one)[10] == b"a", "the first one counts"
    assert stored(state, two) == {}
    assert stored(state, one) == {}, "answers to earlier asks are deleted"


def stored(state, nonce):
    return state.begin(nonce, 0, NOW, {})[0]


def test_the_rounds_that_devices_were_asked_for_are_counted(state):
    assert state.rounds_answered() == 0
    for t, rounds in ((0, 1), (4, 5), (2, 5)):
        state.begin(bytes([t]) * 16, t, NOW, {})
        assert state.rounds_answered() == opened(state).rounds_answered() == rounds


def test_a_step_that_continues_began_when_its_ask_first_arrived(state):
    assert state.begin(b"1" * 16, 0, NOW, {})[1] == NOW
    assert opened(state).begin(b"1" * 16, 0, NOW + 9.5, {})[1] == NOW
    assert state.begin(b"2" * 16, 0, NOW + 20.0, {})[1] == NOW + 20.0


def test_models_that_were_passed_on_are_remembered(state):
    assert state.models() == {}
    models = {3: b"a" * 32, 2**32 - 1: b"b" * 32}
    state.begin(b"1" * 16, 0, NOW, models)
    assert opened(state).models() == models
    state.begin(b"2" * 16, 0, NOW, {})
    assert state.models() == {}


def test_answers_are_deleted_from_all_files(state):
    """What a device sent plainly stays no longer than its step, also while the gateway runs."""
    secret = os.urandom(200)

    def files():
        return b"".join(file.read_bytes() for file in state.path.parent.iterdir())

    for t in range(3):
        state.begin(bytes([t]) * 16, t, NOW, {})
        assert secret not in files()
        state.keep([(bytes([t]) * 16, 10, secret)])
        assert secret in files()


# --- crashes, full disks, other processes ---

KILLED = """
import os, signal, sys
from pathlib import Path
from foltr.deployment.gateway.enrolment import Enrolment
state = Enrolment(Path(sys.argv[1]), b"f" * 16)
state._db.set_trace_callback(lambda text: None)
if sys.argv[2] == "enrol":
    use = state._use
    state._use = lambda *given: (use(*given), os.kill(os.getpid(), signal.SIGKILL))
    state.enrol(sys.argv[3], bytes(32), range(10, 15), 1.7e9)
else:
    def answers():
        yield b"1" * 16, 10, b"a"
        os.kill(os.getpid(), signal.SIGKILL)
    state.keep(answers())
"""


@pytest.mark.parametrize("what", ["enrol", "keep"])
def test_a_process_that_is_killed_in_between_leaves_nothing(state, what):
    """The invitation is not used up by a device that has no number."""
    token = state.invite(1, 7.0, NOW)
    words = [sys.executable, "-c", KILLED, str(state.path), what, token]
    assert subprocess.run(words, capture_output=True).returncode == -signal.SIGKILL
    again = opened(state)
    assert not again.devices() and stored(again, b"1" * 16) == {}
    assert enrol(again, 1, token) == 10


def full(state):
    """From now on the disk has no more space, as SQLite sees it."""
    pages = state._db.execute("pragma page_count").fetchone()[0]
    state._db.execute(f"pragma max_page_count = {pages}")


def test_a_full_disk_is_told_and_nothing_is_half_written(state):
    token = state.invite(9, 7.0, NOW)
    enrol(state, 1, token)
    state.begin(b"1" * 16, 0, NOW, {})
    state.keep([(b"1" * 16, 10, b"kept")])
    full(state)
    with pytest.raises(Unusable, match=r"gateway\.db cannot be used .*full.*free some space"):
        state.keep([(b"1" * 16, client, bytes(3000)) for client in range(11, 15)])
    with pytest.raises(Unusable):
        for i in range(2, 200):
            state.enrol(token, bytes([i]) * 32, range(10, 999), NOW)
            token = token if i % 9 else state.invite(9, 7.0, NOW)
    again = opened(state)
    assert stored(again, b"1" * 16) == {10: b"kept"}
    used = again._db.execute("select sum(used) from invitation").fetchone()[0]
    assert used == len(again.devices())
    assert enrol(again, 250, again.invite(1, 7.0, NOW), range(10, 999)) == 10 + used


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(Unusable, match="cannot be used"):
        Enrolment(tmp_path / "missing" / "gateway.db", FEDERATION)
    (tmp_path / "gateway.db").write_bytes(b"no database at all" * 99)
    with pytest.raises(Unusable, match="not a database"):
        Enrolment(tmp_path / "gateway.db", FEDERATION)


def race(path, invitation, i, barrier, found):
    barrier.wait(240)  # until all processes have imported foltr
    state = Enrolment(path, FEDERATION)
    got = []
    for j in range(20):
        try:
            got.append(state.enrol(invitation, bytes([i, j]) * 16, range(10, 999), NOW))
        except Refused:
            got.append(None)
    found.put(got)


def test_processes_that_race_use_an_invitation_as_often_as_it_allows(state):
    token = state.invite(7, 7.0, NOW)
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    given = spawn.Barrier(4), found
    racers = [spawn.Process(target=race, args=(state.path, token, i, *given)) for i in range(4)]
    for racer in racers:
        racer.start()
    numbers = [number for _ in racers for number in found.get(timeout=240) if number is not None]
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    assert sorted(numbers) == list(range(10, 17))


def first(path, barrier, found):
    barrier.wait(240)  # until all processes have imported foltr
    try:
        found.put(Enrolment(path, FEDERATION).about("federation"))
    except BaseException as error:
        found.put(repr(error))
        raise


def test_the_state_is_opened_while_another_process_makes_it(tmp_path, monkeypatch):
    """SQLite refuses the journal at once while another transaction is open."""
    other = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    other.execute("begin immediate")
    monkeypatch.setattr(state_file.time, "sleep", lambda seconds: other.execute("commit"))
    state = Enrolment(tmp_path / "gateway.db", FEDERATION)
    assert state.about("federation") == FEDERATION
    state.close()
    other.close()


def test_the_state_is_refused_if_another_process_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(state_file, "OPENING_SECONDS", 0.0)
    other = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(Unusable, match="database is locked"):
        Enrolment(tmp_path / "gateway.db", FEDERATION)
    other.close()


def test_processes_may_make_the_state_at_the_same_time(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    given = tmp_path / "gateway.db", spawn.Barrier(4), found
    makers = [spawn.Process(target=first, args=given) for _ in range(4)]
    for maker in makers:
        maker.start()
    assert [found.get(timeout=240) for _ in makers] == [FEDERATION] * 4
    for maker in makers:
        maker.join(60)


def test_another_process_that_holds_the_file_is_waited_for(state, monkeypatch):
    other = sqlite3.connect(state.path, isolation_level=None)
    other.execute("begin immediate")
    state._db.execute("pragma busy_timeout = 50")
    with pytest.raises(Unusable, match="locked"):
        state.invite(1, 7.0, NOW)
    other.execute("rollback")
    state.invite(1, 7.0, NOW)


def test_while_the_file_is_read_something_of_a_forgotten_answer_is_left_and_that_is_told(state):
    """Nobody waits long for the reader. The next ask deletes the rest."""
    state.begin(b"n" * 16, 0, NOW, {})
    state.keep([(b"n" * 16, 10, b"secret update")])
    log = state.path.with_name(state.path.name + "-wal")
    other = sqlite3.connect(state.path, isolation_level=None)
    other.execute("begin")
    other.execute("select * from answer").fetchall()
    assert state.erase([10]) is False and b"secret update" in log.read_bytes()
    state.begin(b"m" * 16, 1, NOW, {})
    other.execute("commit")
    state.begin(b"o" * 16, 2, NOW, {})
    for file in (state.path, log):
        assert b"secret update" not in file.read_bytes()
    assert state.erase([10]) is True
    other.close()


def test_the_places_that_are_left_of_a_device_s_invitation(state):
    one, many = state.invite(1, 7.0, NOW), state.invite(3, 7.0, NOW)
    assert [enrol(state, 1, one), enrol(state, 2, many), enrol(state, 3, None)] == [10, 11, 12]
    assert [state.places_left(client, NOW) for client in (10, 11, 12, 13)] == [0, 2, 0, 0]
    assert state.places_left(11, NOW + 8 * DAY) == 0
    state.withdraw(many, NOW)
    assert state.places_left(11, NOW) == 0
