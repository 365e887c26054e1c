"""`foltr gateway`: the process of a gateway."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from foltr.core.errors import require
from foltr.core.system.lock import only_one
from foltr.deployment.flower.node import Abandoned, Asked, Node
from foltr.deployment.flower.superlink import LOOPBACK, bound, open_files
from foltr.deployment.gateway.app import App
from foltr.deployment.gateway.connection_limits import ConnectionLimits, Rates
from foltr.deployment.gateway.enrolment import Enrolment, Standing
from foltr.deployment.gateway.gateway import Gateway, Stopping
from foltr.deployment.gateway.health import GatewayHealth
from foltr.deployment.gateway.https_server import serve_https
from foltr.deployment.gateway.presence import Polling
from foltr.deployment.gateway.signing import Tokens
from foltr.deployment.keys.device_keys import device_keys_text
from foltr.deployment.keys.keys import check_dates
from foltr.deployment.keys.rotation import follow_certificate, server_context
from foltr.deployment.monitoring import monitored
from foltr.deployment.node.connections import Connections
from foltr.deployment.node.node import home_of
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.settings import GatewayTable, address_of, beside, read_gateway
from foltr.experiment.user_files import Code
from foltr.simulation.runs.interruptions import on_signals

SHARE = 0.8  # share of the server's deadline in which devices must answer
OWN_FILES = 200  # open files of a gateway beside its connections
COLLECT = 20_000, 20, 10  # thresholds of Python's garbage collector (`gc.set_threshold`)


def run_gateway(
    file: Path, code: Code, insecure: bool = False, tell: Callable[[str], None] = print
) -> None:
    """Run a gateway until it is stopped."""
    agreed, table = read_gateway(file, code)
    needs = "the folder that `foltr keys node NAME` makes"
    require(table.keys is not None, f"{file}: [gateway] needs keys, {needs}")
    pair = certificate_pair(file, table, insecure, tell)
    stop, state = threading.Event(), beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        stack.enter_context(only_one(state, "gateway"))
        stack.enter_context(on_signals(lambda signum, frame: stop.set()))
        enrolment = state_of(file, agreed, table)
        polling = Polling(table.hold, table.max_held, table.poll, table.grace)
        gateway = Gateway(agreed, enrolment, table.clients, polling, tell)
        most, strangers = connections_allowed(table.max_connections, tell)
        connections = ConnectionLimits(
            most, strangers, per_address=table.per_address, left=gateway.presence.disconnected
        )
        rates = Rates(table.rate, 5.0 * table.rate)
        tokens = Tokens(enrolment.secret())
        app = App(gateway, connections, tokens, table.open_enrolment, table.max_bytes, rates)
        upstream = Upstream(file, table, gateway, insecure, stop, tell)
        tell_settings(gateway, table, tell)
        host, port = address_of(table.listen)
        listener = bound(host, port)
        if table.status_address is not None:
            watched = GatewayHealth(app, upstream, state, pair)
            address = stack.enter_context(monitored(watched.monitor(), *table.status_address))
            tell(f"health and metrics: {address}healthz and {address}metrics")
        tls = None
        if pair is not None:
            tls = follow_certificate(*pair, tell, oldest=ssl.TLSVersion.TLSv1_3)

        def ready() -> None:
            tell(f"devices connect to {host}:{listener.getsockname()[1]}")
            upstream.start()

        collect_garbage_seldom()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_https(app, listener, tls, stop.is_set, ready))
        upstream.join()
        tell("stopped: the same command continues")


def certificate_pair(
    file: Path, table: GatewayTable, insecure: bool, tell: Callable[[str], None]
) -> tuple[Path, Path] | None:
    """The files of the certificate for devices and of its key; None with `insecure`."""
    if insecure:
        for name, address in (("server", table.server), ("listen", table.listen)):
            here = address_of(address)[0] in LOOPBACK
            require(here, f"--insecure is for this machine only, but {name} = {address!r}")
        return None
    need = f"{file}: [gateway] needs ca, certificate and certificate_key (or --insecure)"
    require(None not in (table.ca, table.certificate, table.certificate_key), need)
    pair = beside(file, table.certificate or ""), beside(file, table.certificate_key or "")
    server_context(*pair)  # raises a Mistake
    ca = beside(file, table.ca or "")
    for each, way_out in ((ca, "ask the server's operator"), (pair[0], "renew it")):
        for warning in check_dates(each, way_out=way_out):
            tell(warning)
    return pair


class Upstream:
    """The thread that connects the gateway to its server as a node. If it fails, the gateway
    stops. If the node's keys are replaced, it connects with the new ones (`Connections`)."""

    def __init__(
        self,
        file: Path,
        table: GatewayTable,
        gateway: Gateway,
        insecure: bool,
        stop: threading.Event,
        tell: Callable[[str], None],
    ) -> None:
        self._file, self._table, self._gateway = file, table, gateway
        self._insecure, self._stop, self._tell = insecure, stop, tell
        self._home = home_of(gateway.enrolment)
        self.connected = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="foltr-upstream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            connections = Connections(
                beside(self._file, self._table.keys or ""),
                self._table.server,
                self._answer,
                roots=None if self._insecure else beside(self._file, self._table.ca or ""),
                insecure=self._insecure,
                home=self._home,
                tell=self._tell,
            )
            connections.serve(self._stop, self._look)
        except BaseException as error:  # noqa: BLE001  # raised again by `join`
            self._error = error
            self._stop.set()

    def _look(self, node: Node) -> None:
        self.connected = node.connected

    def _answer(self, ask: Asked, sign_key: bytes) -> bytes:
        """The gateway's answer to an ask. An ask that is under way when the gateway stops is not
        answered: its answers are stored, and the next process continues it."""
        gc.collect(0)  # the last request to the server is a cycle of objects, with its whole body
        try:
            return self._gateway.answer(ask.frame, SHARE * ask.seconds, ask.age)
        except Stopping:
            raise Abandoned from None
        except (concurrent.futures.CancelledError, RuntimeError) as error:  # the loop has ended
            if self._gateway.stopping:
                raise Abandoned from error
            raise

    def join(self) -> None:
        self._thread.join(10.0)
        if self._error is not None:
            raise self._error


