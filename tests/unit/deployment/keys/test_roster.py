"""The roster of a federation: numbers of clients, refusals, and its file."""

import itertools
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.deployment.keys import roster_file
from foltr.deployment.keys.roster import ALL, KIND, MOST, Roster, Seat, canonical, text_of
from foltr.deployment.keys.roster_file import (
    add_node,
    card_text,
    parse_roster,
    read_card,
    read_roster,
    revoke_node,
)
from property_settings import examples


def key_at(number: int) -> bytes:
    public = ec.derive_private_key(1 + number, ec.SECP384R1()).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


KEYS = [key_at(number) for number in range(12)]


def seat(number: int, clients: int = 3, revoked: bool = False) -> Seat:
    return Seat(f"node-{number}", clients, KEYS[number], bytes([number]) * 32, revoked)


THREE = Roster((seat(0, 2), seat(1, 3, revoked=True), seat(2, 4)))


def test_clients_are_numbered_in_the_order_of_the_file():
    assert [THREE.first(f"node-{i}") for i in range(3)] == [0, 2, 5]
    assert THREE.clients_of(KEYS[0]) == range(0, 2) and THREE.clients_of(KEYS[2]) == range(5, 9)
    assert THREE.n == 6 and THREE.active == (THREE.seats[0], THREE.seats[2])
    assert THREE.clients.tolist() == [0, 1, 5, 6, 7, 8] and THREE.clients.dtype == np.int64
    assert [THREE.node_of(client).name[-1] for client in range(9)] == list("001112222")


def test_nobody_answers_for_clients_of_a_revoked_or_unknown_node():
    assert not THREE.clients_of(KEYS[1]) and not THREE.clients_of(KEYS[9])
    assert THREE.seat_of(KEYS[1]) == THREE.seats[1] and THREE.seat_of(KEYS[9]) is None
    gone = THREE.revoked("node-0").revoked("node-2")
    assert gone.n == 0 and gone.clients.tolist() == [] and gone.active == ()


def test_numbers_never_move():
    more = THREE.with_node(seat(3, 5)).revoked("node-0").with_node(seat(4))
    assert more.first("node-2") == 5 and more.first("node-3") == 9 and more.first("node-4") == 14
    assert more.clients_of(KEYS[2]) == THREE.clients_of(KEYS[2])


@pytest.mark.parametrize("client", [-1, 9, 10**20])
def test_a_client_that_is_not_there(client):
    with pytest.raises(Mistake, match="clients 0 to 8"):
        THREE.node_of(client)


def test_names_that_are_not_there():
    with pytest.raises(Mistake, match="did you mean 'node-0'"):
        THREE.first("nod-0")
    with pytest.raises(Mistake, match="node-1 is revoked already"):
        THREE.revoked("node-1")


def test_a_key_twice_names_both_nodes():
    with pytest.raises(Mistake, match=r"node-0 and other have the same public key \(key\)"):
        THREE.with_node(replace(seat(5), name="other", key=KEYS[0]))
    with pytest.raises(Mistake, match=r"node-1 and other have the same public key \(signs\)"):
        THREE.with_node(replace(seat(5), name="other", signs=bytes([1]) * 32))
    with pytest.raises(Mistake, match="two nodes are called node-1"):
        THREE.with_node(replace(seat(5), name="node-1"))
    written = text_of(THREE) + "\n[[node]]\n" + text_of(THREE).split("[[node]]\n")[1]
    with pytest.raises(Mistake, match="two nodes are called node-0"):
        parse_roster(written)
    with pytest.raises(Mistake, match="node-0 and again have the same public key"):
        parse_roster("again".join(written.rsplit("node-0", 1)))


@pytest.mark.parametrize("name", ["", "Clinic", "a b", "a/b", "..", "ä", "a" * 41, "a\n", 3, None])
def test_bad_names(name):
    with pytest.raises(Mistake, match="lowercase letters, digits and hyphens"):
        replace(seat(0), name=name)


@pytest.mark.parametrize(
    "clients", [0, -1, MOST + 1, True, 1.0, "3", pytest.param(10**5000, id="endless")]
)
def test_bad_numbers_of_clients(clients):
    with pytest.raises(Mistake, match="whole number from 1 to 1,000,000"):
        replace(seat(0), clients=clients)


