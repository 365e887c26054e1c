"""A certificate that is replaced while a server listens, seen by clients in real handshakes."""

import ssl

import pytest
from handshakes import handshake

from foltr.core.errors import Mistake
from foltr.deployment.keys.keys import ServerFiles, make_server, read_certificate, renew_server
from foltr.deployment.keys.rotation import follow_certificate, server_context

HOSTS = ("localhost", "127.0.0.1")  # with a name in the handshake, and without


@pytest.fixture
def server(tmp_path):
    """The files, the listening context, its certificate, and what was told."""
    make_server(tmp_path / "server", ["localhost"])
    files, told = ServerFiles(tmp_path / "server"), []
    current = follow_certificate(files.certificate, files.key, told.append)
    return files, current.value, current, told


def serial(files):
    return read_certificate(files.certificate).serial_number


@pytest.mark.parametrize("new_key", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_new_connections_get_the_new_certificate(server, host, new_key):
    files, context, current, told = server
    first = serial(files)
    assert handshake(context, host, files.ca) == first
    renew_server(files.folder, new_key=new_key)
    assert handshake(context, host, files.ca) == first  # until somebody looks
    assert current.refresh() and not told
    assert handshake(context, host, files.ca) == serial(files) != first


def test_half_a_pair_is_not_used(server, tmp_path):
    files, context, current, told = server
    first = serial(files)
    make_server(tmp_path / "other", ["localhost"])
    files.certificate.write_bytes(ServerFiles(tmp_path / "other").certificate.read_bytes())
    assert not current.refresh() and not told  # its key may follow
    assert not current.refresh() and len(told) == 1
    for host in HOSTS:
        assert handshake(context, host, files.ca) == first
    files.key.write_bytes(ServerFiles(tmp_path / "other").key.read_bytes())
    assert current.refresh()
    with pytest.raises(ssl.SSLError):
        handshake(context, "localhost", files.ca)  # another authority
    assert handshake(context, "localhost", tmp_path / "other" / "ca.pem") == serial(files)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAA", b"\xff" * 100])
def test_a_damaged_file_keeps_the_earlier_pair(server, content):
    files, context, current, told = server
    first = serial(files)
    for file in (files.certificate, files.key):
        kept = file.read_bytes()
        file.write_bytes(content)
        current.refresh()
        current.refresh()
        assert "what was read before stays in use" in told[-1]
        assert handshake(context, "localhost", files.ca) == first
        file.write_bytes(kept)
    files.key.unlink()
    current.refresh()
    current.refresh()
    assert "cannot read" in told[-1] and handshake(context, "localhost", files.ca) == first


def test_at_the_start_the_pair_must_fit(tmp_path):
    make_server(tmp_path / "server", ["localhost"])
    files = ServerFiles(tmp_path / "server")
    with pytest.raises(Mistake, match="are no certificate and its key"):
        server_context(files.certificate, files.ca_key)
    with pytest.raises(Mistake, match="cannot read"):
        server_context(files.certificate, tmp_path / "none")
