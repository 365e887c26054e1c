"""The files of `foltr gateway` and of simulated devices."""

import pytest

from foltr.core.errors import Mistake
from foltr.deployment.settings import read_devices, read_gateway, read_node, read_server
from foltr.experiment.user_files import Code

AGREED = "features = 4\nasked = 3\nrounds = 5\n"
GATEWAY = AGREED + '[gateway]\nserver = "localhost:8443"\nstate = "state"\nclients = 9\n'
TABLE = '[devices]\ngateway = "https://localhost:1"\ndevices = 3\npopulation = 9\n'
DEVICES = AGREED + TABLE + 'data = "Synthetic()"\n'


def read(tmp_path, text, reader=read_gateway):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return reader(file, Code())


def test_defaults_of_a_gateway(tmp_path):
    agreed, table = read(tmp_path, GATEWAY)
    assert (agreed.asked, agreed.rounds, table.clients) == (3, 5, 9)
    assert table.open_enrolment is False, "who wants it must say so"
    assert table.per_address is None and table.max_bytes == 4_000_000
    assert table.status_address == ("127.0.0.1", 8446)
    assert read(tmp_path, GATEWAY + 'status = "none"\n')[1].status_address is None


def test_a_gateway_and_its_devices_agree_where_they_say_the_same(tmp_path):
    assert read(tmp_path, GATEWAY)[0].id == read(tmp_path, DEVICES, read_devices)[0].id
    apart = "separation = 4\n"
    other = read(tmp_path, apart + GATEWAY)[0]
    assert other.separation == 4 and other.id != read(tmp_path, GATEWAY)[0].id


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('listen = "8445"', "is no address"),
        ('status = "x"', "is no address"),
        ("hold = 0.0", r"hold must be in \(0, 60\]"),
        ("hold = 61.0", r"hold must be in \(0, 60\]"),
        ("max_held = -1", "max_held must be >= 0"),
        ("poll = 0.5", "poll must be >= 1"),
        ("poll = inf", "not a finite number"),
        ("grace = -1.0", "grace must be >= 0"),
        ("grace = nan", "not a finite number"),
        ("rate = 0.0", "rate must be > 0"),
        ("max_bytes = 999", "max_bytes must be >= 1,000"),
        ("max_connections = 0", "max_connections must be >= 1"),
        ("per_address = 0", "per_address must be >= 1"),
        ('open_enrolment = "yes"', "open_enrolment"),
        ("holt = 5.0", "did you mean 'hold'"),
    ],
)
def test_a_mistake_in_a_gateway_s_file_is_told(tmp_path, line, told):
    with pytest.raises(Mistake, match=told):
        read(tmp_path, GATEWAY + line + "\n")


@pytest.mark.parametrize("many", [0, 10**6 + 1])
def test_a_gateway_has_places(tmp_path, many):
    with pytest.raises(Mistake, match="clients must be in"):
        read(tmp_path, GATEWAY.replace("clients = 9", f"clients = {many}"))


@pytest.mark.parametrize("key", ["server", "state", "clients"])
def test_what_a_gateway_needs(tmp_path, key):
    lines = [line for line in GATEWAY.splitlines() if not line.startswith(key)]
    with pytest.raises(Mistake, match=f"needs {key}"):
        read(tmp_path, "\n".join(lines))


def test_a_file_of_another_process_is_told(tmp_path):
    for reader in (read_server, read_node):
        with pytest.raises(Mistake, match=r"is the file of a gateway: `foltr gateway"):
            read(tmp_path, GATEWAY, reader)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("devices = 3", "devices = 0", "devices must be in 1 .. population"),
        ("devices = 3", "devices = 10", "devices must be in 1 .. population"),
        ('data = "Synthetic()"\n', "", "needs data"),
        ("population", "populations", "did you mean 'population'"),
    ],
)
def test_a_mistake_in_the_file_of_devices_is_told(tmp_path, before, after, told):
    assert read(tmp_path, DEVICES, read_devices)[1].population == 9
    with pytest.raises(Mistake, match=told):
        read(tmp_path, DEVICES.replace(before, after, 1), read_devices)
