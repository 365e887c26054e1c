"""Pinned keys of devices: one form of file, and who signs for whom."""

from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.deployment.keys.device_keys import (
    Signers,
    device_keys_text,
    keys_in,
    read_device_keys,
    server_signers,
)
from foltr.deployment.keys.keys import make_node
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import add_node, read_roster

KEY = bytes(range(32))


def fixed_signers(roster, pinned):
    return Signers(lambda: roster, lambda: pinned)


@given(st.dictionaries(st.integers(0, 10**7 - 1), st.binary(min_size=32, max_size=32), max_size=9))
def test_keys_are_read_as_they_were_written(tmp_path_factory, keys):
    keys = {client: key for key, client in {key: c for c, key in keys.items()}.items()}
    path = tmp_path_factory.mktemp("keys") / "devices.keys"
    path.write_text("# pinned\n\n" + device_keys_text(keys))
    assert read_device_keys(path, print) == keys


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("17", "expected a client number"),
        ("x AAAA", "expected a client number"),
        ("-1 AAAA", "expected a client number"),
        ("10000000 " + b64encode(KEY).decode(), "expected a client number"),
        ("17 AAAA", "expected a client number"),
        ("17 ????", "expected a client number"),
        (device_keys_text({1: KEY}) * 2, "line 2: client 1 has two keys"),
    ],
)
def test_a_mistake_names_its_line(tmp_path, text, told):
    path = tmp_path / "devices.keys"
    path.write_text(text)
    with pytest.raises(Mistake, match=told):
        read_device_keys(path, print)


def test_clients_that_share_a_key_are_left_out(tmp_path):
    """Whoever enrols one key twice excludes only itself."""
    path, told = tmp_path / "devices.keys", []
    path.write_text(device_keys_text({1: KEY, 2: bytes(32), 3: KEY}))
    assert read_device_keys(path, told.append) == {2: bytes(32)}
    assert "the clients 1, 3 share a key" in told.pop() and not told


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(Mistake, match="cannot read"):
        read_device_keys(tmp_path / "none", print)


def test_a_node_signs_for_its_clients_and_a_device_for_itself(tmp_path):
    node, gateway = (make_node(tmp_path / name, name, 3)[0] for name in ("node", "gateway"))
    signers = fixed_signers(Roster((node, gateway)), {4: KEY})
    everybody = np.arange(6)
    expected = {0: node.signs, 1: node.signs, 2: node.signs, 4: KEY}
    assert signers(everybody) == expected  # 3 and 5 have no key, although the gateway has one
    assert signers.filled(np.array([4]), 3).tolist() == [4, 0, 1]
    assert signers.filled(np.array([0, 4]), 9).tolist() == [0, 4, 1, 2]


def test_files_that_change_are_read_again(tmp_path):
    """Also if the file of pinned keys appears later. A file with a mistake changes nothing."""
    roster, pinned, told = tmp_path / "roster.toml", tmp_path / "devices.keys", []
    seats = [make_node(tmp_path / name, name, 3)[0] for name in ("node", "gateway")]
    for seat in seats:
        add_node(roster, seat)
    known, alone = (keys_in(file, pinned, told.append) for file in (roster, None))
    everybody, signs = np.arange(6), [seat.signs for seat in seats]
    assert known(everybody) == {} == alone(everybody)
    assert "does not exist yet" in told[0]
    pinned.write_text(device_keys_text({4: KEY}))
    assert known(everybody) == {0: signs[0], 1: signs[0], 2: signs[0], 4: KEY}
    assert alone(everybody) == {4: KEY}
    pinned.write_text(device_keys_text({4: KEY, 6: bytes(32)}))  # the roster has no client 6
    assert known(everybody) == {0: signs[0], 1: signs[0], 2: signs[0], 4: KEY}
    assert known(np.array([4])) == {4: KEY}
    assert "6" in told[-1] and "stays in use" in told[-1]
    with pytest.raises(Mistake):
        keys_in(roster, pinned, told.append)
    pinned.unlink()
    for _ in range(2):
        assert known(everybody) == {0: signs[0], 1: signs[0], 2: signs[0], 4: KEY}
    assert "is gone" in told[-1] and "stays in use" in told[-1]


def test_only_pinned_keys_sign_for_the_devices_of_a_gateway(tmp_path):
    """Also of one of which no key is pinned, if the roster says that it is a gateway. Its own key
    would let it invent devices."""
    node, gateway, gone = (
        make_node(tmp_path / name, name, 2, gateway=name != "node")[0]
        for name in ("node", "gateway", "gone")
    )
    roster = Roster((node, gateway, replace(gone, revoked=True)))
    everybody, nodes = np.arange(6), {0: node.signs, 1: node.signs}
    assert fixed_signers(roster, {})(everybody) == nodes
    assert fixed_signers(roster, {3: KEY, 4: bytes(32)})(everybody) == nodes | {3: KEY}


def test_a_server_reads_pinned_keys_again(tmp_path):
    """A file with a mistake changes nothing. One that names clients of a node that is not yet in
    the roster is used once it is."""
    file, pinned, told = tmp_path / "roster.toml", tmp_path / "devices.keys", []
    seats = [make_node(tmp_path / name, name, 2, gateway=True)[0] for name in ("one", "two")]
    add_node(file, seats[0])
    pinned.write_text(device_keys_text({2: KEY}))

    def live():
        return read_roster(file)

    with pytest.raises(Mistake, match="no client 2"):
        server_signers(live, file, pinned, told.append)
    pinned.write_text("")
    signers = server_signers(live, file, pinned, told.append)
    assert signers(np.arange(2)) == {} and not told
    pinned.write_text(device_keys_text({0: KEY}))
    assert signers(np.arange(2)) == {0: KEY}
    assert signers.filled(np.array([], np.int64), 9).tolist() == [0]
    assert "has the keys of 1 devices" in told.pop() and not told
    pinned.write_text(device_keys_text({0: KEY, 2: bytes(32)}))
    for _ in range(3):
        assert signers(np.arange(2)) == {0: KEY}
    assert "no client 2" in told.pop() and not told
    add_node(file, seats[1])
    assert signers(np.arange(4)) == {0: KEY, 2: bytes(32)}
    pinned.unlink()
    for _ in range(2):
        assert signers(np.arange(4)) == {0: KEY, 2: bytes(32)}
    assert "stays in use" in told[-1]


@pytest.mark.parametrize("content", [b"\xff\xfe1\x00", b"9" * 5000 + b" AAAA"])
def test_a_file_that_is_no_text_or_has_a_huge_number(tmp_path, content):
    path = tmp_path / "devices.keys"
    path.write_bytes(content)
    with pytest.raises(Mistake, match=r"is no text|expected a client number"):
        read_device_keys(path, print)
