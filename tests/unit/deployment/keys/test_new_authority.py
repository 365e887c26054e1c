"""From one certificate authority to the next: who accepts the server's certificate when."""

import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from handshakes import handshake

from foltr.core.errors import Mistake
from foltr.deployment.keys import keys as new_authority
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import (
    NEXT_KEY,
    ServerFiles,
    begin,
    check_dates,
    check_pair,
    check_server,
    finish,
    make_server,
    read_certificates,
    renew_server,
    switch,
)
from foltr.deployment.keys.rotation import server_context


@pytest.fixture
def files(tmp_path):
    make_server(tmp_path / "server", ["search.example.org"])
    return ServerFiles(tmp_path / "server")


def copied(files, name):
    copy = files.folder.parent / name
    copy.write_bytes(files.ca.read_bytes())
    return copy


def accepts(files, ca):
    context = server_context(files.certificate, files.key)
    try:
        return handshake(context, "search.example.org", ca) > 0
    except ssl.SSLError:
        return False


def test_the_three_steps(files):
    old = copied(files, "old.pem")
    begin(files.folder)
    both = copied(files, "both.pem")
    assert len(read_certificates(both)) == 2 and not check_server(files.folder)
    assert accepts(files, old) and accepts(files, both)
    assert stat.S_IMODE((files.folder / NEXT_KEY).stat().st_mode) == 0o600
    switch(files.folder)
    assert not accepts(files, old) and accepts(files, both) and not check_server(files.folder)
    assert not (files.folder / NEXT_KEY).exists()
    check_pair(files.ca, files.ca_key)  # the first authority is the new one
    renew_server(files.folder)
    assert accepts(files, both)
    finish(files.folder)
    new = copied(files, "new.pem")
    assert len(read_certificates(new)) == 1 and accepts(files, new) and not accepts(files, old)
    assert not check_server(files.folder)
    begin(files.folder)  # and once more


def test_a_node_trusts_all_authorities_of_the_file(files):
    begin(files.folder)
    assert len(trusting(files.ca).get_ca_certs()) == 2


def test_steps_in_the_wrong_order(files):
    with pytest.raises(Mistake, match="keys authority --begin"):
        switch(files.folder)
    with pytest.raises(Mistake, match="has one authority already"):
        finish(files.folder)
    begin(files.folder)
    with pytest.raises(Mistake, match="has 2 authorities already: foltr keys authority --switch"):
        begin(files.folder)
    with pytest.raises(Mistake, match="has not switched"):
        finish(files.folder)
    with pytest.raises(Mistake, match="days = 0"):
        switch(files.folder, days=0)
    switch(files.folder)
    with pytest.raises(Mistake, match="--finish"):
        begin(files.folder)
    with pytest.raises(Mistake, match="--begin"):
        switch(files.folder)


@pytest.mark.parametrize("step", [begin, switch])
def test_a_step_that_was_interrupted_can_be_repeated(files, monkeypatch, step):
    """It is killed before each of its writes."""
    if step is switch:
        begin(files.folder)
    left = [0]  # writes until it is killed

    def counted(real):
        def write(*given):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(*given)

        return write

    for name in ("write_whole", "replace_private"):
        monkeypatch.setattr(new_authority, name, counted(getattr(new_authority, name)))
    for failing in range(4):
        left[0] = failing
        try:
            step(files.folder)
            break
        except KeyboardInterrupt:
            assert not check_server(files.folder)  # a server can start, and nodes accept it
            assert accepts(files, files.ca)
    assert failing == {begin: 2, switch: 3}[step] and not check_server(files.folder)


def test_a_key_that_belongs_to_no_authority_is_refused(files):
    begin(files.folder)
    files.ca.write_bytes(files.certificate.read_bytes())
    with pytest.raises(Mistake, match="belongs to no authority in"):
        switch(files.folder)


def test_dates_of_several_authorities(tmp_path):
    """The file is valid while one of them is."""
    long_ago = datetime.now(UTC) - timedelta(days=4_000)
    make_server(tmp_path / "server", ["a.org"], now=long_ago)
    files = ServerFiles(tmp_path / "server")
    with pytest.raises(Mistake, match="expired on"):
        check_dates(files.ca)
    begin(files.folder)
    assert check_dates(files.ca) == []
    soon = datetime.now(UTC) + timedelta(days=3_640)
    (warning,) = check_dates(files.ca, soon)
    assert "expires on" in warning