def test_a_federation_has_a_limit():
    full = Roster(tuple(seat(i, MOST) for i in range(10)))
    assert full.n == ALL
    with pytest.raises(Mistake, match="more than the 10,000,000"):
        full.with_node(seat(10, 1))


def test_keys_of_another_kind_or_damaged():
    line = KEYS[0].decode()
    assert canonical(line) == canonical(f"  {line} me@here now\n") == KEYS[0]
    blob = line.split()[1]
    for bad in ("", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY----- SECRET", blob):
        with pytest.raises(Mistake, match="no public key of the kind") as refused:
            canonical(bad)
        assert "SECRET" not in str(refused.value)
    off_curve = blob[:-6] + ("A" if blob[-6] != "A" else "B") + blob[-5:]
    for bad in (
        "",
        "x",
        "ä",
        blob[:-4],
        blob + "AAAA",
        off_curve,
        f"\n{blob}",
        f"{blob} \n{blob}",
    ):
        with pytest.raises(Mistake, match="damaged"):
            canonical(f"{KIND.decode()} {bad}")


def test_a_seat_is_checked_however_it_is_made():
    with pytest.raises(Mistake, match="as canonical"):
        replace(seat(0), key=KEYS[0] + b" comment")
    with pytest.raises(Mistake, match="31 bytes"):
        replace(seat(0), signs=bytes(31))


ONE = text_of(Roster((seat(0),)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "needs a node"),
        ("# nothing\n", "needs a node"),
        (ONE.replace("[[node]]", "[node]"), "two brackets"),
        (ONE.replace("[[node]]", "[[nodes]]"), "did you mean 'node'"),
        ("node = [3]", "node 1: a node must be a table, got 3"),
        (ONE.replace("clients", "cleints"), "unknown key 'cleints': did you mean 'clients'"),
        (ONE.replace("clients = 3\n", ""), r"node 1 \('node-0'\): clients is missing"),
        (ONE.replace("clients = 3", "clients = true"), "expected a whole number"),
        (ONE.replace("clients = 3", f"clients = {10**400}"), "1000 bits"),
        (ONE + "revoked = 1\n", "revoked = 1: expected true or false"),
        (ONE.replace('name = "node-0"', "name = 7"), "name = 7: expected text in quotes"),
        (ONE.replace('signs = "AA', 'signs = "A'), "signs is damaged: expected 32 bytes"),
        (ONE.replace('signs = "AA', 'signs = "ä'), "signs is damaged: expected 32 bytes"),
        ("node = " + "[" * 5000, "TOML"),
        ("x" * 1_000_001, "too large"),
        (b"\xff", "UTF-8"),
    ],
    ids=itertools.count(),
)
def test_the_reader_is_strict(text, told):
    with pytest.raises(Mistake, match=told):
        parse_roster(text)


seats = st.lists(
    st.tuples(
        st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True),
        st.integers(1, 10**5),
        st.fixed_dictionaries({"revoked": st.booleans(), "gateway": st.booleans()}),
    ),
    min_size=1,
    max_size=len(KEYS),
    unique_by=lambda each: each[0],
)


@st.composite
def rosters(draw):
    keys = draw(st.permutations(KEYS))
    return Roster(
        tuple(
            Seat(name, clients, key, bytes([i]) + draw(st.binary(min_size=31, max_size=31)), **of)
            for i, ((name, clients, of), key) in enumerate(zip(draw(seats), keys, strict=False))
        )
    )


@given(rosters())
@examples(60)
def test_what_is_written_reads_back(roster):
    assert parse_roster(text_of(roster)) == roster
    assert [roster.node_of(int(client)).revoked for client in roster.clients[:50]] == [
        False for _ in roster.clients[:50]
    ]
    for seat in roster.active:
        start = roster.first(seat.name)
        assert roster.node_of(start) == roster.node_of(start + seat.clients - 1) == seat


@given(st.one_of(st.text(), st.binary(), st.text("[]node=\"'\n #.{}1,").map(ONE.__add__)))
@examples(300)
def test_arbitrary_text_is_a_roster_or_a_mistake(text):
    try:
        assert isinstance(parse_roster(text), Roster)
    except Mistake:
        pass


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(
    st.dictionaries(st.sampled_from(["name", "clients", "key", "signs", "revoked", "x"]), values)
)
@examples(100)
def test_arbitrary_tables_are_nodes_or_mistakes(table):
    from foltr.deployment.keys.roster import seat_of_table

    for given_table in (table, {"name": "a", "clients": 1, "key": KEYS[0].decode(), **table}):
        try:
            assert isinstance(seat_of_table(given_table), Seat)
        except Mistake:
            pass