def tell_settings(gateway: Gateway, table: GatewayTable, tell: Callable[[str], None]) -> None:
    agreed = gateway.agreement
    tell(
        f"federation {agreed.id.hex()[:12]}: {len(gateway.devices):,} devices are enrolled,"
        f" {table.clients:,} places, server {table.server}"
    )
    if agreed.channel is None:
        tell(
            "this gateway and its server see every device's update: only a secure sum (channel ="
            ' "SecureSum()") hides it'
        )
    else:
        tell(
            "secure sum: this gateway cannot read a device's update, if it and the server follow"
            " the protocol"
        )
    if agreed.protocol is not None and not agreed.protocol.consistency:
        tell(
            "device keys are not pinned: a server that invents clients could learn the sum of a"
            " few devices (SecureSum(consistency=True) and device_keys prevent that)"
        )
    if table.open_enrolment:
        tell("open enrolment: anyone who can connect can enrol any number of devices")


def connections_allowed(wanted: int, tell: Callable[[str], None]) -> tuple[int, int]:
    """The number of connections that this process may open, and of TLS handshakes besides."""
    handshakes = ConnectionLimits.strangers
    need = wanted + handshakes + OWN_FILES
    soft = open_files(need)
    if soft == need:
        return wanted, handshakes
    handshakes = min(handshakes, (soft - OWN_FILES) // 5)
    found = min(wanted, soft - OWN_FILES - handshakes)
    few = f"this machine allows {soft:,} open files, and a gateway needs {need:,}"
    require(found >= 1 and handshakes >= 1, f"{few}: raise ulimit -n")
    tell(f"{few} for {wanted:,} connections. It accepts {found:,}: raise ulimit -n for more")
    return found, handshakes


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, where it is installed: its idle TLS connections take less memory."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def collect_garbage_seldom() -> None:
    """Run Python's cyclic garbage collector less often. Thousands of connections are hundreds of
    thousands of objects, and with the default thresholds it would visit them many times in a
    round."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


# Commands that read or change the state of a gateway, even while it runs: `foltr gateway FILE
# --invite`, `--withdraw`, `--revoke`, `--devices` and `--keys`.

DATABASE = "gateway.db"
EVERY = "all"  # invitations


def state_of(file: Path, agreed: Agreement, table: GatewayTable) -> Enrolment:
    """The state of the gateway with this settings file."""
    state = beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Enrolment(state / DATABASE, agreed.id)


def settings_and_state(file: Path, code: Code) -> tuple[GatewayTable, Enrolment]:
    agreed, table = read_gateway(file, code)
    return table, state_of(file, agreed, table)


def make_invitations(file: Path, code: Code, devices: int, each: int, days: float) -> list[str]:
    """Make invitations for this many devices in total. Each is valid for `each` devices."""
    _, enrolment = settings_and_state(file, code)
    require(devices >= 1, f"--invite {devices}: expected at least one device")
    require(1 <= each <= devices, f"--each {each}: expected 1 to {devices}")
    now = time.time()
    sizes = [each] * (devices // each) + ([devices % each] if devices % each else [])
    return [enrolment.invite(size, days, now) for size in sizes]


def withdraw_invitation(file: Path, code: Code, token: str) -> int:
    """Make an invitation invalid; "all" for all of them. Returns for how many more devices it was
    valid."""
    _, enrolment = settings_and_state(file, code)
    return enrolment.withdraw(None if token == EVERY else token, time.time())


def revoke_device(file: Path, code: Code, client: int) -> str:
    """Exclude the device with this client number. Returns how its owner could enrol again, or
    ""."""
    table, enrolment = settings_and_state(file, code)
    enrolment.revoke(client)
    places = enrolment.places_left(client, time.time())
    again = "its owner can enrol again with another key"
    if table.open_enrolment:
        return f"{again}: enrolment is open"
    if places:
        return f"{again}: its invitation is valid for {places:,} more (--withdraw)"
    return ""


def device_keys(file: Path, code: Code) -> str:
    """The lines of a file of device keys (`keys/device_keys.py`), for all active devices."""
    _, enrolment = settings_and_state(file, code)
    devices = enrolment.devices().values()
    return device_keys_text({d.client: d.key for d in devices if d.standing == Standing.ACTIVE})


def count_devices(file: Path, code: Code) -> tuple[dict[str, int], tuple[int, int]]:
    """The number of devices by state; the number of valid invitations, and of devices that can
    still enrol with them."""
    _, enrolment = settings_and_state(file, code)
    found = Counter(str(device.standing) for device in enrolment.devices().values())
    return dict(found), enrolment.invitations(time.time())
