"""New keys for a node: only who has the old key can replace it, unless the operator says so."""

import shutil
import stat
import tomllib
from base64 import b64encode
from dataclasses import replace

import pytest

from foltr.core.errors import Mistake
from foltr.deployment.keys import rotation
from foltr.deployment.keys.keys import NODE_KEY, SIGN_KEY, make_node, public_line, read_node_key
from foltr.deployment.keys.roster_file import add_node, read_card, read_roster, revoke_node
from foltr.deployment.keys.rotation import (
    NEXT,
    own_card,
    promote,
    read_replacement,
    replace_node,
    rotate_node,
)


@pytest.fixture
def roster(tmp_path):
    """A roster with two nodes, a and b, whose keys are in folders of these names."""
    for name in ("a", "b"):
        add_node(tmp_path / "roster.toml", make_node(tmp_path / name, name, 3)[0])
    return tmp_path / "roster.toml"


def folder(roster, name="a"):
    return roster.parent / name


def test_new_keys_replace_the_old_ones(roster):
    before = read_roster(roster)
    seat, card = rotate_node(folder(roster))
    assert card == folder(roster) / NEXT / "a.replace.toml"
    assert (seat.name, seat.clients) == ("a", 3) and seat.key != before.seat("a").key
    entry = replace_node(roster, card)
    assert entry.keys == (before.seat("a").key, seat.key) and entry.next_signs == seat.signs
    now = read_roster(roster)
    assert now.follows(before) and now.range_of(now.seat("b")) == range(3, 6)
    assert now.clients_of(seat.key) == now.clients_of(entry.key) == range(3)
    done = replace_node(roster, card, drop_old=True)
    assert (done.key, done.signs, done.next_key) == (seat.key, seat.signs, None)
    assert done.replaced == (before.seat("a").key,)
    last = read_roster(roster)
    assert last.follows(now) and last.follows(before) and not before.follows(last)
    assert last.seat_of(before.seat("a").key) is None


def test_private_keys_are_private_and_not_in_the_card(roster):
    _, card = rotate_node(folder(roster))
    for name in (NODE_KEY, SIGN_KEY):
        file = card.parent / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        secret = [line for line in file.read_text().splitlines() if "-----" not in line]
        assert secret and not any(line in card.read_text() for line in secret)


def rewritten(card, **changes):
    """A card with other values."""
    table = {**tomllib.loads(card.read_text()), **changes}
    lines = (f"{k} = {v if isinstance(v, int) else repr(v)}\n" for k, v in table.items())
    card.write_text("".join(lines))
    return card


def test_a_card_with_a_wrong_signature_is_refused(roster, tmp_path):
    """With a key of its own, it signs a card for the seat of another node."""
    before = read_roster(roster)
    make_node(tmp_path / "stranger", "a", 3)
    _, own = rotate_node(tmp_path / "stranger")
    with pytest.raises(Mistake, match=r"a replaces the key SHA256:.* make a card with"):
        replace_node(roster, own)
    _, card = rotate_node(folder(roster))
    taken = read_card(tmp_path / "stranger" / "a.node.toml")
    with pytest.raises(Mistake, match="is not signed by the key in the roster"):
        replace_node(roster, rewritten(own, replaces=before.seat("a").key.decode()))
    for name, value in {
        "key": taken.key.decode(),
        "signs": b64encode(taken.signs).decode(),
        "signature": tomllib.loads(own.read_text())["signature"],
    }.items():
        kept = card.read_text()
        with pytest.raises(Mistake, match="is not signed by the key in the roster"):
            replace_node(roster, rewritten(card, **{name: value}))
        card.write_text(kept)
    for name in ("b", "c"):
        with pytest.raises(Mistake):
            replace_node(roster, rewritten(card, name=name))
    with pytest.raises(Mistake, match="has 4 clients, and the roster 3"):
        replace_node(roster, rewritten(card, name="a", clients=4))
    assert read_roster(roster) == before


