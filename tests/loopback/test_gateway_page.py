"""docs/gateway.md as written, on this machine: its commands, its settings, and the example device,
which joins, is stopped and continues, is revoked, and is forgotten."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.deployment.gateway.client import GatewayClient
from foltr.deployment.gateway.device_folder import DeviceFolder
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.local import free_port, toml
from foltr.deployment.protocol.agreement import Agreement

pytestmark = pytest.mark.loopback
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "gateway.md").read_text()
DEVICE = ROOT / "examples" / "gateway" / "device.py"
AGREED = """ranker = "Linear()"
learner = "PDGD(sessions=4)"
features = 46
asked = 3
fewest = 2
rounds = 60
history = 2
"""


def blocks(language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    return [code for word, code in found if word == language]


def wait(ready, what, seconds=60.0):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, what()
        time.sleep(0.1)


class Here:
    """A folder, and the processes in it."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def run(self, line):
        words = line.partition(" #")[0].split()
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *words], cwd=self.folder, stdout=log, stderr=log
            )

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def all_logs(self):
        return "\n".join(f"--- {name}\n{self.log(name)[-2000:]}" for name in self.running)

    def stop(self, name):
        self.running[name].send_signal(signal.SIGTERM)
        assert self.running[name].wait(30) == 0, self.log(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()


def test_the_page_works_as_written(tmp_path):
    port, door, status = free_port(), free_port(), free_port()
    here = {"server.example:8443": f"localhost:{port}", "gateway.example": "localhost"}
    here |= {"0.0.0.0:8445": f"127.0.0.1:{door}", "10000": "3"}
    here |= {'ca = "ca.pem"': 'ca = "federation/server/ca.pem"'}
    set_up, _, invite, *_ = blocks("")[1:]
    (settings, _) = blocks("toml")
    for word, instead in here.items():
        set_up, settings = set_up.replace(word, instead), settings.replace(word, instead)
    with Here(tmp_path) as at:
        at.run("foltr keys server --host localhost")
        for line in set_up.splitlines():
            at.run(line)
        more = f'status = "127.0.0.1:{status}"\nhold = 2.0\n'
        (tmp_path / "gateway.toml").write_text(AGREED + settings + more)
        server = {"listen": f"127.0.0.1:{port}", "keys": "federation/server", "status": "none"}
        server |= {"roster": "roster.toml", "state": "server-state", "training_rounds": 30}
        server |= {"interval": 4.0}  # training lasts longer than this test
        (tmp_path / "server.toml").write_text(AGREED + "[server]\n" + toml(server))
        at.start("server", "-m", "foltr", "serve", "server.toml")
        wait(lambda: "nodes connect to" in at.log("server"), at.all_logs)
        at.start("gateway", "-m", "foltr", "gateway", "gateway.toml")
        wait(lambda: "connected to" in at.log("gateway"), at.all_logs)

        commands = [line for line in invite.splitlines() if line.startswith("foltr")]
        assert len(commands) == 5
        tokens = at.run(commands[0]).split()
        assert len(tokens) == len(set(tokens)) == 100
        assert len(at.run(commands[1]).split()) == 1
        withdrawn = at.run(commands[3].replace("INVITATION", tokens.pop()))
        assert "withdrawn: invitations for 1 more device" in withdrawn
        url = f"https://localhost:{door}"

        def device(i):
            words = DEVICE, url, "gateway-tls/server/ca.pem", f"device-{i}", tokens[i]
            at.start(f"device-{i}", *map(str, words))

        for i in range(3):
            device(i)
        wait(lambda: "3 of 3 clients answered" in at.log("server"), at.all_logs)
        at.stop("device-0")
        device(0)  # the same folder: the same number
        wait(lambda: at.log("device-0").count("this device is client") == 2, at.all_logs)
        numbers = re.findall(r"this device is client (\d)", at.log("device-0"))
        assert len(set(numbers)) == 1
        assert re.search(r"active\s+3", at.run(commands[2]))
        assert len(at.run("foltr gateway gateway.toml --keys").splitlines()) == 3
        assert "gateway: " in at.run("foltr check gateway.toml")

        # one device wants to be forgotten, and is told when it comes back
        at.running["device-1"].kill()
        home = DeviceFolder(tmp_path / "device-1")
        agreed = Agreement.from_text(home.joined["agreement"])
        tls = trusting(tmp_path / "gateway-tls/server/ca.pem")
        home.forget(GatewayClient(url, home.requests(agreed), tls), agreed)
        wait(lambda: "1 device forgotten" in at.log("server"), at.all_logs)
        assert "stored rounds are repeated without them" in at.log("server")
        device(1)
        wait(lambda: re.search(r"gone\s+1", at.run(commands[2])), at.all_logs)
        records = home.records(agreed)
        assert records.about("forgotten") == b"yes" and records.last_round() is None
        records.close()

        # another is revoked
        client = re.findall(r"this device is client (\d)", at.log("device-2"))[0]
        at.run(commands[4].replace("17", client))
        wait(lambda: at.running["device-2"].poll() is not None, at.all_logs)
        assert "revoked" in at.log("device-2")
        at.stop("gateway")
        assert "stopped: the same command continues" in at.log("gateway")
