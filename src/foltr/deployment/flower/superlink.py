"""A SuperLink in its own process, with two doors. Nodes connect to the public door. The server
connects to the private door, which is open on this machine only and needs a secret.

    python -m foltr.deployment.flower.superlink CONFIG.json
"""

import asyncio
import errno
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, require
from foltr.deployment import quiet
from foltr.deployment.keys.rotation import follow_certificate, server_context

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LITTLE = 1_000_000  # bytes of free space that a SuperLink needs
PATIENCE = 60.0  # seconds in which a SuperLink must start
CONNECTIONS = 4_096  # most connections at the public door; a node uses two
OWN_FILES = 200  # file descriptors that the SuperLink needs for other purposes


@dataclass(frozen=True)
class Doors:
    """The settings of a SuperLink.

    folder: state folder, with the secret, the log and the ports that it uses.
    host, port: address of the public door; port 0 is any free port.
    private_port: port of the private door.
    certificate, key: PEM files for TLS at the public door; None with `insecure`.
    database: SQLite file; None keeps nodes and messages in memory until the process ends.
    largest: largest request in bytes.
    insecure: use no TLS, and let every node register itself.
    parent: id of the server's process; the SuperLink ends when that process ends.
    """

    folder: str
    host: str = "127.0.0.1"
    port: int = 0
    private_port: int = 0
    certificate: str | None = None
    key: str | None = None
    database: str | None = None
    largest: int = 64_000_000
    insecure: bool = False
    parent: int | None = None

    def check(self) -> None:
        """Raise a Mistake for settings with which the SuperLink cannot or must not start."""
        if not self.insecure:
            require(
                self.certificate is not None and self.key is not None,
                "a SuperLink needs a certificate and its key: `foltr keys server` makes them (or"
                " set insecure=True for a test)",
            )
            server_context(*self.pair)
        elif self.host not in LOOPBACK:
            raise Mistake(
                f"host {self.host!r} without TLS: anyone on the network could read the messages"
                " and join; leave --insecure out, or listen on 127.0.0.1"
            )

    @property
    def pair(self) -> tuple[str, str]:
        assert self.certificate is not None and self.key is not None
        return self.certificate, self.key


