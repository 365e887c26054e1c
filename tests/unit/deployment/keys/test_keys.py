"""Keys of a federation: real TLS on this machine, the formats that Flower wants, and checks."""

import hashlib
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import threading
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from foltr.core.errors import Mistake
from foltr.deployment.keys import keys
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import add_node, parse_roster, read_card
from foltr.secure_sum.keys import node_keys, sign, signed_by

NOW = datetime(2030, 5, 1, tzinfo=UTC)


def days(n: float) -> timedelta:
    return timedelta(days=n)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server's folder. Tests change nothing in it."""
    folder = tmp_path_factory.mktemp("federation") / "server"
    keys.make_server(folder, ["Search.Example.org", "10.0.0.5", "2001:DB8::1"])
    return folder


def greeted(folder, trusted, host="localhost"):
    """What a client that trusts only this authority gets from a server with this folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)

        def serve():
            connection, _ = listening.accept()
            connection.settimeout(20)
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.sendall(b"hello")
            except OSError:  # the client refused
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            client = ssl.create_default_context(cafile=trusted)
            client.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by default
            plain = socket.create_connection(listening.getsockname(), timeout=20)
            with plain, client.wrap_socket(plain, server_hostname=host) as secure:
                return secure.recv(100)
        finally:
            thread.join(20)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "search.example.org", "10.0.0.5", "2001:db8::1"]
)
def test_a_client_that_trusts_the_authority_is_served(server, host):
    assert greeted(server, server / "ca.pem", host) == b"hello"


def test_another_host_is_refused(server):
    with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example\.org"):
        greeted(server, server / "ca.pem", "other.example.org")


def test_a_foreign_authority_is_refused(server, tmp_path):
    keys.make_server(tmp_path / "server", ["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(server, tmp_path / "server" / "ca.pem")
    with pytest.raises(Mistake, match=r"was not signed by .*ca\.pem"):
        keys.check_issued(server / "server.pem", tmp_path / "server" / "ca.pem")


def test_an_expired_certificate_is_refused(tmp_path):
    folder = tmp_path / "federation" / "server"
    keys.make_server(folder, ["localhost"], 30, now=datetime.now(UTC) - days(31))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        greeted(folder, folder / "ca.pem")
    with pytest.raises(Mistake, match=f"keys renew --out {tmp_path / 'federation'}"):
        keys.check_server(folder)
    keys.renew_server(folder)
    assert keys.check_server(folder) == []
    assert greeted(folder, folder / "ca.pem") == b"hello"


def test_a_certificate_of_tomorrow_is_refused(tmp_path):
    keys.make_server(tmp_path / "server", ["localhost"], now=datetime.now(UTC) + days(1))
    with pytest.raises(ssl.SSLCertVerificationError, match="not yet valid"):
        greeted(tmp_path / "server", tmp_path / "server" / "ca.pem")
    with pytest.raises(Mistake, match="is the clock of this machine right"):
        keys.check_server(tmp_path / "server")


def test_what_the_certificates_say(server):
    ca, own = (keys.read_certificate(server / name) for name in ("ca.pem", "server.pem"))
    assert ca.subject == ca.issuer == own.issuer
    assert ca.subject.rfc4514_string() == "CN=foltr federation CA"
    for certificate in (ca, own):
        assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
        assert certificate.public_key().curve.name == "secp256r1"
    length = ca.not_valid_after_utc - ca.not_valid_before_utc
    assert days(3650) <= length <= days(3651)
    length = own.not_valid_after_utc - own.not_valid_before_utc
    assert days(365) <= length <= days(366)
    constraints = own.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and not constraints.value.ca
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["search.example.org", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ip_address(each) for each in ("10.0.0.5", "2001:db8::1", "127.0.0.1")
    ]


@pytest.mark.parametrize(
    "host",
    [
        "",
        "https://a.org",
        "a.org:8000",
        "a.org/x",
        "a..org",
        "-a.org",
        "a b",
        "a\n",
        "ü.org",
        "*.a.org",
        "256.1.1.1",
        "[::1]",
        "0.0.0.0",
        "::",
        "fe80::1%eth0",
        "a" * 64,
        "a." * 127,
    ],
)
def test_what_is_no_host(host, tmp_path):
    with pytest.raises(Mistake):
        keys.make_server(tmp_path / "server", [host])
    assert list(tmp_path.iterdir()) == []


def test_a_server_needs_a_host_and_days(tmp_path):
    with pytest.raises(Mistake, match="needs a host"):
        keys.make_server(tmp_path / "server", [])
    for n in (0, -3, 3651):
        with pytest.raises(Mistake, match="expected 1 to 3650"):
            keys.make_server(tmp_path / "server", ["a"], n)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="not on this system: modes of files")
def test_files_and_their_modes(server, tmp_path):
    assert modes(server) == {
        "ca.pem": 0o644,
        "ca.key": 0o600,
        "server.pem": 0o644,
        "server.key": 0o600,
    }
    keys.make_node(tmp_path / "a", "a", 2)
    assert modes(tmp_path / "a") == {"node.key": 0o600, "sign.key": 0o600, "a.node.toml": 0o644}
    assert modes(tmp_path) == {"a": 0o700} and modes(server.parent) == {"server": 0o700}


def test_nothing_is_overwritten(server, tmp_path):
    before = {path: path.read_bytes() for path in server.iterdir()}
    with pytest.raises(Mistake, match="never overwritten"):
        keys.make_server(server, ["localhost"])
    assert {path: path.read_bytes() for path in server.iterdir()} == before
    keys.make_node(tmp_path / "a", "a")
    before = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    with pytest.raises(Mistake, match=f"{tmp_path / 'a'} already exists"):
        keys.make_node(tmp_path / "a", "a")
    assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before


def test_the_keys_of_a_node(tmp_path):
    seat, card = keys.make_node(tmp_path / "clinic-a", "clinic-a", 40)
    assert read_card(card) == seat and (seat.name, seat.clients) == ("clinic-a", 40)
    key = load_ssh_private_key((tmp_path / "clinic-a/node.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp384r1"
    assert keys.public_line(key) == seat.key
    assert load_ssh_public_key(seat.key) == key.public_key()
    assert keys.read_node_key(tmp_path / "clinic-a/node.key").private_numbers() == (
        key.private_numbers()
    )
    private = keys.read_sign_key(tmp_path / "clinic-a/sign.key")
    assert len(private) == 32 and keys.public_of_sign_key(private) == seat.signs
    assert signed_by(node_keys({0: seat.signs})[0], sign(private, b"text"), b"text")
    told = card.read_text()
    assert "PRIVATE" not in told and b64decode(re.search('signs = "(.*)"', told)[1]) == seat.signs
    other, _ = keys.make_node(tmp_path / "b", "b")
    assert {other.key, other.signs}.isdisjoint({seat.key, seat.signs})
    assert Roster((seat, other)).clients_of(other.key) == range(40, 41)


def test_a_fingerprint_is_that_of_ssh(tmp_path):
    """What `ssh-keygen -lf` prints: the hash of the public key in OpenSSH's own format."""
    seat, _ = keys.make_node(tmp_path / "a", "a")
    private = load_ssh_private_key((tmp_path / "a/node.key").read_bytes(), None)
    line = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    digest = hashlib.sha256(b64decode(line.split()[1])).digest()
    assert seat.fingerprint == "SHA256:" + b64encode(digest).decode().rstrip("=")


