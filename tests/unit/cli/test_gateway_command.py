"""`foltr gateway` as an operator meets it: invitations, devices, mistakes."""

import resource

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.core.errors import Mistake
from foltr.deployment.gateway.enrolment import Enrolment, Refused
from foltr.deployment.gateway.process import connections_allowed
from foltr.deployment.settings import read_gateway
from foltr.experiment.user_files import Code

SETTINGS = """
features = 4
asked = 3
rounds = 5
[gateway]
server = "localhost:8443"
state = "state"
clients = 9
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gateway.toml").write_text(SETTINGS)
    return tmp_path


def done(*words):
    result = CliRunner().invoke(app, ["gateway", "gateway.toml", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words, file="gateway.toml"):
    """Exit code 2 and one line."""
    result = CliRunner().invoke(app, ["gateway", file, *words])
    assert result.exit_code == 2 and result.stdout == "", result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("foltr: ")
    return line


def state(folder):
    (folder / "state").mkdir(exist_ok=True)
    agreed, _ = read_gateway(folder / "gateway.toml", Code())
    return Enrolment(folder / "state" / "gateway.db", agreed.id)


def test_invitations_are_printed_and_work(here):
    tokens = done("--invite", "3").split()
    assert len(set(tokens)) == 3 and all(len(token) == 32 for token in tokens)
    (one,) = done("--invite", "5", "--each", "5", "--days", "2").split()
    assert "4 open invitations, for 8 devices" in done("--devices")
    assert len(done("--invite", "5", "--each", "2").split()) == 3
    opened = state(here)
    for i, token in enumerate([*tokens, one, one]):
        assert opened.enrol(token, bytes([i]) * 32, range(9), 0.0) == i
    told = done("--devices").split()
    assert told[:2] == ["active", "5"]
    keys = done("--keys").splitlines()
    assert [line.split()[0] for line in keys] == list("01234")


def test_an_invitation_is_withdrawn(here):
    one, other = done("--invite", "2").split()
    (many,) = done("--invite", "5", "--each", "5").split()
    opened = state(here)
    assert opened.enrol(many, bytes(32), range(9), 0.0) == 0
    assert done("--withdraw", one) == "withdrawn: invitations for 1 more device\n"
    assert "no such invitation" in refused("--withdraw", one)
    assert "no such invitation" in refused("--withdraw", "unknown")
    with pytest.raises(Refused, match="withdrawn"):
        opened.enrol(one, bytes([1]) * 32, range(9), 0.0)
    assert opened.enrol(other, bytes([1]) * 32, range(9), 0.0) == 1
    assert "4 more devices" in done("--withdraw", "all")
    assert "0 open invitations, for 0 devices" in done("--devices")
    with pytest.raises(Refused, match="withdrawn"):
        opened.enrol(many, bytes([2]) * 32, range(9), 0.0)
    assert [device.standing for device in opened.devices().values()] == ["active"] * 2


def test_a_device_is_revoked(here):
    opened = state(here)
    for i in range(2):
        opened.enrol(None, bytes([i]) * 32, range(9), 0.0)
    assert done("--revoke", "1") == "revoked client 1\n"
    assert "revoked already" in refused("--revoke", "1")
    assert "no device has the client number 7" in refused("--revoke", "7")
    assert done("--keys").startswith("0 ") and len(done("--keys").splitlines()) == 1
    (many,) = done("--invite", "3", "--each", "3").split()
    assert opened.enrol(many, bytes([9]) * 32, range(9), 0.0) == 2
    assert "valid for 2 more (--withdraw)" in done("--revoke", "2")
    (here / "gateway.toml").write_text(f"{SETTINGS}open_enrolment = true\n")
    assert "enrolment is open" in done("--revoke", "0")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--invite", "0"), "at least one device"),
        (("--invite", "2", "--each", "3"), "expected 1 to 2"),
        (("--invite", "2", "--each", "0"), "expected 1 to 2"),
        (("--invite", "2", "--days", "0"), "days must be in"),
        (("--invite", "2", "--days", "nan"), "days must be in"),
        (("--invite", "2", "--devices"), "give one of"),
        ((), "needs keys"),
        (("--insecure",), "needs keys"),
    ],
)
def test_mistakes_are_one_line(words, told):
    assert told in refused(*words)


def test_an_insecure_gateway_is_for_this_machine(here):
    text = SETTINGS + 'keys = "k"\nlisten = "0.0.0.0:8445"\n'
    (here / "gateway.toml").write_text(text)
    assert "--insecure is for this machine only" in refused("--insecure")
    assert "needs ca, certificate and certificate_key" in refused()


def test_the_state_of_another_federation_is_not_touched(here):
    done("--invite", "1")
    (here / "other.toml").write_text(SETTINGS.replace("rounds = 5", "rounds = 6"))
    assert "belongs to another federation" in refused("--invite", "1", file="other.toml")
    assert "1 open invitations, for 1 devices" in done("--devices")


@pytest.mark.parametrize(
    ("soft", "hard", "found"),
    [
        (1_024, 1_048_576, (16_000, 1_000)),  # it may raise the limit itself
        (-1, -1, (16_000, 1_000)),
        (1_024, 10_200, (9_000, 1_000)),
        (1_024, 1_024, (660, 164)),
        (200, 250, (40, 10)),
    ],
)
def test_connections_follow_the_number_of_open_files(monkeypatch, soft, hard, found):
    told, changed = [], []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: changed.append(limits))
    assert connections_allowed(16_000, told.append) == found
    files = changed[-1][0] if changed else 10**9
    assert sum(found) + 200 <= files <= (hard if hard > 0 else 10**9)
    assert bool(told) == (found[0] < 16_000)


def test_too_few_open_files_are_told(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: None)
    with pytest.raises(Mistake, match=r"allows 100 open files.*raise ulimit -n"):
        connections_allowed(10, print)
