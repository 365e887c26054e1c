"""A node's connection: it waits for asks at the public door of a SuperLink and answers them until
it is stopped. It never runs code that it receives."""

import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import Error, Message

from foltr.core.errors import Mistake
from foltr.core.system.log import Event, Level, Reloaded
from foltr.deployment.flower import internals as flower
from foltr.deployment.flower.doors import AGAIN, HEADER
from foltr.deployment.flower.internals import fleet_pb2, heartbeat_pb2, httpx, node_pb2
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import flower_key, new_key, public_line, read_node_key
from foltr.deployment.protocol.frames import Malformed
from foltr.deployment.protocol.messages import FAILED, REFUSED, NoAnswer, packed, unpacked

WAIT = 20.0  # seconds for which the SuperLink holds a request until there is an ask
BEAT_AGAIN = 1.0  # seconds until a heartbeat that did not arrive is repeated
HEARTBEAT = 15.0  # seconds; a node that is silent for twice as long counts as disconnected
PATIENCE = 2.5 * HEARTBEAT  # seconds for which a node that was killed still counts as connected
LONGEST_PAUSE = 30.0  # seconds between two attempts to connect
# headers of Flower's node authentication
PUBLIC_KEY, TIMESTAMP, SIGNATURE = "flwr-public-key", "flwr-timestamp", "flwr-signature"
STRANGER = (
    "the server does not know this node's key: it was revoked, or its card was never added (`foltr"
    " keys add`, on the server); trying again"
)
NONSENSE = (ValueError, flower.DecodeError)  # not a SuperLink's response, such as a proxy's page


class Abandoned(Exception):
    """An ask that this process does not answer, because it stops: its next one gets it again."""


class Fatal(Exception):
    """The connection failed, and trying again will not help."""


def utc() -> datetime:
    return datetime.now(UTC)


class Asked(NamedTuple):
    """An ask as it arrived."""

    frame: bytes
    seconds: float  # for which it is valid, since it was made
    age: float  # in seconds, when it arrived


