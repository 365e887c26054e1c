"""A roster in which keys are replaced: who may connect, sign and follow."""

from dataclasses import replace

import pytest
from test_roster import KEYS, THREE, seat

from foltr.core.errors import Mistake
from foltr.deployment.keys.roster import Roster, fingerprint, text_of
from foltr.deployment.keys.roster_file import change_node, parse_roster, read_roster, revoke_node

NEW, SIGNS = KEYS[9], b"n" * 32
WAITING = THREE.with_seat(THREE.seat("node-2").with_next_keys(NEW, SIGNS))
DONE = WAITING.with_seat(WAITING.seat("node-2").with_replaced_keys())


def test_both_keys_are_valid_until_the_new_one_is_used():
    own = range(5, 9)
    assert WAITING.clients_of(KEYS[2]) == WAITING.clients_of(NEW) == own
    assert DONE.clients_of(NEW) == own and len(DONE.clients_of(KEYS[2])) == 0
    assert DONE.seat_of(KEYS[2]) is None and DONE.seat("node-2").replaced == (KEYS[2],)


def test_both_keys_sign_meanwhile():
    old = bytes([2]) * 32
    assert THREE.signers([5])[5] == old
    assert WAITING.signers([5])[5] == old + SIGNS and DONE.signers([5])[5] == SIGNS


def test_allowed_changes_of_a_roster():
    assert WAITING.follows(THREE) and DONE.follows(WAITING) and DONE.follows(THREE)
    assert THREE.follows(WAITING)  # the operator has changed his mind
    assert not THREE.follows(DONE) and not WAITING.follows(DONE)  # no way back
    assert THREE.with_node(seat(3)).follows(THREE) and not THREE.follows(THREE.with_node(seat(3)))
    assert THREE.revoked("node-0").follows(THREE)


@pytest.mark.parametrize(
    "changed",
    [
        {"key": NEW},  # without saying what it replaces
        {"signs": SIGNS},
        {"clients": 5},
        {"name": "other"},
        {"key": NEW, "signs": SIGNS, "replaced": (KEYS[7],)},  # another key was replaced
    ],
)
def test_other_changes_of_a_roster_are_refused(changed):
    now = Roster((*THREE.seats[:2], replace(THREE.seats[2], **changed)))
    assert not now.follows(THREE)


def test_another_order_of_nodes_is_refused():
    assert not Roster(THREE.seats[::-1]).follows(THREE)


@pytest.mark.parametrize(
    "changed",
    [
        {"next_key": KEYS[2], "next_signs": SIGNS},  # its own
        {"next_key": NEW, "next_signs": bytes([2]) * 32},
        {"replaced": (KEYS[2],)},
        {"replaced": (NEW, NEW)},
        {"next_key": NEW, "next_signs": SIGNS, "replaced": (NEW,)},
        {"next_key": KEYS[0], "next_signs": SIGNS},  # that of another node
        {"next_key": NEW, "next_signs": bytes([0]) * 32},
        {"replaced": (KEYS[0],)},
    ],
)
def test_no_key_is_there_twice(changed):
    with pytest.raises(Mistake, match="the same public key"):
        THREE.with_seat(replace(THREE.seats[2], **changed))


def test_half_of_new_keys_is_refused():
    for half in ({"next_key": NEW}, {"next_signs": SIGNS}):
        with pytest.raises(Mistake, match="next_key and next_signs belong together"):
            replace(seat(0), **half)
    with pytest.raises(Mistake, match="has 3 bytes, expected 32"):
        replace(seat(0), next_key=NEW, next_signs=b"abc")
    with pytest.raises(Mistake, match="node-0 has no new key"):
        seat(0).with_replaced_keys()


def test_a_roster_is_read_as_it_was_written():
    forgotten = DONE.revoked("node-0", forgotten=True)
    for roster in (WAITING, DONE, forgotten):
        assert parse_roster(text_of(roster)) == roster
    assert forgotten.seat("node-0").forgotten and forgotten.seat("node-0").revoked


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("replaced = [1]\n", "replaced: expected a list of keys"),
        ("replaced = 'x'\n", "replaced = 'x': expected a list of keys"),
        ("replaced = ['x']\n", "no public key"),
        ("next_key = 'x'\n", "no public key"),
        ("forgotten = 1\n", "forgotten = 1: expected true or false"),
    ],
)
def test_mistakes_in_the_text(line, told):
    with pytest.raises(Mistake, match=told):
        parse_roster(text_of(Roster((seat(0),))) + line)


def test_comments_are_kept_when_keys_are_replaced(tmp_path):
    file = tmp_path / "roster.toml"
    text = text_of(THREE).replace('name = "node-2"', '# the clinic\nname = "node-2" # by the sea')
    file.write_text(f"# ours\n{text}")

    def with_next_keys(roster):
        return roster.with_seat(roster.seat("node-2").with_next_keys(NEW, SIGNS))

    def with_replaced_keys(roster):
        return roster.with_seat(roster.seat("node-2").with_replaced_keys())

    assert change_node(file, "node-2", with_next_keys) == read_roster(file) == WAITING
    assert change_node(file, "node-2", with_replaced_keys) == read_roster(file) == DONE
    for comment in ("# ours\n", "# the clinic\n", "# by the sea\n"):
        assert comment in file.read_text()
    assert file.read_text().count("next_key") == 0


def test_forgetting_is_marked_even_on_a_revoked_node(tmp_path):
    file = tmp_path / "roster.toml"
    file.write_text(text_of(THREE))
    assert revoke_node(file, "node-1", forgotten=True).seat("node-1").forgotten
    with pytest.raises(Mistake, match="revoked already"):
        revoke_node(file, "node-1", forgotten=True)
    with pytest.raises(Mistake, match="revoked already"):
        revoke_node(file, "node-1")
    assert read_roster(file).seat("node-1").forgotten


def test_fingerprints():
    assert fingerprint(KEYS[0]) == seat(0).fingerprint != fingerprint(NEW)
