"""The transport of real federations, in real processes on this machine, with TLS and node keys."""

import functools
import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from cryptography.hazmat.primitives import serialization
from link_federation import HERE, Federation, certificates, echo, node_key

from foltr.core.errors import Mistake
from foltr.deployment.flower.session import NewSession, Session
from foltr.deployment.flower.superlink import Doors, SuperLink
from foltr.deployment.protocol.messages import FAILED, REFUSED

pytestmark = pytest.mark.loopback
PUBLIC_PEM = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A SuperLink with TLS and a database, and three nodes."""
    made = Federation(tmp_path_factory.mktemp("three"), database=True, largest=3_000_000)
    try:
        for number in range(3):
            made.node(number)
        made.wait_for(3)
        yield made
    finally:
        made.close()


@functools.cache
def trusting(ca):
    return ssl.create_default_context(cafile=ca)


def post(url, content=b"", ca=None, **headers):
    """Status of a request at a door."""
    context = trusting(ca) if ca else None
    kind = {"content-type": "application/protobuf", **headers}
    request = urllib.request.Request(url, content, kind)
    try:
        return urllib.request.urlopen(request, context=context, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def told(federation, number, text, seconds=15.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if text in federation.said(number):
            return True
        time.sleep(0.1)
    raise AssertionError(f"{text!r} is not in: {federation.said(number)}")


def test_rounds(three):
    ids = three.wait_for(3)
    for n in (0, 1, 184, 200_000):
        frame = os.urandom(n)
        assert three.round(frame, ids) == {node: frame for node in ids}


def test_an_answer_that_fails_is_told_without_its_text(three):
    ids = three.wait_for(3)
    found = three.round(b"raise", ids)
    assert {(e.code, e.reason) for e in found.values()} == {(FAILED, "RuntimeError")}
    found = three.round(b"refuse", ids)
    assert {(e.code, e.reason) for e in found.values()} == {(1234, "not today")}
    assert three.echoes(b"goes on", ids) == 3


def test_nodes_are_known_by_their_keys(three):
    known = three.session.registered()
    assert len({peer.public_key for peer in three.session.get_nodes()}) == 3
    three.session.register(three.keys[0])  # again
    assert three.session.registered() == known


def test_finished_messages_leave_nothing_behind(three):
    ids = three.wait_for(3)
    for _ in range(5):
        three.round(b"x" * 1000, ids)
    with sqlite3.connect(three.folder / "state.db") as base:
        names = [
            row[0] for row in base.execute("select name from sqlite_master where type='table'")
        ]
        names = [n for n in names if "message" in n or ("object" in n and "lock" not in n)]
        counts = {n: base.execute(f"select count(*) from {n}").fetchone()[0] for n in names}
    assert names and not any(counts.values()), counts


def test_an_answer_that_names_objects_to_fetch_is_no_answer(three):
    """A registered node answers without content, and names objects that never come: it counts as
    late, and nothing is waited for but the deadline."""
    from flwr.app import Message

    from foltr.deployment.flower.internals import as_proto, fleet_pb2, from_proto, node_pb2
    from foltr.deployment.flower.node import Node
    from foltr.deployment.protocol.messages import packed

    node_key(three.folder / "lazy.key")
    lazy = Node(
        three.link.public_address, bytes, three.folder / "lazy.key", Path(three.files["roots"])
    )
    three.session.register(lazy._public)
    lazy._join(threading.Event())
    session, node = three.session, node_pb2.Node(node_id=lazy.node_id)
    ids = session.push_messages([session.message(b"ask", lazy.node_id, 3.0)])
    asked = lazy._link.PullMessages(fleet_pb2.PullMessagesRequest(node=node)).messages_list[0]
    proto, tree = as_proto(Message(packed(b"answer"), reply_to=from_proto(asked)))
    del proto.content.items[:]
    for name in range(8):
        tree.children.add(object_id=f"{name:064x}")
    request = fleet_pb2.PushMessagesRequest(
        node=node, messages_list=[proto], message_object_trees=[tree]
    )
    assert not lazy._link.PushMessages(request).objects_to_push
    began = time.monotonic()
    assert session.pull_messages(ids, 1.0) == []
    assert time.monotonic() - began < 5.0
    lazy._leave()
    session.unregister([lazy._public])
    assert three.echoes(b"goes on", three.wait_for(3)) == 3


def test_a_killed_node_comes_back(three):
    ids = three.wait_for(3)
    three.nodes[0].kill()
    three.nodes[0].wait()
    assert three.echoes(b"without one", ids, 1.5) == 2
    start = time.monotonic()
    three.nodes[0] = three.node(0)
    told(three, 0, "connected")
    while three.echoes(b"with it", ids, 3.0) < 3:
        assert time.monotonic() < start + 15
    assert set(three.wait_for(3)) == set(ids)


def test_a_key_that_is_in_use(three):
    given = {"key": str(three.folder / "node1.key"), "roots": three.files["roots"]}
    second = echo({**given, "address": three.link.public_address}, three.folder / "node9.out")
    told(three, 9, "this key is in use")
    second.kill()
    second.wait()
    assert three.echoes(b"the first goes on", three.wait_for(3)) == 3


def test_the_superlink_is_killed_and_the_run_goes_on(three):
    ids = three.wait_for(3)
    run = three.session.run.run_id
    three.link.process.send_signal(signal.SIGKILL)
    three.link.process.wait()
    time.sleep(3.0)
    three.link.start()
    three.insist(b"after", 3, 20)
    assert three.session.run.run_id == run
    assert set(three.wait_for(3)) == set(ids)


def test_the_server_is_killed_while_it_pushes(three):
    three.session.close()
    arguments = [three.link.private_url, three.link.secret_file, three.folder / "server"]
    command = [sys.executable, HERE / "killed_server.py", *arguments]
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        server.stdout.readline()
    server.kill()
    server.wait()
    start = time.monotonic()
    three.session = three.new_session()
    three.insist(b"next", 3, 20)
    assert time.monotonic() - start < 20


def test_a_lost_run_is_told_and_another_one_is_open(three):
    ids = three.wait_for(3)
    run = three.session.run.run_id
    three.session._stop_run(run)
    with pytest.raises(NewSession):
        three.round(b"lost", ids)
    assert three.session.run.run_id != run
    assert three.echoes(b"found", ids) == 3


def test_the_public_door_is_for_nodes_only(three):
    from foltr.deployment.flower.node import Node

    public, ca = f"https://{three.link.public_address}", three.files["roots"]
    for path in (
        "/v1/control/start-run",
        "/v1/control/register-node",
        "/v1/runtime/acquire-task",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/v1/fleet/../control/start-run",
        "/health",
        "/docs",
        "/openapi.json",
    ):
        assert post(public + path, b"x", ca) == 404, path
    assert post(public + "/v1/fleet/pull-messages", b"", ca) == 401
    assert post(public + "/v1/fleet/push-messages", bytes(100_000), ca) == 413
    try:  # of strangers, no more is read: the sender may not even hear the answer
        assert post(public + "/v1/fleet/push-messages", bytes(3_000_000), ca) == 413
    except OSError as error:
        assert any(word in str(error) for word in ("EOF", "reset", "pipe"))
    known = Node(three.link.public_address, bytes, three.folder / "node0.key", Path(ca))
    signed = known._headers("")
    assert post(public + "/v1/fleet/push-messages", bytes(3_000_001), ca, **signed) == 413
    assert post(public + "/v1/fleet/push-messages", bytes(3_000_000), ca, **signed) in (400, 401)
    assert post(public + "/v1/fleet/pull-messages", bytes(100_000), ca) == 413
    with pytest.raises(Mistake, match="larger than the SuperLink accepts"):
        three.round(bytes(9_000_000), three.wait_for(3))
    large = three.round(bytes(3_000_000), three.wait_for(3))  # the ask passes, the answers do not
    assert {error.code for error in large.values()} == {REFUSED}
    private = three.link.private_url
    assert post(private + "/v1/control/start-run") == 403
    assert post(private + "/v1/control/list-nodes", **{"x-foltr-secret": "guess"}) == 403
    secret = three.link.secret_file
    assert secret.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Mistake, match="another secret"):
        Session(private, "guess", three.folder / "other")
    right = {"x-foltr-secret": secret.read_text()}
    assert post(private + "/v1/control/list-nodes", **right) == 200


def test_a_node_cannot_act_for_another(three):
    """With its own registered key: not answer, fetch, leave or beat for another one."""
    from foltr.deployment.flower.internals import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2
    from foltr.deployment.flower.node import Node

    three.wait_for(3)
    ca = three.files["roots"]
    liar = Node(three.link.public_address, bytes, three.folder / "node0.key", Path(ca))
    own = next(p.node_id for p in three.session.get_nodes() if p.public_key == liar._public)
    other = next(p.node_id for p in three.session.get_nodes() if p.node_id != own)
    node = node_pb2.Node(node_id=other)
    requests = {
        "pull-messages": fleet_pb2.PullMessagesRequest(node=node),
        "push-messages": fleet_pb2.PushMessagesRequest(node=node),
        "deactivate-node": fleet_pb2.DeactivateNodeRequest(node_id=other),
        "send-node-heartbeat": heartbeat_pb2.SendNodeHeartbeatRequest(node=node),
        "pull-object": message_pb2.PullObjectRequest(node=node, run_id=1, object_id="x"),
        "push-object": message_pb2.PushObjectRequest(node=node, run_id=1, object_id="x"),
        "confirm-message-received": message_pb2.ConfirmMessageReceivedRequest(node=node),
    }
    for path, request in requests.items():
        where = f"/v1/fleet/{path}"
        url = f"https://{three.link.public_address}{where}"
        status = post(url, request.SerializeToString(), ca, **liar._headers(where))
        assert status == 404 if "object" in path or "confirm" in path else status in (401, 403)
    assert three.echoes(b"goes on", three.wait_for(3)) == 3


def test_an_unregistered_key_is_refused(three):
    process = three.node(7, register=False)
    told(three, 7, "the server does not know this node's key")
    assert process.poll() is None  # an operator may register it yet
    process.kill()


def test_an_unregistered_node_is_shut_out(three):
    process = three.node(8)
    told(three, 8, "connected")
    public = three.keys[-1]
    assert three.session.unregister([public]) == [public] and not three.session.unregister(
        [public]
    )
    told(three, 8, "does not know this node's key", 30)
    assert process.poll() is None  # it goes on trying
    process.kill()


def test_wrong_certificates_and_wrong_ways(three, tmp_path):
    other = certificates(tmp_path, "other")
    right = {"address": three.link.public_address, "key": str(three.folder / "node0.key")}
    cases = {
        "foreign": ({**right, "roots": other["roots"]}, "is not signed by"),
        "none": (right, "is not signed by a known authority"),
        "no TLS": (
            {**right, "address": f"127.0.0.1:{three.link.doors.private_port}"},
            "does not speak TLS",
        ),
        "plain": ({"address": right["address"], "insecure": True}, "speaks TLS"),
        "ahead": (
            {**right, "roots": three.files["roots"], "ahead": 10},
            "s ahead of the server's",
        ),
        "behind": (
            {**right, "roots": three.files["roots"], "ahead": -400},
            "s behind the server's",
        ),
    }
    started = {name: echo(given, tmp_path / name) for name, (given, _) in cases.items()}
    for name, process in started.items():
        assert process.wait(30) == 2, name
        said = (tmp_path / name).read_text()
        assert cases[name][1] in said
        assert "Traceback" not in said


def test_an_expired_certificate(tmp_path):
    files = certificates(tmp_path, "old", (-9, -1))
    node_key(tmp_path / "node.key")
    given = {"key": str(tmp_path / "node.key"), "roots": files["roots"]}
    secure = Doors(str(tmp_path / "a"), certificate=files["certificate"], key=files["key"])
    with SuperLink(secure) as link:
        process = echo({**given, "address": link.public_address}, tmp_path / "out")
        assert process.wait(30) == 2
    assert "Mistake: the server's certificate has expired" in (tmp_path / "out").read_text()


def test_a_superlink_that_cannot_start_says_why(tmp_path):
    files = certificates(tmp_path, "federation")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Mistake, match=f"cannot listen on 127.0.0.1:{port}"):
            SuperLink(Doors(str(tmp_path / "a"), port=port, insecure=True)).start()
    with pytest.raises(Mistake, match="it is needed for TLS"):
        SuperLink(Doors(str(tmp_path / "a"), certificate="none.pem", key=files["key"])).start()
    with pytest.raises(Mistake, match="no certificate and its key"):
        SuperLink(Doors(str(tmp_path / "a"), certificate=files["roots"], key=files["key"])).start()


def test_a_superlink_ends_with_its_parent(tmp_path):
    code = (
        "import sys\nfrom foltr.deployment.flower.superlink import *\n"
        "link = SuperLink(Doors(sys.argv[1], insecure=True)).start()\n"
        "print(link.process.pid, flush=True)\nsys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        if ") Z " in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("tls", [False, True])
def test_in_memory_all_comes_back_after_a_restart(tmp_path, tls):
    """Without a database: nodes are registered again, the session opens a run."""
    made = Federation(tmp_path, tls=tls)
    try:
        made.node(0)
        ids = made.wait_for(1)
        answers = made.round(b"before", ids)
        assert [repr(answer) for answer in answers.values()] == ["b'before'"], made.said(0)
        made.link.process.kill()
        made.link.process.wait()
        made.link.start()
        made.insist(b"after", 1, 20)
        assert json.loads((tmp_path / "server" / "session.json").read_text())
    finally:
        made.close()