@dataclass
class Node:
    """One node and its connection to the SuperLink.

    address: host:port of the public door.
    key: file of the private key (OpenSSH); None makes a temporary key, for an insecure SuperLink.
    roots: file of the certificate authority of the server; None trusts those of this machine.
    answer: function from an ask to the answer. It may raise `NoAnswer`.
    largest: largest ask that is accepted, in bytes.
    tell: prints a line for the user.
    home: token of this node's state folder; with it, a process that was killed reconnects at once.
    """

    address: str
    answer: Callable[[Asked], bytes]
    key: Path | None = None
    roots: Path | None = None
    insecure: bool = False
    largest: int = 64_000_000
    heartbeat: float = HEARTBEAT
    home: str = ""
    stranger: str = STRANGER  # told if the server does not know the key
    tell: Callable[[str], None] = lambda text: None
    clock: Callable[[], datetime] = utc
    node_id: int | None = field(default=None, init=False)
    answered: int = field(default=0, init=False)
    unknown: bool = field(default=False, init=False)  # whether the server does not know the key
    heard: float = field(default=0.0, init=False)  # when the server last accepted a request

    def __post_init__(self) -> None:
        self._host, self._port = split(self.address)
        if self.key is None and not self.insecure:
            raise Mistake("a node needs its private key: `foltr keys node NAME` makes one")
        self._key = read_node_key(self.key) if self.key is not None else new_key()
        self._public = flower_key(public_line(self._key))
        self._told, self._anew, self._at_work = "", True, False
        self._date = 0.0  # of the server's last response
        files = () if self.insecure or self.roots is None else (self.roots,)
        self._trusted = Reloaded(files, self._read_roots, self.tell)
        self._open()

    def _read_roots(self) -> ssl.SSLContext | None:
        return None if self.insecure else trusting(self.roots)

    def _open(self) -> None:
        """Make the two clients, with the certificate authorities that are trusted now."""
        tls = self._trusted.value
        url = f"{'http' if tls is None else 'https'}://{self.address}"
        self._polling = flower.Headers("SuperNode", self._headers, self._seen)
        self._polling.wait = WAIT
        self._link = flower.client(flower.FleetHttpClient, url, self._polling, tls)
        calm = flower.Headers("SuperNode", self._headers, self._hear)
        self._heart = flower.client(flower.FleetHttpClient, url, calm, tls)

    @property
    def connected(self) -> bool:
        """Whether the server has accepted a request lately: heartbeats are such requests."""
        lately = time.monotonic() - self.heard < 2.0 * self.heartbeat
        return self.node_id is not None and lately

    def serve(self, stop: threading.Event) -> None:
        """Answer asks until `stop` is set. Raises `Mistake` if the first connection fails for a
        reason that only the user can correct. Later failures are retried without limit."""
        ended = threading.Event()
        heart = threading.Thread(target=self._beat, args=(stop, ended), daemon=True)
        heart.start()
        pause, ever, missed = 0.2, False, False
        try:
            while not stop.is_set():
                try:
                    if self._trusted.refresh():
                        self.tell(f"{self.roots} has changed: connecting by what it trusts now")
                        self._open()
                    if self.node_id is None:
                        self._join(stop)
                        ever, missed = True, False
                    if missed:  # the SuperLink may count this node as disconnected
                        self._send_heartbeat(self._link)
                        self._say(f"connected to {self.address} again", "connected")
                        missed = False
                    self._one_ask(stop)
                    pause = 0.2
                    continue
                except Fatal as error:
                    if not ever:
                        raise Mistake(str(error)) from error
                    self._warn(str(error))
                except httpx.HTTPStatusError as error:
                    self._refused(error)
                except httpx.TransportError as error:
                    self._warn(f"no connection to {self.address} ({error}): trying again")
                except NONSENSE as error:
                    self._warn(
                        f"{self.address} does not respond like a SuperLink ({error}): trying again"
                    )
                missed = self._anew = True
                stop.wait(pause)
                pause = min(1.7 * pause, LONGEST_PAUSE if self.node_id is None else 5.0)
        finally:
            ended.set()
            self._leave()
            heart.join(1.0)

    # --- the connection ---

    def _join(self, stop: threading.Event) -> None:
        """Authenticate with the node's key, and become active."""
        until, pause = time.monotonic() + PATIENCE, 0.5
        while not stop.is_set():
            try:
                if self.insecure:
                    self._register()
                request = fleet_pb2.ActivateNodeRequest(
                    public_key=self._public, heartbeat_interval=self.heartbeat
                )
                node_id = self._link.ActivateNode(request).node_id
                if node_id == 0:  # what an empty page says; 0 is no id of a node
                    raise ValueError("it named no node")
                self.node_id = node_id
            except httpx.TransportError as error:
                if reason := self._of_transport(error):
                    raise Fatal(reason) from error
                raise
            except httpx.HTTPStatusError as error:
                status, (_, text) = error.response.status_code, flower.error_code(error)
                if status == 403 and "unregistered" in text:
                    self.unknown = True
                    self._warn(self.stranger)
                    stop.wait(pause)
                    pause = min(2.0 * pause, LONGEST_PAUSE)
                    continue
                if status == 401:
                    refused = f"the server refused this node's key ({text}): is it the key in the"
                    reason = self._clock(error) or f"{refused} server's roster?"
                    raise Fatal(reason) from error
                if status == 404:
                    raise Fatal(
                        f"{self.address} is not the port for nodes: give the host and port of"
                        " `listen` in the server's settings"
                    ) from error
                if status != 409:
                    raise
                if time.monotonic() > until:
                    raise Fatal(
                        "this node's key is in use by another running node: every node needs a key"
                        " of its own (`foltr keys node NAME`)"
                    ) from error
                self._say(
                    "this key is in use: waiting until the previous process of this node is gone"
                )
                stop.wait(2.0)
                continue
            self.unknown = False
            self._say(f"connected to {self.address} as node {self.node_id}", "connected")
            return

    def _register(self) -> None:
        request = fleet_pb2.RegisterNodeFleetRequest(public_key=self._public)
        try:
            self._link.RegisterNode(request)
        except httpx.HTTPStatusError as error:
            code, _ = flower.error_code(error)
            if error.response.status_code == 404:
                raise Fatal(
                    f"{self.address} needs a registered key and TLS: leave --insecure out"
                ) from error
            if code != flower.ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                raise

    def _leave(self) -> None:
        """Tell the SuperLink that this node disconnects. It does not matter if this fails."""
        node, self.node_id = self.node_id, None
        if node is not None:
            try:
                self._heart.DeactivateNode(fleet_pb2.DeactivateNodeRequest(node_id=node))
            except (httpx.HTTPError, *NONSENSE):
                pass

    def _beat(self, stop: threading.Event, ended: threading.Event) -> None:
        """Send heartbeats, also while the node computes an answer. When the node stops, finish
        that answer first; then disconnect, which ends the request that waits for asks."""
        usual = pause = 0.7 * self.heartbeat
        while not stop.wait(pause) or (self._at_work and not ended.wait(pause)):
            if ended.is_set():
                return
            try:
                self._send_heartbeat(self._heart)
                pause = usual
            except (httpx.HTTPError, *NONSENSE):
                pause = BEAT_AGAIN  # two that are lost, and the node counts as away
        self._leave()

    def _send_heartbeat(self, link: Any) -> None:
        if (node := self.node_id) is not None:
            link.SendNodeHeartbeat(
                heartbeat_pb2.SendNodeHeartbeatRequest(
                    node=node_pb2.Node(node_id=node), heartbeat_interval=self.heartbeat
                )
            )

    def _refused(self, error: httpx.HTTPStatusError) -> None:
        """Handle an error response after the connection was established."""
        status = error.response.status_code
        if status == 401:
            self.node_id = None
            lost = "the server no longer knows this connection: connecting again"
            self._warn(self._clock(error) or lost)
        else:
            self._warn(f"the server responded with HTTP status {status}: trying again")

    def _clock(self, error: httpx.HTTPStatusError) -> str | None:
        return of_clock(error.response.headers.get("date"), self.clock())

    def _of_transport(self, error: httpx.TransportError) -> str | None:
        """Why there is no connection, if trying again will not help; else None."""
        roots = str(self.roots) if self.roots else None
        if reason := of_tls(str(error), self.address, roots):
            return reason
        if self.insecure and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
            if speaks_tls(self._host, self._port):
                return f"{self.address} speaks TLS: leave --insecure out, and set ca in [node]"
        return None

    def _say(self, text: str, kind: str = "note", level: Level = "info") -> None:
        if text != self._told:
            self._told = text
            self.tell(Event(text, kind, level))

    def _warn(self, text: str) -> None:
        self._say(text, "disconnected", "warning")

    # --- asks ---

    def _one_ask(self, stop: threading.Event) -> None:
        """Wait for an ask and answer it."""
        node = node_pb2.Node(node_id=self.node_id or 0)
        self._polling.node = self.node_id
        pulled = self._link.PullMessages(fleet_pb2.PullMessagesRequest(node=node))
        self._anew = False
        if not pulled.messages_list or stop.is_set():
            return
        self._at_work = True
        try:
            self._answer(stop, node, flower.from_proto(pulled.messages_list[0]))
        except Abandoned:
            self.node_id = None  # without notice: the SuperLink delivers the ask again
        finally:
            self._at_work = False

    def _answer(self, stop: threading.Event, node: Any, ask: Message) -> None:
        if self._insist(stop, node, self._reply(ask)) == 413:
            self.tell(
                "an answer was larger than the server accepts: its operator can raise max_bytes"
            )
            error = Error(REFUSED, "the answer is larger than the server accepts: raise max_bytes")
            self._insist(stop, node, Message(error, reply_to=ask))
        self.answered += 1

    def _reply(self, ask: Message) -> Message:
        try:
            frame = unpacked(ask.content)
        except ValueError as problem:
            return Message(Error(REFUSED, str(problem)[:200]), reply_to=ask)
        try:
            if len(frame) > self.largest:
                raise NoAnswer(f"the ask has {len(frame)} bytes, the limit is {self.largest}")
            valid = ask.metadata.ttl
            age = min(max(0.0, self._date - ask.metadata.created_at), valid)
            return Message(packed(self.answer(Asked(frame, valid, age))), reply_to=ask)
        except Abandoned:
            raise
        except NoAnswer as refusal:
            error = Error(refusal.code, refusal.reason)
        except Malformed as problem:  # for example, of another version
            error = Error(REFUSED, str(problem)[:200])
            self.tell(f"an ask could not be answered: {problem}")
        except Exception as problem:  # noqa: BLE001
            error = Error(FAILED, type(problem).__name__)  # its text may contain data
            self.tell(f"an ask could not be answered: {type(problem).__name__}: {problem}")
        return Message(error, reply_to=ask)

    def _insist(self, stop: threading.Event, node: Any, reply: Message) -> int:
        """Send an answer, repeatedly during an outage, because the budget is spent already.
        Returns the HTTP status. An answer that the SuperLink refuses is lost."""
        sent, tree = flower.as_proto(reply)
        request = fleet_pb2.PushMessagesRequest(
            node=node, messages_list=[sent], message_object_trees=[tree]
        )
        pause, until = 0.2, time.monotonic() + 120.0
        while True:
            try:
                self._push(request)
                return 200
            except httpx.HTTPError as error:
                response = getattr(error, "response", None)
                status: int = 503 if response is None else response.status_code
                if status == 401:
                    raise
                if status < 500:
                    if status != 413:
                        why = flower.error_code(error)[1]
                        self.tell(f"the server did not take an answer, and may ask again: {why}")
                    return status
                if stop.wait(pause) or time.monotonic() > until:  # it is down, or its disk is full
                    raise
                pause = min(2 * pause, 5.0)

    def _push(self, request: Any) -> None:
        self._link.PushMessages(request)

    # --- headers ---

    def _headers(self, path: str) -> dict[str, str]:
        """Headers that authenticate the node: its public key, and the time with a signature."""
        stamp = self.clock().isoformat()
        signature = flower.sign_message(self._key, stamp.encode())
        signed = {
            PUBLIC_KEY: b64encode(self._public).decode(),
            TIMESTAMP: stamp,
            SIGNATURE: b64encode(signature).decode(),
        }
        if path.endswith("/activate-node") and self.home:
            return signed | {HEADER: self.home}
        if path.endswith("/pull-messages") and self._anew:
            return signed | {AGAIN: "1"}
        return signed

    def _hear(self, response: Any) -> None:
        if response.status_code < 300:
            self.heard = time.monotonic()

    def _seen(self, response: Any) -> None:
        self._hear(response)
        try:  # by the clock that dates asks, too
            self._date = parsedate_to_datetime(response.headers["date"]).timestamp()
        except (KeyError, ValueError):
            self._date = 0.0


