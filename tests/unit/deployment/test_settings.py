"""The files of `foltr serve` and `foltr node`."""

import pytest

from foltr.core.errors import Mistake
from foltr.deployment.settings import address_of, read_node, read_server
from foltr.experiment.user_files import Code

AGREED = "features = 4\nasked = 3\nrounds = 5\n"
SERVER = AGREED + '[server]\nroster = "roster.toml"\nstate = "state"\n'
NODE = AGREED + '[node]\nserver = "localhost:8443"\nstate = "state"\ndata = "Synthetic()"\n'


def read(tmp_path, text, reader=read_server):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return reader(file, Code())


def test_defaults_are_those_of_an_experiment(tmp_path):
    agreed, table = read(tmp_path, SERVER)
    assert agreed.features == ("1", "2", "3", "4") and (agreed.asked, agreed.fewest) == (3, 1)
    assert repr(agreed.learner).startswith("PDGD(") and agreed.sessions == agreed.learner.sessions
    assert agreed.noise == "system" and table.seed is None and table.tolerance == 0.02


def test_server_and_node_agree_where_they_say_the_same(tmp_path):
    ours, theirs = read(tmp_path, SERVER)[0], read(tmp_path, NODE, read_node)[0]
    assert ours.id == theirs.id and ours.differences(theirs.text, "here", "there") == []
    other = read(tmp_path, NODE.replace("asked = 3", "asked = 2"), read_node)[0]
    assert ours.id != other.id
    assert ours.differences(other.text, "here", "there") == ["asked is 3 here, 2 there"]


def test_a_secure_sum_sets_the_fewest(tmp_path):
    agreed, _ = read(tmp_path, 'channel = "SecureSum()"\n' + SERVER)
    assert agreed.fewest == 2
    with pytest.raises(Mistake, match="fewest must be >= 2, got 1"):
        read(tmp_path, 'fewest = 1\nchannel = "SecureSum()"\n' + SERVER)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no table"),
        (NODE, "is the file of a node"),
        (SERVER.replace("asked = 3\n", ""), "needs asked"),
        (SERVER.replace("asked", "askd"), "did you mean 'asked'"),
        (SERVER.replace('state = "state"', ""), "needs state"),
        (SERVER + "deadlin = 3\n", "did you mean 'deadline'"),
        (SERVER + "deadline = 0\n", "deadline must be > 0"),
        (SERVER + 'listen = "8443"\n', "is no address"),
        (SERVER + 'aggregator = "FLTrust()"\n', "client of the server's own"),
        (SERVER.replace("features = 4", 'features = ["a", "a"]'), "two features have one name"),
        (SERVER.replace("features = 4", "features = 0"), "features"),
        (SERVER.replace("asked = 3", "asked = 0"), "asked must be in"),
        ("learner = 'PDG()'\n" + SERVER, "did you mean"),
        ("x = [", "is not TOML"),
        ("server = 3\n" + AGREED, "must be a table"),
    ],
)
def test_a_mistake_in_a_file_is_told(tmp_path, text, told):
    with pytest.raises(Mistake, match=told):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["localhost", ":1", "a:b", "a:70000", "", "a:-1", "a:٣"])
def test_addresses_are_checked(text):
    with pytest.raises(Mistake, match="is no address"):
        address_of(text)
    assert address_of("[::1]:80") == ("::1", 80)