@dataclass
class SuperLink:
    """A SuperLink that this process starts or joins."""

    doors: Doors
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        return Path(self.doors.folder)

    @property
    def secret_file(self) -> Path:
        return self.folder / "door.secret"

    @property
    def log(self) -> Path:
        return self.folder / "superlink.log"

    @property
    def private_url(self) -> str:
        return f"http://127.0.0.1:{self.doors.private_port}"

    @property
    def public_address(self) -> str:
        return f"{self.doors.host}:{self.doors.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, patience: float = PATIENCE) -> "SuperLink":
        """Start the process, and wait until both doors are open. A restarted SuperLink uses the
        same ports, even if they were chosen automatically."""
        self.doors.check()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret(self.secret_file)
        told, config = self.folder / "superlink.json", self.folder / "superlink.config.json"
        told.unlink(missing_ok=True)
        config.write_text(json.dumps(asdict(replace(self.doors, parent=os.getpid()))))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "foltr.deployment.flower.superlink", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C goes to the server, which stops this process
            )
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if told.exists():
                answer = json.loads(told.read_text())
                if "mistake" in answer:
                    self.stop()
                    raise Mistake(answer["mistake"])
                self.doors = replace(self.doors, **answer)
                return self
            if not self.alive:
                break
            time.sleep(0.02)
        self.stop()
        if is_full(self.folder):
            raise Mistake(f"No space left on the disk of {self.folder}: free some space")
        raise Mistake(f"the SuperLink did not start: see its log, {self.log}")

    @classmethod
    def joined(cls, folder: Path) -> "SuperLink":
        """The SuperLink that another process on this machine runs in `folder`."""
        try:
            config = json.loads((folder / "superlink.config.json").read_text())
            doors = replace(Doors(**config), **json.loads((folder / "superlink.json").read_text()))
        except (OSError, ValueError, TypeError) as error:
            way_out = "start it with `foltr serve FILE --superlink-only`"
            raise Mistake(f"no SuperLink runs in {folder} ({error}): {way_out}") from None
        return cls(doors)

    def erase_deleted(self, patience: float = 10.0) -> bool:
        """Overwrite what the database has deleted, in its write-ahead log, too; whether that was
        possible. Rows themselves are overwritten when they are deleted."""
        if self.doors.database is None or not Path(self.doors.database).exists():
            return True
        until = time.monotonic() + patience
        with closing(sqlite3.connect(self.doors.database, timeout=2.0)) as base:
            while time.monotonic() < until:
                busy, _, _ = base.execute("pragma wal_checkpoint(truncate)").fetchone()
                if not busy:
                    return True
                time.sleep(0.05)
        return False

    def stop(self, patience: float = 5.0) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "SuperLink":
        return self if self.alive else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has too little space for a SuperLink."""
    return shutil.disk_usage(folder).free < LITTLE


def secret(file: Path) -> str:
    """The secret in a file that only its owner can read. It is made on first use."""
    if not file.exists():
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(secrets.token_hex(32))
        aside.replace(file)  # atomic: an empty secret would leave the door open
    os.chmod(file, 0o600)
    kept = file.read_text().strip()
    if len(kept) != 64:
        raise Mistake(f"{file} is damaged: delete it, and start the server again")
    return kept


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        here = error.errno != errno.EADDRNOTAVAIL
        way = "choose another port" if here else "give an address of this machine"
        raise Mistake(f"cannot listen on {host}:{port}: {error.strerror}; {way}") from error
    return listener


async def serve(doors: Doors) -> None:
    """Serve both doors until SIGTERM or SIGINT, or until the parent process ends."""
    import uvicorn

    from foltr.deployment.flower.doors import NODE, Bell, Door, Homes, fleet_only, number
    from foltr.deployment.flower.internals import SUPERLINK_NODE_ID, sender_of, superlink_app

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # the handlers below stop both servers

    folder, bell = Path(doors.folder), Bell()
    public_socket = bound(doors.host, doors.port)
    private_socket = bound("127.0.0.1", doors.private_port)
    app = superlink_app(doors.database, not doors.insecure, bell, Homes(folder / "homes.json"))
    bell.start()

    def claimed(headers: Mapping[str, bytes]) -> int | None:
        return number(headers.get(NODE)) or 0  # without keys, the header is believed

    sender = claimed if doors.insecure else sender_of(app)
    public = Door(app, bell, fleet_only(doors.insecure), doors.largest, sender)
    private_limit = max(doors.largest, 8_000_000)  # one request carries many small asks
    private = Door(
        app, bell, lambda _: True, private_limit, lambda _: SUPERLINK_NODE_ID,
        secret(folder / "door.secret"),
    )  # fmt: skip
    common: dict[str, Any] = {
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 1,
        "server_header": False,
        "ws": "none",
    }
    servers = [
        Server(uvicorn.Config(public, **common, limit_concurrency=crowd())),
        Server(uvicorn.Config(private, **common)),
    ]

    def leave() -> None:
        for server in servers:
            server.should_exit = True
        bell.wake_all()

    servers[0].config.load()
    current = None
    if not doors.insecure:
        current = follow_certificate(*doors.pair, logging.warning)
        servers[0].config.ssl = current.value
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, leave)
    async with app.router.lifespan_context(app):
        pair = zip(servers, (public_socket, private_socket), strict=True)
        tasks = [asyncio.create_task(server.serve([sock])) for server, sock in pair]
        while not all(server.started for server in servers):
            await asyncio.sleep(0.01)
        tell(
            folder,
            {
                "port": public_socket.getsockname()[1],
                "private_port": private_socket.getsockname()[1],
            },
        )
        while not all(task.done() for task in tasks):
            if doors.parent is not None and os.getppid() != doors.parent:
                leave()
            if current is not None and current.refresh():
                logging.warning("new connections get the certificate that was changed")
            await asyncio.wait(tasks, timeout=0.5)
    logging.warning(
        "ended after %d public, %d private requests", public.requests, private.requests
    )


def crowd() -> int:
    """The largest number of simultaneous connections at the public door. More get the status 503,
    so that file descriptors are left for the private door and the database."""
    return max(1, open_files(CONNECTIONS + OWN_FILES) - OWN_FILES)


def open_files(wanted: int) -> int:
    """How many of `wanted` files this process may have open. Its limit is raised if possible."""
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def tell(folder: Path, answer: dict[str, Any]) -> None:
    """Pass a result to the parent process, by a file that is written atomically."""
    part = folder / "superlink.json.part"
    part.write_text(json.dumps(answer))
    part.replace(folder / "superlink.json")


def main(config: str) -> int:
    try:
        doors = Doors(**json.loads(Path(config).read_text()))
    except (OSError, ValueError, TypeError) as error:
        print(f"{config} is no settings file of a SuperLink: {error}", file=sys.stderr)
        return 2
    Path(doors.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    os.umask(0o077)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    quiet(Path(doors.folder) / "flower")
    try:
        doors.check()
        asyncio.run(serve(doors))
    except Mistake as mistake:
        tell(Path(doors.folder), {"mistake": str(mistake)})
        print(mistake, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