def test_a_card_is_used_once(roster):
    first, card = rotate_node(folder(roster))
    replace_node(roster, card)
    with pytest.raises(Mistake, match=r"has this new key already: .* or now by --drop-old"):
        replace_node(roster, card)
    replace_node(roster, card, drop_old=True)
    with pytest.raises(Mistake, match="has this key already: nothing is left to do"):
        replace_node(roster, card)
    old = card.read_text()
    promote(folder(roster))
    second, card = rotate_node(folder(roster))
    replace_node(roster, card, drop_old=True)
    (folder(roster) / "old.toml").write_text(old)
    with pytest.raises(Mistake, match="replaces the key SHA256"):  # no way back to the first
        replace_node(roster, folder(roster) / "old.toml")
    seat = read_roster(roster).seat("a")
    assert seat.key == second.key and first.key in seat.replaced


def test_new_keys_can_be_made_again_before_they_are_used(roster):
    _, card = rotate_node(folder(roster))
    with pytest.raises(Mistake, match="has new keys already"):
        rotate_node(folder(roster))
    replace_node(roster, card)
    shutil.rmtree(card.parent)
    second, card = rotate_node(folder(roster))
    assert replace_node(roster, card).next_key == second.key


def test_a_lost_key(roster, tmp_path):
    before = read_roster(roster).seat("a")
    new, card = make_node(tmp_path / "new" / "a", "a", 3)
    with pytest.raises(Mistake, match=r"no `replaces` and `signature`.* give --lost-key"):
        replace_node(roster, card)
    seat = replace_node(roster, card, lost_key=True)
    assert seat.keys == (new.key,) and seat.replaced == (before.key,)
    _, signed = rotate_node(tmp_path / "new" / "a")
    with pytest.raises(Mistake, match="is a card that replaces a node's keys"):
        replace_node(roster, signed, lost_key=True)
    _, many = make_node(tmp_path / "many", "a", 4)
    with pytest.raises(Mistake, match="has 4 clients, and the roster 3"):
        replace_node(roster, many, lost_key=True)
    with pytest.raises(Mistake, match="have the same public key"):  # that of b
        other = read_card(folder(roster, "b") / "b.node.toml")
        many.write_text(rotation.card_text(replace(other, name="a")))
        replace_node(roster, many, lost_key=True)


def test_a_revoked_node_gets_no_new_key(roster):
    _, card = rotate_node(folder(roster))
    revoke_node(roster, "a")
    with pytest.raises(Mistake, match="a is revoked"):
        replace_node(roster, card)


def test_a_card_for_replacing_is_not_for_adding(roster):
    _, card = rotate_node(folder(roster))
    with pytest.raises(Mistake, match="foltr keys replace"):
        add_node(roster, read_card(card))


def test_the_new_keys_take_the_place_of_the_old_ones(roster):
    seat, card = rotate_node(folder(roster))
    kept = {name: (card.parent / name).read_bytes() for name in (NODE_KEY, SIGN_KEY)}
    promote(folder(roster))
    assert sorted(f.name for f in folder(roster).iterdir()) == ["a.node.toml", NODE_KEY, SIGN_KEY]
    assert {name: (folder(roster) / name).read_bytes() for name in kept} == kept
    assert own_card(folder(roster)) == seat
    assert stat.S_IMODE((folder(roster) / NODE_KEY).stat().st_mode) == 0o600


def test_moving_the_new_keys_can_be_interrupted_anywhere(roster, monkeypatch):
    seat, _ = rotate_node(folder(roster))
    left = [0]  # writes until it is killed

    def counted(real):
        def write(*given):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            real(*given)

        return write

    for name in ("replace_private", "write_whole"):
        monkeypatch.setattr(rotation, name, counted(getattr(rotation, name)))
    for failing in range(4):
        left[0] = failing
        try:
            promote(folder(roster))
        except KeyboardInterrupt:
            next_key = folder(roster) / NEXT / NODE_KEY
            assert public_line(read_node_key(next_key)) == seat.key  # still whole
    assert failing == 3
    assert own_card(folder(roster)) == seat
    assert public_line(read_node_key(folder(roster) / NODE_KEY)) == seat.key


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"replaces": "ssh-rsa AAAA"}, "no public key of the kind"),
        ({"signature": "#"}, "a.replace.toml"),
        ({"more": "x"}, "unknown key 'more'"),
        ({"key": "x"}, "no public key"),
    ],
)
def test_a_damaged_card(roster, change, told):
    _, card = rotate_node(folder(roster))
    with pytest.raises(Mistake, match=told):
        read_replacement(rewritten(card, **change))


def test_a_folder_without_a_card_is_refused(roster, tmp_path):
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(Mistake, match=r"has no card \(NAME.node.toml\)"):
            rotate_node(place)