def test_keys_as_flower_writes_them(tmp_path):
    seat, _ = keys.make_node(tmp_path / "a", "a")
    pem = keys.flower_key(seat.key)
    assert pem.startswith(b"-----BEGIN PUBLIC KEY-----") and keys.roster_key(pem) == seat.key
    import flwr.supercore.primitives.asymmetric as flower

    own = keys.read_node_key(tmp_path / "a/node.key")
    assert flower.public_key_to_bytes(own.public_key()) == pem


def test_other_keys_from_flower_are_refused():
    small = ec.generate_private_key(ec.SECP256R1()).public_key()
    with pytest.raises(Mistake, match="no public key of the kind"):
        keys.roster_key(small.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(Mistake, match="no public key"):
        keys.roster_key(b"nonsense")


def test_a_node_that_is_no_node_leaves_no_files(tmp_path):
    for name, clients in (("A", 1), ("a", 0)):
        with pytest.raises(Mistake):
            keys.make_node(tmp_path / "a", name, clients)
    assert list(tmp_path.iterdir()) == []


def test_dates(tmp_path):
    keys.make_server(tmp_path / "server", ["a"], 90, now=NOW)
    own = tmp_path / "server" / "server.pem"
    assert keys.check_dates(own, NOW + days(60)) == []
    (warning,) = keys.check_dates(own, NOW + days(60.5))
    assert "expires on 2030-07-30, in 29 days: foltr keys renew --out" in warning
    with pytest.raises(Mistake, match="expired on 2030-07-30: foltr keys renew"):
        keys.check_dates(own, NOW + days(91))
    with pytest.raises(Mistake, match="not valid before 2030-04-30 23:00 UTC"):
        keys.check_dates(own, NOW - days(1))
    with pytest.raises(Mistake, match=r"ca\.pem expired .*foltr keys server"):
        keys.check_server(tmp_path / "server", now=NOW + days(3651))


def test_hosts(server):
    for host in ("SEARCH.example.org", "localhost", "10.0.0.5", "2001:db8:0::1"):
        keys.check_host(server / "server.pem", host)
        assert keys.check_server(server, host) == []
    for host in ("example.org", "10.0.0.6", "a.search.example.org"):
        with pytest.raises(Mistake, match=f"is not for {host}, only for search.example.org, "):
            keys.check_host(server / "server.pem", host)


def test_a_key_of_another_certificate(server):
    keys.check_pair(server / "ca.pem", server / "ca.key")
    with pytest.raises(Mistake, match="does not belong to the certificate"):
        keys.check_pair(server / "server.pem", server / "ca.key")


def written(path, content, mode=0o600):
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_files_that_are_no_keys(tmp_path):
    key = ec.generate_private_key(ec.SECP384R1())
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )
    other = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(Mistake, match="without a password"):
        keys.read_key(written(tmp_path / "locked", locked))
    with pytest.raises(Mistake, match="of another kind"):
        keys.read_key(written(tmp_path / "rsa", other))
    small = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    with pytest.raises(Mistake, match="no P-384 key"):
        keys.read_node_key(written(tmp_path / "small", small))
    junk = written(tmp_path / "junk", b"SECRET \xff")
    for read in (keys.read_key, keys.read_node_key, keys.read_sign_key):
        with pytest.raises(Mistake, match="junk is no") as refused:
            read(junk)
        assert "SECRET" not in str(refused.value)
    with pytest.raises(Mistake, match="is no certificate"):
        keys.read_certificate(junk)
    with pytest.raises(Mistake, match="cannot read"):
        keys.read_certificate(tmp_path / "nothing")


