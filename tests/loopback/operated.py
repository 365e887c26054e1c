"""What tests of operating a federation share: its commands, its page, and what clients of its
public door see."""

import json
import socket
import ssl
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request

from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from foltr.deployment.flower.node import Node
from foltr.deployment.keys.keys import NODE_KEY, read_certificate
from foltr.deployment.local import Deployment


class Operated(Deployment):
    """A federation whose operator types commands."""

    def foltr(self, *words, code=0):
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "foltr", *map(str, words)],
            cwd=self.folder, capture_output=True, text=True, timeout=90,
        )  # fmt: skip
        told = done.stdout + done.stderr
        assert done.returncode == code and "Traceback" not in told, told
        return told

    def page(self, path):
        """HTTP status and text at the server's status page."""
        where = tomllib.loads((self.folder / "server.toml").read_text())["server"]["status"]
        try:
            with urllib.request.urlopen(f"http://{where}/{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def health(self):
        status, text = self.page("healthz")
        return status, json.loads(text)["problems"]

    def metrics(self):
        families = text_string_to_metric_families(self.page("metrics")[1])
        samples = [sample for family in families for sample in family.samples]
        return {(s.name, *s.labels.values()): s.value for s in samples}

    def seen_certificate(self):
        """The serial number of the certificate that a new connection gets, who trusts ca.pem."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "server" / "ca.pem")
        with socket.create_connection(("127.0.0.1", self.port), 10) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                der = wrapped.getpeercert(True)
        return x509.load_der_x509_certificate(der).serial_number

    @property
    def certificate(self):
        return read_certificate(self.folder / "server" / "server.pem").serial_number

    def is_known(self, key):
        """Whether the server lets a node with this private key connect."""
        node = Node(f"localhost:{self.port}", bytes, key, self.folder / "server" / "ca.pem")

        class Asked(Exception):
            pass

        class Once:
            """Ends the first attempt."""

            def is_set(self):
                return node.unknown

            def wait(self, seconds):
                if node.unknown:
                    raise Asked

        try:
            node._join(Once())
        except Asked:
            return False
        node._leave()
        return True

    def kept_key(self, name):
        """A copy of a node's present key, as a thief would have it."""
        copy = self.folder / f"stolen-{name}.key"
        copy.write_bytes((self.folder / name / NODE_KEY).read_bytes())
        copy.chmod(0o600)
        return copy

    def whole_rounds(self, clients):
        """All rounds so far, each with the answers of all clients."""
        rounds = self.rounds()
        numbers = [about["round"] for about in rounds]
        assert numbers == list(range(len(numbers))), numbers
        short = [about for about in rounds if about["answered"] != clients]
        assert not short, f"{short}\n{self.everything()}"
        return len(rounds)

    def more(self, rounds=2):
        """Wait until so many more rounds are done."""
        self.wait_round(len(self.rounds()) + rounds)
