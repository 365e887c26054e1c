"""Everybody who has the certificate, and no registered key, at every path of the SuperLink."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from test_link import PUBLIC_PEM, node_key, post, three  # noqa: F401

pytestmark = pytest.mark.faults

ROUTES = """
import json, sys
from pathlib import Path
from foltr.deployment import quiet
quiet(Path(sys.argv[1]))
from foltr.deployment.flower.doors import Bell
from foltr.deployment.flower.internals import superlink_app
from foltr.deployment.flower.doors import Homes
app = superlink_app(None, True, Bell(), Homes(Path(sys.argv[1]) / "homes.json"))
own = [route.path for route in app.routes if hasattr(route, "path")]
print(json.dumps([*own, *app.openapi()["paths"]]))
"""


def test_with_the_certificate_alone_nobody_does_anything(three, tmp_path):  # noqa: F811
    """Every path of the SuperLink, with garbage and with requests as nodes and servers send them,
    also signed with a key that is not registered."""
    from foltr.deployment.flower.internals import control_pb2, fleet_pb2, node_pb2, runtime_pb2
    from foltr.deployment.flower.node import Node
    from foltr.deployment.keys.keys import new_key

    made = subprocess.run(
        [sys.executable, "-c", ROUTES, str(tmp_path)], capture_output=True, text=True, check=True
    )
    paths = json.loads(made.stdout.splitlines()[-1])
    assert sum(path.startswith("/v1/fleet/") for path in paths) >= 8 and len(paths) > 20
    node_key(tmp_path / "stranger.key")
    public, ca = f"https://{three.link.public_address}", three.files["roots"]
    stranger = Node(
        three.link.public_address, bytes, tmp_path / "stranger.key", Path(three.files["roots"])
    )
    victim = three.wait_for(3)[0]
    node = node_pb2.Node(node_id=victim)
    bodies = [
        b"",
        os.urandom(200),
        fleet_pb2.ActivateNodeRequest(
            public_key=three.session.get_nodes()[0].public_key, heartbeat_interval=1.0
        ).SerializeToString(),
        fleet_pb2.ActivateNodeRequest(
            public_key=new_key().public_key().public_bytes(*PUBLIC_PEM), heartbeat_interval=1.0
        ).SerializeToString(),
        fleet_pb2.PullMessagesRequest(node=node).SerializeToString(),
        fleet_pb2.DeactivateNodeRequest(node_id=victim).SerializeToString(),
        control_pb2.RegisterNodeRequest(public_key=stranger._public).SerializeToString(),
        runtime_pb2.AcquireTaskRequest().SerializeToString(),
    ]
    for path in [*paths, "/v1/fleet/%2e%2e/control/start-run", "//v1/control/start-run"]:
        real = path.replace("{", "").replace("}", "")
        for body in bodies if "fleet" in path else (bodies[1], bodies[-2]):
            for headers in ({}, {**stranger._headers(real), "x-foltr-home": "x" * 99}):
                status = post(public + real, body, ca, **headers)
                # 400: no request of this path; Flower reads a request before it asks for a key
                allowed = (400, 401, 403, 404, 405, 413)[0 if "fleet" in path else 1 :]
                assert status in allowed, (path, body, headers, status)
    assert len(three.wait_for(3)) == 3 and three.echoes(b"goes on", three.wait_for(3)) == 3