@pytest.mark.skipif(os.name == "nt", reason="not on this system: modes of files")
def test_private_files_that_others_can_read(tmp_path):
    keys.make_server(tmp_path / "server", ["a"])
    keys.make_node(tmp_path / "a", "a")
    for read, path in (
        (lambda path: keys.check_server(path.parent), tmp_path / "server/server.key"),
        (lambda path: keys.renew_server(path.parent), tmp_path / "server/ca.key"),
        (keys.read_node_key, tmp_path / "a/node.key"),
        (keys.read_sign_key, tmp_path / "a/sign.key"),
    ):
        path.chmod(0o644)
        with pytest.raises(Mistake, match=f"chmod 600 {path}"):
            read(path)
        path.chmod(0o600)
        read(path)


def test_a_renewal_keeps_the_authority_and_the_key(tmp_path):
    folder = tmp_path / "server"
    keys.make_server(folder, ["a.org"], now=NOW)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    own = keys.renew_server(folder, 100, now=NOW + days(300))
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"server.pem"}
    assert keys.hosts_of(own) == ("a.org", "localhost", "127.0.0.1")
    assert own.not_valid_after_utc == NOW + days(400)
    assert keys.check_server(folder, "a.org", NOW + days(366)) == []
    keys.renew_server(folder, 100, ["b.org"], now=NOW)
    keys.check_host(folder / "server.pem", "b.org")
    for n in (0, 3601):
        with pytest.raises(Mistake, match="expected 1 to 3600, because the authority ends on"):
            keys.renew_server(folder, n, now=NOW + days(50))
    with pytest.raises(Mistake, match=r"authority .* has expired"):
        keys.renew_server(folder, now=NOW + days(3651))


def test_without_cryptography_there_is_a_way_out(tmp_path):
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pathlib import Path\n"
        "from foltr.core.errors import Mistake\n"
        "from foltr.deployment.keys.roster_file import read_roster\n"
        "try:\n    read_roster(Path(sys.argv[1]))\n"
        "except Mistake as mistake:\n    print(mistake)\n"
        "try:\n    import foltr.deployment.keys.keys\n"
        "except Mistake as mistake:\n    print(mistake)"
    )
    roster = tmp_path / "roster.toml"
    add_node(roster, keys.make_node(tmp_path / "a", "a")[0])
    command = [sys.executable, "-c", code, roster]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    reading, making = done.stdout.splitlines()
    assert "a roster needs the package cryptography: pip install 'foltr[deploy]'" in reading
    assert "keys need the package cryptography: pip install 'foltr[deploy]'" in making


def test_real_keys_pass_the_roster(tmp_path):
    for number in range(20):
        seat, card = keys.make_node(tmp_path / str(number), f"n{number}")
        assert parse_roster("[[node]]\n" + card.read_text()) == Roster((seat,))