def test_the_file(tmp_path):
    file = tmp_path / "roster.toml"
    file.write_text(text_of(THREE))
    assert read_roster(file) == THREE
    assert revoke_node(file, "node-2") == read_roster(file) == THREE.revoked("node-2")
    with pytest.raises(Mistake, match=f"{file}: node-2 is revoked already"):
        revoke_node(file, "node-2")
    with pytest.raises(Mistake, match="there is no file"):
        read_roster(tmp_path / "nothing")
    with pytest.raises(Mistake, match="there is no file"):
        revoke_node(tmp_path / "nothing", "a")
    with pytest.raises(Mistake, match="a folder"):
        read_roster(tmp_path)
    with pytest.raises(Mistake, match="there is no folder"):
        add_node(tmp_path / "no" / "roster.toml", seat(0))
    assert {path.name for path in tmp_path.iterdir()} == {"roster.toml", ".roster.toml.lock"}


def test_comments_of_the_operator_stay(tmp_path):
    file = tmp_path / "roster.toml"
    file.write_text("# our clinics\n")
    add_node(file, seat(0))
    file.write_text(file.read_text() + "# joined in May")  # without a line end
    add_node(file, seat(1))
    revoke_node(file, "node-0")
    text = file.read_text()
    assert text.startswith("# our clinics\n") and "# joined in May\n" in text
    assert read_roster(file) == Roster((seat(0, revoked=True), seat(1)))


def test_a_file_that_cannot_be_amended_is_written_anew(tmp_path):
    file = tmp_path / "roster.toml"
    table = f'name = "node-0", clients = 3, key = "{KEYS[0].decode()}"'
    file.write_text(f'node = [{{{table}, signs = "{b64encode(bytes(32)).decode()}"}}]')
    assert read_roster(file) == Roster((seat(0),))
    assert add_node(file, seat(1)) == read_roster(file) == Roster((seat(0), seat(1)))
    file.write_text(file.read_text() + "revoked = false\n")
    assert revoke_node(file, "node-1") == read_roster(file)
    assert read_roster(file).seats[1].revoked


def test_a_roster_behind_a_link_stays_behind_it(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "roster.toml").symlink_to(tmp_path / "real" / "r.toml")
    add_node(tmp_path / "roster.toml", seat(0))
    add_node(tmp_path / "roster.toml", seat(1))
    assert (tmp_path / "roster.toml").is_symlink()
    assert len(read_roster(tmp_path / "real" / "r.toml").seats) == 2


def test_a_roster_that_would_be_too_large_is_not_written(tmp_path, monkeypatch):
    file = tmp_path / "roster.toml"
    add_node(file, seat(0))
    before = file.read_bytes()
    monkeypatch.setattr(roster_file, "LARGEST", len(before) + 10)
    with pytest.raises(Mistake, match="too large"):
        add_node(file, seat(1))
    assert file.read_bytes() == before


def test_a_card(tmp_path):
    card = tmp_path / "a.node.toml"
    card.write_text(card_text(seat(0)))
    assert read_card(card) == seat(0)
    card.write_text(card_text(seat(0)) + "revoked = false\n")
    with pytest.raises(Mistake, match="unknown key 'revoked'"):
        read_card(card)
    card.write_text("#" * 10_001)
    with pytest.raises(Mistake, match="too large"):
        read_card(card)


def test_adding_at_the_same_time_loses_nobody(tmp_path):
    file = tmp_path / "roster.toml"
    cards = []
    for number in range(8):
        cards.append(tmp_path / f"{number}.toml")
        cards[-1].write_text(card_text(seat(number)))
    code = (
        "import sys; from pathlib import Path\n"
        "from foltr.deployment.keys.roster_file import add_node, read_card\n"
        "for card in sys.argv[2:]: add_node(Path(sys.argv[1]), read_card(Path(card)))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(file), *map(str, cards[i::4])])
        for i in range(4)
    ]
    assert [process.wait(240) for process in running] == [0] * 4
    assert {each.name for each in read_roster(file).seats} == {f"node-{i}" for i in range(8)}


def test_revoked_nodes_sign_for_nobody():
    keys = THREE.signers(range(9))
    assert keys == {id: THREE.node_of(id).signs for id in (0, 1, 5, 6, 7, 8)}
