"""`foltr keys` as a user meets it, from the first certificate to a revoked node."""

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(*words):
    result = CliRunner().invoke(app, ["keys", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    """Exit code 2 and one line. (`output`: click before 8.2 does not keep the streams apart.)"""
    result = CliRunner().invoke(app, ["keys", *words])
    assert result.exit_code == 2, result.output
    (line,) = result.output.splitlines()
    assert line.startswith("foltr: ")
    return line


def lines_of_private_files(folder):
    return [
        line
        for path in folder.rglob("*.key")
        for line in path.read_text().splitlines()
        if not line.startswith("-----")
    ]


def test_a_federation_from_the_start(here):
    told = done("server", "--host", "search.example.org", "--host", "10.0.0.5")
    assert "search.example.org, localhost, 10.0.0.5, 127.0.0.1, until" in told
    assert "send federation/server/ca.pem to every node" in told
    cards = []
    for name, clients in (("clinic-a", "40"), ("clinic-b", "2")):
        made = done("node", name, "--clients", clients, "--out", "nodes")
        cards.append(f"nodes/{name}/{name}.node.toml")
        assert f"send {cards[-1]} to the operator" in made
        told += made
    roster = ["--roster", "federation/roster.toml"]
    added = [done("add", card, *roster) for card in cards]
    assert "clients 0 to 39" in added[0] and "clients 40 to 41" in added[1]
    prints = [line for line in told.splitlines() if line.startswith("fingerprint SHA256:")]
    assert prints == [text.splitlines()[1] for text in added]  # the same words on both sides
    assert "taking part: nodes 1, clients 2" in done("revoke", "clinic-a", *roster)
    listed = done("list", *roster)
    rows = {line.split()[0]: line.split()[1:] for line in listed.splitlines()}
    assert rows["clinic-a"] == ["40", prints[0].split()[1], "yes"]
    assert rows["clinic-b"] == ["2", prints[1].split()[1]]
    assert "taking part: nodes 1, clients 2" in listed
    renewed = done("renew", "--days", "30")
    assert "search.example.org" in renewed and "a running server uses it" in renewed
    printed = "".join([told, *added, listed, renewed])
    assert not [line for line in lines_of_private_files(here) if line in printed]
    assert len(lines_of_private_files(here)) > 10


def test_mistakes(here):
    done("server", "--host", "a.org")
    done("node", "a")
    roster = ["--roster", "roster.toml"]
    assert "federation/server already exists" in refused("server", "--host", "a.org")
    assert "a already exists" in refused("node", "a")
    assert "'https://a.org'" in refused("server", "--host", "https://a.org", "--out", "b")
    assert "'../b'" in refused("node", "../b")
    assert "clients = 0" in refused("node", "b", "--clients", "0")
    assert "expected 1 to 36" in refused("renew", "--days", "9999")
    assert "cannot read other/server/ca.pem" in refused("renew", "--out", "other")
    assert "there is no file roster.toml" in refused("list", *roster)
    assert "there is no file roster.toml" in refused("revoke", "a", *roster)
    assert "there is no file b.toml" in refused("add", "b.toml", *roster)
    assert "not readable as TOML" in refused("add", "a/node.key", *roster)
    assert "there is no folder no" in refused("add", "a/a.node.toml", "--roster", "no/r.toml")
    done("add", "a/a.node.toml", *roster)
    assert "two nodes are called a:" in refused("add", "a/a.node.toml", *roster)
    (here / "again.toml").write_text((here / "a/a.node.toml").read_text().replace('"a"', '"z"'))
    assert "a and z have the same public key" in refused("add", "again.toml", *roster)
    assert "no node of the roster is called 'b'" in refused("revoke", "b", *roster)
    done("revoke", "a", *roster)
    assert "a is revoked already" in refused("revoke", "a", *roster)
    assert not (here / "b").exists()


def test_a_long_name_leaves_the_fingerprint_whole(here):
    name = "n" * 40
    told = done("node", name)
    done("add", f"{name}/{name}.node.toml", "--roster", "r.toml")
    (line,) = [line for line in told.splitlines() if line.startswith("fingerprint")]
    assert line.split()[1] in done("list", "--roster", "r.toml")


def test_new_keys_for_a_node(here):
    roster = ["--roster", "roster.toml"]
    for name in ("a", "b"):
        done("node", name, "--clients", "3")
        done("add", f"{name}/{name}.node.toml", *roster)
    made = done("rotate", "a")
    card = "a/next/a.replace.toml"
    assert f"send {card} to the operator" in made
    (new,) = [line for line in made.splitlines() if line.startswith("fingerprint")]
    told = done("replace", card, *roster)
    assert new in told and "valid until the node has connected with the new one" in told
    assert f"{new.split()[1]} new key" in " ".join(done("list", *roster).split())
    assert "has new keys already" in refused("rotate", "a")
    assert "has this new key already" in refused("replace", card, *roster)
    assert "the old key is not valid any more" in done("replace", card, *roster, "--drop-old")
    assert "new key" not in done("list", *roster)
    assert "is no card that replaces keys" in refused("replace", "b/b.node.toml", *roster)
    assert "there is no file x.toml" in refused("replace", "x.toml", *roster)
    assert "no card" in refused("rotate", "nothing")
    done("node", "b", "--clients", "3", "--out", "fresh")
    lost = done("replace", "fresh/b/b.node.toml", *roster, "--lost-key")
    assert "ask the node's operator for the fingerprint" in lost and "not valid any more" in lost
    printed = made + told + lost
    assert not [line for line in lines_of_private_files(here) if line in printed]


def test_a_gateway_stays_one_when_its_keys_are_replaced(here):
    roster = ["--roster", "roster.toml"]
    done("node", "a", "--clients", "3", "--gateway")
    done("add", "a/a.node.toml", *roster)
    assert "gateway = true" in (here / "roster.toml").read_text()
    done("rotate", "a")
    assert "gateway = true" in (here / "a/next/a.replace.toml").read_text()
    done("replace", "a/next/a.replace.toml", *roster, "--drop-old")
    assert "gateway = true" in (here / "roster.toml").read_text()
    done("node", "a", "--clients", "3", "--out", "fresh")  # without --gateway
    done("replace", "fresh/a/a.node.toml", *roster, "--lost-key")
    assert "gateway = true" in (here / "roster.toml").read_text()
    done("node", "b")
    assert "gateway" not in (here / "b/b.node.toml").read_text()


def test_a_new_authority(here):
    done("server", "--host", "a.org")
    first = (here / "federation/server/ca.pem").read_text()
    assert "choose one step" in refused("authority")
    assert "choose one step" in refused("authority", "--begin", "--finish")
    assert "--begin" in refused("authority", "--switch")
    told = done("authority", "--begin")
    assert "send federation/server/ca.pem to every node" in told
    assert (here / "federation/server/ca.pem").read_text().startswith(first)
    assert "a.org, localhost, 127.0.0.1, until" in done("authority", "--switch", "--days", "30")
    assert "send federation/server/ca.pem to every node" in done("authority", "--finish")
    assert first not in (here / "federation/server/ca.pem").read_text()
    assert "nothing is left to do" in refused("authority", "--finish")
    assert "cannot read elsewhere/server/ca.pem" in refused(
        "authority", "--begin", "--out", "elsewhere"
    )
    assert "renewed" in done("renew", "--new-key")
