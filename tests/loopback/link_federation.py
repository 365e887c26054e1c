"""Certificates, keys and processes of a federation on this machine."""

import datetime
import ipaddress
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from foltr.deployment.flower.session import NewSession, Session
from foltr.deployment.flower.superlink import Doors, SuperLink

HERE = Path(__file__).parent
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()


def certificates(folder: Path, name: str, days: tuple[int, int] = (-1, 30)) -> dict[str, str]:
    """An authority and a server's certificate signed by it, valid from and to days from now."""
    now = datetime.datetime.now(datetime.UTC)
    times = [now + datetime.timedelta(days=day) for day in days]
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def signed(subject: str, public: Any, ca: bool) -> x509.Certificate:
        called = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (subject, name)]
        builder = (
            x509.CertificateBuilder()
            .subject_name(called[0])
            .issuer_name(called[1])
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=99) if ca else times[0])
            .not_valid_after(now + datetime.timedelta(days=99) if ca else times[1])
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(authority, hashes.SHA256())

    files = {
        "roots": signed(name, authority.public_key(), True).public_bytes(PEM),
        "certificate": signed("server", key.public_key(), False).public_bytes(PEM),
        "key": key.private_bytes(PEM, PKCS8, PLAIN),
    }
    for kind, content in files.items():
        (folder / f"{name}.{kind}").write_bytes(content)
    return {kind: str(folder / f"{name}.{kind}") for kind in files}


def node_key(file: Path) -> bytes:
    """A private key in a file; the public one as OpenSSH has it."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, PLAIN)
    file.write_bytes(private)
    file.chmod(0o600)
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*public)


@dataclass
class Federation:
    """A SuperLink, a session and echoing nodes."""

    folder: Path
    tls: bool = True
    database: bool = False
    largest: int = 64_000_000
    nodes: list[subprocess.Popen[str]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        given: dict[str, Any] = {"insecure": True}
        if self.tls:
            self.files = certificates(self.folder, "federation")
            given = {"certificate": self.files["certificate"], "key": self.files["key"]}
        if self.database:
            given["database"] = str(self.folder / "state.db")
        doors = Doors(str(self.folder / "link"), largest=self.largest, **given)
        self.link = SuperLink(doors).start()
        self.session = self.new_session()

    def new_session(self, **more: Any) -> Session:
        secret = self.link.secret_file.read_text()
        return Session(self.link.private_url, secret, self.folder / "server", **more)

    def node(self, number: int, register: bool = True, **more: Any) -> subprocess.Popen[str]:
        """Start a node, with the key of that number."""
        file = self.folder / f"node{number}.key"
        given: dict[str, Any] = {"address": self.link.public_address}
        if not file.exists():
            public = node_key(file)
            if register and self.tls:
                self.session.register(public)
            self.keys.append(public)
        if self.tls:
            given |= {"key": str(file), "roots": self.files["roots"]}
        else:
            given |= {"insecure": True}
        process = echo({**given, **more}, self.folder / f"node{number}.out")
        self.nodes.append(process)
        return process

    def said(self, number: int) -> str:
        return (self.folder / f"node{number}.out").read_text()

    def wait_for(self, nodes: int, seconds: float = 20.0) -> list[int]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ids = [peer.node_id for peer in self.session.get_nodes()]
            if len(ids) == nodes:
                return ids
            time.sleep(0.05)
        raise AssertionError(f"{len(ids)} nodes are there, not {nodes}")

    def round(self, frame: bytes, ids: list[int], deadline: float = 20.0) -> dict[int, Any]:
        """The answers by node: bytes, or the error."""
        asked = [self.session.message(frame, node, deadline) for node in ids]
        until = time.monotonic() + deadline
        left = dict(zip(self.session.push_messages(asked), ids, strict=True))
        found: dict[int, Any] = {}
        while left and time.monotonic() < until:
            for answer in self.session.pull_messages(left, min(2.0, until - time.monotonic())):
                node = left.pop(answer.metadata.reply_to_message_id)
                found[node] = (
                    answer.content["foltr"]["frame"] if answer.has_content() else answer.error
                )
        return found

    def echoes(self, frame: bytes, ids: list[int], deadline: float = 20.0) -> int:
        """How many nodes answer."""
        answers = self.round(frame, ids, deadline).values()
        return sum(isinstance(answer, bytes) and answer == frame for answer in answers)

    def insist(self, frame: bytes, nodes: int, seconds: float) -> float:
        """Seconds until a round is answered by so many nodes, whatever happens between."""
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            try:
                ids = [peer.node_id for peer in self.session.get_nodes()]
                if len(ids) >= nodes and self.echoes(frame, ids, 3.0) >= nodes:
                    return time.monotonic() - start
            except NewSession:
                pass
            time.sleep(0.1)
        raise AssertionError(f"no round of {nodes} nodes within {seconds} s")

    def close(self) -> None:
        for process in self.nodes:
            process.kill()
        for process in self.nodes:
            process.wait()
        self.session.close()
        self.link.stop()


def echo(given: dict[str, Any], out: Path) -> subprocess.Popen[str]:
    with open(out, "a") as file:
        return subprocess.Popen(
            [sys.executable, str(HERE / "echo_node.py"), json.dumps(given)],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
