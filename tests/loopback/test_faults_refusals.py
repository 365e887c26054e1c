"""Who does not belong, and what is not right: it is told on the side that can act, the state stays
as it is, and the others go on."""

import json
import re
import shutil
import subprocess
import sys
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import OWN, at_gate, deployed, experiment, missed, open_gate, same, start, without
from link_federation import certificates

from foltr.deployment.keys.keys import make_node, make_server

pytestmark = pytest.mark.usefixtures("modules")


def variant(here, name, of, **changes):
    """The settings of `of` with changes, as those of a process with another name."""
    text = (here.folder / f"{of}.toml").read_text()
    for key, value in changes.items():
        text, found = re.subn(rf"^{key} = .*$", f"{key} = {json.dumps(value)}", text, flags=re.M)
        assert found == 1, key
    (here.folder / f"{name}.toml").write_text(text)
    return name


def foltr(here, *words):
    command = [sys.executable, "-m", "foltr", *words]
    done = subprocess.run(command, cwd=here.folder, capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout + done.stderr


def files_of(folder):
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def refused(here, name, *texts):
    """The process has ended as after a user's mistake, and says why."""
    assert here.processes[name].wait(90) == 2, here.log(name)
    said = " ".join(here.log(name).replace("│", " ").split())
    for text in texts:
        assert text in said, said
    assert "Traceback" not in said, said


@pytest.mark.faults  # the quick ones are in test_link.py
def test_strangers_are_told_why_and_the_others_go_on(tmp_path):
    e = experiment(rounds=6)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@1,gate@3")
        at_gate(here, 1)
        make_node(here.folder / "stranger", "stranger", 4)
        make_server(here.folder / "other", ["localhost"])
        variant(here, "stranger", "node-2", keys="stranger", state="state-3")
        variant(here, "double", "node-2", state="state-4")
        variant(here, "foreign", "node-2", ca="other/ca.pem", state="state-5")
        for name in ("stranger", "double", "foreign"):
            here.start(name)
        refused(here, "foreign", "is not signed by", "other/ca.pem")
        here.wait_logged("stranger", "the server does not know this node's key")
        here.wait_logged("double", "this key is in use")
        open_gate(here, 1)
        at_gate(here, 3)
        here.kill("double")
        open_gate(here, 3)
        here.wait_done()
        assert not missed(here, "node-2")
        same(here, e.run().params)


@pytest.mark.faults
def test_mistakes_of_the_server_s_operator(tmp_path):
    """Each ends with code 2 and a message; the server that runs does not notice."""
    e = experiment(rounds=4)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@1")
        at_gate(here, 1)
        before = here.state.agreement
        free = {"status": "none", "state": "state-b"}
        variant(here, "second", "server", status="none")
        variant(here, "other", "server", status="none", rounds=9)
        variant(here, "port", "server", **free)
        roster = (here.folder / "roster.toml").read_text()
        first = roster.split("[[node]]")[1]
        again = roster + "\n[[node]]" + first.replace('"node-0"', '"node-9"')
        (here.folder / "twice.toml").write_text(again)
        variant(here, "keys", "server", roster="twice.toml", **free)
        names = ("second", "other", "port", "keys")
        for name in names:
            here.start_module(name, "foltr", "serve")
        refused(here, "second", "another process uses state: stop it")
        refused(here, "other", "is the state of another federation", "rounds")
        refused(here, "port", f"cannot listen on 127.0.0.1:{here.port}", "choose another port")
        refused(here, "keys", "twice.toml", "node-9", "node-0")
        assert here.state.agreement == before
        open_gate(here, 1)
        here.wait_done()
        same(here, e.run().params)


@pytest.mark.faults
def test_a_node_that_does_not_fit(tmp_path):
    """Another agreement is refused by the node, which names each field; other features are found
    before it connects."""
    e = experiment(rounds=5)
    with deployed(tmp_path, e) as here:
        changes = {"learner": "PDGD(lr=0.2, sessions=3)", "rounds": 99, "asked": 11}
        variant(here, "differs", "node-2", state="state-2b", **changes)
        variant(
            here, "wide", "node-2", state="state-2c", data="Synthetic(shape='MSLR', queries=40)"
        )
        start(here, node_0="gate@1")
        here.kill("node-2", 15)
        for name in ("differs", "wide"):
            here.start(name)
        refused(here, "wide", "documents have 136 features")
        here.wait_logged("differs", "refused (agreement)", 60)
        here.wait_logged("server", "agreement", 20)
        for log in (here.log("differs"), here.log("server")):
            line = next(line for line in log.splitlines() if "agreement" in line)
            for field in ("learner", "rounds", "asked"):
                assert field in line, line
        open_gate(here, 1)
        here.wait_done()
        same(here, without(e, missed(here, "node-2")))
        assert missed(here, "node-2")


@pytest.mark.faults
def test_certificates_that_are_foreign_or_expired(tmp_path):
    e = experiment(rounds=3)
    with deployed(tmp_path, e) as here:
        make_server(here.folder / "other", ["localhost"])
        for number, days in (("old", (-9, -1)), ("new", (1, 9))):
            (here.folder / number).mkdir()
            made = certificates(here.folder, number, days)
            for name, kind in (("ca.pem", "roots"), ("server.pem", "certificate")):
                shutil.copy(made[kind], here.folder / number / name)
        files = sorted(file.name for file in (here.folder / "server").iterdir())
        for folder in ("old", "new"):
            for name in set(files) - {"ca.pem", "server.pem"}:
                shutil.copy(here.folder / "server" / name, here.folder / folder / name)
            variant(here, f"server-{folder}", "server", keys=folder, status="none")
            here.start_module(f"server-{folder}", "foltr", "serve")
        mixed = here.folder / "mixed"
        shutil.copytree(here.folder / "server", mixed)
        shutil.copy(here.folder / "other" / "ca.pem", mixed / "ca.pem")
        variant(here, "server-mixed", "server", keys="mixed", status="none")
        here.start_module("server-mixed", "foltr", "serve")
        refused(here, "server-old", "expired on", "foltr keys")
        refused(here, "server-new", "is not valid before", "clock")
        refused(here, "server-mixed", "was not signed by")
        assert not (here.folder / "state" / "state.db").exists()
        variant(here, "foreign", "node-1", ca="other/ca.pem", state="state-b")
        start(here)
        here.start("foreign")
        refused(here, "foreign", "is not signed by")
        here.wait_done()
        same(here, e.run().params)


@pytest.mark.faults
def test_a_key_in_use_ends_the_second_process(tmp_path):
    e = experiment(rounds=60)
    with deployed(tmp_path, e) as here:
        variant(here, "double", "node-2", state="state-2b")
        start(here, node_0="pace@1.0")
        here.wait_round(1)
        here.start("double")
        refused(here, "double", "every node needs a key of its own")
        here.wait_done(120)
        assert not missed(here, "node-2")
        same(here, e.run().params)


@pytest.mark.faults
def test_a_node_is_revoked_and_another_one_added_while_the_server_runs(tmp_path):
    e = experiment(rounds=8)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@2")
        at_gate(here, 2)
        code, told = foltr(here, "keys", "revoke", "node-2", "--roster", "roster.toml")
        assert code == 0, told
        open_gate(here, 2)
        here.wait_done()
        lost = missed(here, "node-2")
        assert set(range(4, 8)) <= lost.keys() <= set(range(2, 8)), here.everything()
        same(here, without(e, lost))
        assert "node-2 is excluded: its key is revoked" in here.log("server")


@pytest.mark.faults
def test_a_stranger_takes_part_once_its_card_is_added(tmp_path):
    e = experiment(rounds=40)
    with deployed(tmp_path, e) as here:
        roster = here.folder / "roster.toml"
        whole = roster.read_text()
        roster.write_text("[[node]]".join(whole.split("[[node]]")[:3]))
        variant(here, "server", "server", wait=1.0)
        shutil.copy(here.folder / "node-2" / "node-2.node.toml", here.folder / "card.toml")
        text = (here.folder / "server.toml").read_text()
        for name in ("server", *OWN):  # eight are asked until there are more
            file = here.folder / f"{name}.toml"
            file.write_text(file.read_text().replace("asked = 12", "asked = 8"))
        assert "asked = 12" in text
        start(here, node_0="pace@1.0")
        here.wait_logged("node-2", "the server does not know this node's key", 60)
        here.wait_round(3)
        code, told = foltr(here, "keys", "add", "card.toml", "--roster", "roster.toml")
        assert code == 0, told
        here.wait_logged("node-2", "connected to", 60)
        made = len(here.rounds())
        here.wait_round(made + 3)
        assert all(about["answered"] == 8 for about in here.rounds())
        time.sleep(0.1)
