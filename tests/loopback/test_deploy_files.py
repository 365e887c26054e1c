"""The files of deploy/ cannot rot: what they run is run here. With a container engine, the image
is built and the federation is run in containers."""

import json
import shutil
import subprocess
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from deploy_files import DEPLOY, Machine, image, services, unit

ONCE = ("server-keys", "node-a-keys", "node-b-keys", "gateway-keys", "roster")
FEDERATION = ("server", "node-a", "node-b", "gateway")
DEVICES = "devices"


@pytest.mark.loopback
def test_the_commands_of_the_compose_file_and_of_the_units(tmp_path):
    assert {*ONCE, *FEDERATION, DEVICES} == set(services())
    with Machine(tmp_path, rounds=6) as here:
        first, more = "training_rounds = 3", "training_rounds = 5"
        assert not here.is_healthy("server", first)[0] and not here.is_healthy("node-a", first)[0]
        for name in (*ONCE, *ONCE):  # a second `up` finds keys and roster, and keeps them
            here.compose(name, first)
        for name in (*FEDERATION, DEVICES):
            here.compose(name, first)
        for name in ("node-a", "gateway"):
            here.wait(lambda name=name: here.is_healthy(name, first)[0], f"healthy {name}")
        here.wait(lambda: here.running["server"].poll() is not None, "end of three rounds")
        assert here.running.pop("server").returncode == 0
        said = [json.loads(line) for line in here.log("server").read_text().splitlines()]
        rounds = [line for line in said if line["event"] == "round"]
        assert [line["round"] for line in rounds] == [1, 2, 3]
        assert all(line["answered"] == 8 and line["process"] == "server" for line in rounds)
        assert here.stop() == {"node-a": 0, "node-b": 0, "gateway": 0, "devices": 0}
        assert "stopped" in here.log("node-a").read_text()
        assert "8 devices are enrolled" not in here.log("gateway").read_text()

        here.systemd("foltr-server.service", "server", "server", more)
        here.systemd("foltr-node@.service", "node-a", "node-a", more)
        here.systemd("foltr-node@.service", "node-b", "node-b", more)
        here.systemd("foltr-gateway@.service", "gateway", "gateway", more)
        healthy = [False]

        def looked():
            healthy[0] = healthy[0] or here.is_healthy("server", more)[0]
            return here.running["server"].poll() is not None

        here.wait(looked, "end of five rounds")
        text = here.log("server").read_text()
        assert here.running.pop("server").returncode == 0 and healthy[0], text
        assert "continuing after round 3 of 6" in text and "all 5 rounds are done" in text
        assert here.stop() == {"node-a": 0, "node-b": 0, "gateway": 0}
        assert "8 devices are enrolled" in here.log("gateway").read_text()


@pytest.mark.faults
def test_containers(tmp_path):
    if not has_daemon():
        pytest.skip("no container engine")
    compose = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml")]
    try:
        subprocess.run([*compose, "up", "--build", "--detach"], check=True, timeout=1800)
        until, names = time.monotonic() + 300, set()
        while names != set(FEDERATION) and time.monotonic() < until:
            done = subprocess.run([*compose, "ps", "--format", "json"], capture_output=True)
            listed = [json.loads(line) for line in done.stdout.splitlines()]
            names = {each["Service"] for each in listed if each.get("Health") == "healthy"}
            time.sleep(2.0)
        assert names == set(FEDERATION)
        logs = subprocess.run([*compose, "logs", "server"], capture_output=True, text=True)
        assert "8 of 8 clients answered" in logs.stdout
    finally:
        subprocess.run([*compose, "down", "--volumes"], check=False, timeout=120)


def has_daemon():
    if shutil.which("docker") is None:
        return False
    asked = [["docker", "info"], ["docker", "compose", "version"]]
    return all(subprocess.run(each, capture_output=True).returncode == 0 for each in asked)


@pytest.mark.loopback
def test_what_the_files_promise():
    environment, workdir, entry, health = image()
    assert entry == ["foltr"] and health == ["foltr", "check"] and workdir == "/var/lib/foltr"
    assert environment["FOLTR_LOG"] == "json"
    for name, of in services().items():
        assert of["read_only"] and of["cap_drop"] == ["ALL"] and of["init"], name
    for name in ("foltr-server.service", "foltr-node@.service", "foltr-gateway@.service"):
        of = unit(name)
        assert of["ProtectSystem"] == "strict" and of["NoNewPrivileges"] == "yes"
        assert of["Restart"] == "on-failure" and of["KillMode"] == "mixed"
        assert "RestartPreventExitStatus" not in of, "a full disk ends a process with 2, too"