def split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise Mistake(f"address {address!r}: expected host:port, such as server.example:8443")
    return host.strip("[]"), int(port)


# Error messages for failed connections: why a node cannot connect, and what to do.

AHEAD, BEHIND = 5.0, 305.0  # seconds by which a node's clock may differ from the SuperLink's

CERTIFICATES = (
    (
        "certificate has expired",
        "the server's certificate has expired, or this machine's clock is wrong: check the clock,"
        " or ask the server's operator to run `foltr keys renew`",
    ),
    ("not yet valid", "the server's certificate is not valid yet: is this machine's clock right?"),
    (
        "hostname mismatch|ip address mismatch|not valid for",
        "the server's certificate is for another name than {address}: use a name that is in it, or"
        " ask the server's operator to run `foltr keys renew --host NAME`",
    ),
    (
        "self.signed|unable to get local issuer|unable to get issuer|signature failure",
        "the server's certificate is not signed by {roots}: either {address} is not your server,"
        " or the file belongs to another federation; copy ca.pem from the server again",
    ),
    ("certificate", "the server's certificate is not accepted: {text}"),
    (
        "wrong_version_number|record layer|unknown protocol|http request",
        "{address} does not speak TLS: check the port, or whether the server runs with --insecure",
    ),
)


def of_tls(text: str, address: str, roots: str | None) -> str | None:
    """An explanation of a TLS error, by its text; None if the error is not about TLS."""
    low = text.lower()
    if not any(word in low for word in ("ssl", "tls", "certificate")):
        return None
    known = roots or "a known authority (set ca in [node] to the federation's ca.pem)"
    for pattern, reason in CERTIFICATES:
        if re.search(pattern, low):
            return reason.format(address=address, roots=known, text=text)
    return f"no TLS connection to {address}: {text}"


def speaks_tls(host: str, port: int) -> bool:
    """Whether the server at this address speaks TLS. Its certificate is not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), 3.0) as plain:
            with context.wrap_socket(plain, server_hostname=host):
                return True
    except (OSError, ValueError):
        return False


def of_clock(date: str | None, now: datetime) -> str | None:
    """An explanation if this machine's clock differs from the server's by more than Flower allows;
    else None. `date` is the HTTP header Date of the response."""
    try:
        server = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    if server.tzinfo is None:
        server = server.replace(tzinfo=UTC)
    ahead = (now - server).total_seconds()
    if -BEHIND + 1 < ahead < AHEAD - 1:  # the header is in whole seconds
        return None
    way = "ahead of" if ahead > 0 else "behind"
    return (
        f"this clock is {abs(ahead):.0f} s {way} the server's: set it (NTP). The server accepts up"
        f" to {AHEAD:.0f} s ahead and {BEHIND:.0f} s behind"
    )
