"""foltr as an ordinary Flower app: a process per message, stock interfaces only."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")
from flower_apps import AGREED, DATA, Apps, Federation
from flwr.app import Message

from foltr import Experiment
from foltr.core.errors import Mistake
from foltr.deployment.keys.keys import read_sign_key
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.node.flower_client import RECORD, client_app, proof, seat_by
from foltr.deployment.protocol.frames import Frame, Kind, read_refusal
from foltr.deployment.protocol.messages import packed, unpacked
from foltr.deployment.settings import read_node, read_server, settings_file
from foltr.experiment.user_files import Code

pytestmark = pytest.mark.usefixtures("in_a_run")
TEMPLATE = Path(__file__).resolve().parents[4] / "examples" / "flower_app"
SUM = AGREED + 'channel = "SecureSum()"\n'


def simulated(**parts):
    how = {"learner": "PDGD(sessions=4)", "clients": 12, "rounds": 2, "seed": 7}
    return Experiment(data=DATA, **how, **parts).run().params


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"privacy": "GammaShares(epsilon=4.0, sensitivity=3.0)"},
        {"channel": "SecureSum()"},
        {"channel": "SecureSum(consistency=True)"},
    ],
    ids=["mean", "gamma", "sum", "signed"],
)
def test_the_model_is_that_of_a_simulation(tmp_path, parts):
    lines = "".join(f'{name} = "{spec}"\n' for name, spec in parts.items())
    federation = Federation(tmp_path, agreed=AGREED + lines)
    federation.run()
    np.testing.assert_array_equal(federation.params, simulated(**parts))
    assert not any(RECORD in context.state for context in federation.contexts.values())


def test_memory_of_devices_is_on_disk(tmp_path):
    parts = {"learner": "Personal(learner=PDGD(sessions=4))"}
    agreed = AGREED.replace("PDGD(sessions=4)", parts["learner"])
    federation = Federation(tmp_path, agreed=agreed)
    federation.run()
    how = {"clients": 12, "rounds": 2, "seed": 7}
    expected = Experiment(data=DATA, **parts, **how).run().params
    np.testing.assert_array_equal(federation.params, expected)


def test_running_again_goes_on(tmp_path):
    class Stopped(Exception):
        pass

    class Once(Apps):
        def push_messages(self, messages):
            messages = list(messages)
            if any(message.metadata.group_id == "1" for message in messages):
                raise Stopped
            return super().push_messages(messages)

    federation = Federation(tmp_path)
    federation.grid = Once(federation.contexts)
    with pytest.raises(Stopped):
        federation.run()
    assert federation.state.load().t == 1
    federation.grid = Apps(federation.contexts)
    federation.run()
    np.testing.assert_array_equal(federation.params, simulated())


def test_a_node_goes_on_from_the_newest_state_of_a_sum_only(tmp_path):
    """Neither a server that asks twice at once nor a SuperNode that kept an old state gets two
    different answers to one step."""
    federation = Federation(tmp_path, agreed=SUM)
    seen = []

    class Twice(Apps):
        def _reply(self, message):
            context = self.contexts[message.metadata.dst_node_id]
            kept = dict(context.state)
            reply = super()._reply(message)
            if message.metadata.message_type == "query":
                after = dict(context.state)
                context.state.clear()
                context.state.update(kept)
                seen.append((message, super()._reply(message)))
                context.state.clear()
                context.state.update(after)
            return reply

    federation.grid = Twice(federation.contexts)
    federation.run()
    codes = set()
    for message, reply in seen:
        if Frame.from_bytes(unpacked(message.content)).kind == Kind.SUM:
            codes.add(read_refusal(Frame.from_bytes(unpacked(reply.content)).payload)[0])
    assert codes == {"sum"}


def test_a_seat_needs_its_key(tmp_path):
    federation = Federation(tmp_path)
    roster, challenge = read_roster(tmp_path / "roster.toml"), bytes(range(32))
    key = read_sign_key(tmp_path / "node-1" / "keys" / "sign.key")
    answer = proof(challenge, 3, key)
    assert seat_by(answer, challenge, 3, roster).name == "node-1"
    assert seat_by(answer, challenge, 4, roster) is None  # passed on by another node
    assert seat_by(answer, bytes(32), 3, roster) is None  # of another time
    assert seat_by(answer[:-1], challenge, 3, roster) is None
    other = read_sign_key(tmp_path / "node-0" / "keys" / "sign.key")
    mixed = answer[:32] + proof(challenge, 3, other)[32:]
    assert seat_by(mixed, challenge, 3, roster) is None
    assert federation.contexts


def test_without_seats_the_run_ends_with_a_reason(tmp_path):
    federation = Federation(tmp_path)
    for number in range(3):
        (tmp_path / f"node-{number}" / "keys" / "sign.key").unlink()
    with pytest.raises(Mistake, match="3 SuperNodes are connected, and none has a seat"):
        federation.run()


def test_a_node_with_another_agreement_is_left_out(tmp_path):
    federation = Federation(tmp_path, server="deadline = 60.0\n")
    file = tmp_path / "node-2" / "node.toml"
    file.write_text(file.read_text().replace("rounds = 2", "rounds = 3"))
    federation.run()
    assert [about["answered"] for about in federation.state.rounds()] == [9, 9]


def test_what_fails_on_a_node_stays_there(tmp_path, capsys):
    federation = Federation(tmp_path)
    (tmp_path / "node-0" / "node.toml").unlink()
    ask = Message(packed(b"x"), 2, "query")
    ask.metadata.__dict__["_message_id"] = ask.object_id
    reply = client_app(ask, federation.contexts[2])
    assert (reply.error.code, reply.error.reason) == (2, "Mistake")
    assert "node.toml" in capsys.readouterr().err


def test_the_template_names_the_apps_and_its_files_agree():
    app = tomllib.loads((TEMPLATE / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["components"] == {
        "serverapp": "foltr.deployment.server.flower_server:server_app",
        "clientapp": "foltr.deployment.node.flower_client:client_app",
    }
    assert list((TEMPLATE / "app").iterdir()) == [TEMPLATE / "app" / "pyproject.toml"]
    server, _ = read_server(TEMPLATE / "server.toml", Code())
    node, table = read_node(TEMPLATE / "node.toml", Code())
    assert server.id == node.id
    assert 3 * table.clients == server.asked


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "no settings file is named: --node-config 'settings="),
        ({"settings": ""}, "no settings file is named"),
        ({"settings": "node.toml"}, "'node.toml' is no absolute path"),
    ],
)
def test_the_settings_file_is_named_in_full(config, told):
    with pytest.raises(Mistake, match=re.escape(told)):
        settings_file(config, "node")
