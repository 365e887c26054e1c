"""The settings files of `foltr serve`, `foltr node`, `foltr gateway` and `foltr simulate-devices`.

All begin with the agreement, which is the same for all. A table [server], [node], [gateway] or
[devices] follows."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.sgd import SGD
from foltr.components.partitions.iid import IID
from foltr.components.users.cascade import Cascade
from foltr.core import Aggregator, ClickModel, Optimizer
from foltr.core.errors import Mistake, did_you_mean, require
from foltr.core.scoring import numbered
from foltr.core.spec import checked, coerce, hints_of
from foltr.core.system.files import check_extent, content_of
from foltr.core.world.protocols import Partition, Source
from foltr.deployment.protocol.agreement import Agreement
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code

MOST_BYTES = 1 << 22  # of a settings file
AGREED = tuple(field.name for field in fields(Agreement))
T = TypeVar("T")


def address_of(text: str) -> tuple[str, int]:
    """Split HOST:PORT, or [IPV6]:PORT."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    fits = bool(colon and host) and port.isascii() and port.isdigit() and int(port) < 2**16
    fits = fits and "/" not in host
    require(fits, f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:8443")
    return host, int(port)


class WithPage:
    """A table with the address of a status page."""

    status: str | None

    @property
    def status_address(self) -> tuple[str, int] | None:
        """Host and port of the status page; None for no page."""
        return None if self.status in (None, "none") else address_of(self.status)


def _check_least(table: object, **least: int) -> None:
    """Refuse values that are smaller than these; None is no value."""
    for name, minimum in least.items():
        value = getattr(table, name)
        ok = value is None or value >= minimum
        require(ok, f"{name} must be >= {minimum:,}, got {value}")


def _check_seed(seed: int | None) -> None:
    require(seed is None or 0 <= seed < 2**63, f"seed must be in 0 .. 2^63 - 1, got {seed}")


def _check_clients(clients: int) -> None:
    require(1 <= clients <= 10**6, f"clients must be in 1 .. 10^6, got {clients}")


@checked
@dataclass(frozen=True)
class ServerTable(WithPage):
    """The table [server].

    Fields
        aggregator, optimizer: as in an experiment
        seed: seed of the initial model and of the choice of clients; None draws one from the
            operating system, and keeps it in the state folder, where clients do not see it
        roster: the file with the nodes and their keys (`foltr keys add`)
        listen: HOST:PORT to which nodes connect
        keys: folder of the server's certificate and key (`foltr keys server`)
        state: folder of the server's state
        database: whether the SuperLink stores its messages on disk, so that they survive a restart
        deadline: seconds in which nodes must answer
        wait: seconds for which the first round waits for all nodes
        max_norm: largest L2 norm of an update that is accepted
        max_bytes: largest message in bytes
        holdout: data source with judged queries, on which every new model is measured
        tolerance: a model is not adopted if its nDCG@10 on `holdout` is lower than the best one by
            more than this
        training_rounds: rounds of training; the rest of the budget (`rounds`) is for unlearning
        keep_models: number of models that are kept, for --rollback
        superlink: folder of a SuperLink that runs separately (`--superlink-only`); None: the
            server starts a SuperLink, and restarts it if it ends
        status: HOST:PORT of the status page; "none" for no page
        device_keys: file with the public keys of devices behind gateways (`foltr gateway FILE
            --keys`), which SecureSum(consistency=True) needs for them
        interval: least seconds from the beginning of a round to the next one"""

    roster: str
    state: str
    aggregator: Aggregator = Mean()
    optimizer: Optimizer = SGD()
    seed: int | None = None
    listen: str = "127.0.0.1:8443"
    keys: str | None = None
    database: bool = True
    deadline: float = 60.0
    wait: float = 30.0
    max_norm: float = 1e6
    max_bytes: int = 64_000_000
    holdout: Source | None = None
    tolerance: float = 0.02
    training_rounds: int | None = None
    keep_models: int = 100
    superlink: str | None = None
    status: str | None = "127.0.0.1:8444"
    device_keys: str | None = None
    interval: float = 0.0

    def __post_init__(self) -> None:
        address_of(self.listen)
        require(
            0.0 <= self.interval <= 1e7,
            f"interval must be in 0 .. 10^7 seconds, got {self.interval}",
        )
        _ = self.status_address
        require(self.deadline > 0.0, f"deadline must be > 0 seconds, got {self.deadline}")
        require(self.wait >= 0.0, f"wait must be >= 0 seconds, got {self.wait}")
        require(self.max_norm > 0.0, f"max_norm must be > 0, got {self.max_norm}")
        require(0.0 <= self.tolerance <= 1.0, f"tolerance must be in 0 .. 1, got {self.tolerance}")
        _check_seed(self.seed)
        _check_least(self, training_rounds=1, keep_models=1, max_bytes=10_000)
        require(
            not self.aggregator.trusted_queries,
            f"{type(self.aggregator).__name__} needs a client of the server's own: a deployment"
            " does not have one yet; choose another aggregator",
        )


@checked
@dataclass(frozen=True)
class NodeTable:
    """The table [node].

    Fields
        server: HOST:PORT of the server
        ca: certificate of the federation's authority, which signed the server's certificate
        keys: folder of the node's private keys (`foltr keys node`)
        state: folder of the node's state
        clients: number of clients (devices) of this node
        data: source of the clients' documents; its split "train" is used
        users: click model that simulates clicks from the labels of the data
        clicks: log of real searches and clicks (`deployment/node/logged.py`), instead of `users`
        partition: how the documents are divided among the clients
        seed: seed of the users' random draws; None draws one from the operating system and keeps
            it
        population: for demonstrations in which all nodes have the same data: the number of clients
            of the whole federation; None: the data belongs to this node only
        roster: copy of the roster, with the public keys of all nodes, which
            SecureSum(consistency=True) needs
        device_keys: file with the public keys of all devices behind gateways, for the same; the
            file may appear later"""

    server: str
    state: str
    data: Source
    clients: int = 1
    ca: str | None = None
    keys: str | None = None
    users: ClickModel = Cascade()
    clicks: str | None = None
    partition: Partition = IID()
    seed: int | None = None
    population: int | None = None
    roster: str | None = None
    device_keys: str | None = None

    def __post_init__(self) -> None:
        address_of(self.server)
        _check_clients(self.clients)
        _check_seed(self.seed)
        require(
            self.device_keys is None or self.roster is not None,
            "device_keys needs roster, a copy of the server's roster",
        )


@checked
@dataclass(frozen=True)
class GatewayTable(WithPage):
    """The table [gateway].

    Fields
        server: HOST:PORT of the server
        ca: certificate of the federation's authority, which signed the server's certificate
        keys: folder of the gateway's private keys as a node (`foltr keys node`)
        state: folder of the gateway's state
        clients: number of places for devices, as on the gateway's card
        listen: HOST:PORT to which devices connect
        certificate, certificate_key: PEM files for TLS at `listen`
        open_enrolment: whether devices enrol without an invitation: then one person can enrol any
            number of devices
        hold: seconds for which a device's request for an ask is held
        max_held: most requests that are held at a time; other devices ask again every `poll`
            seconds
        poll: seconds between two requests of a device that is not held
        grace: seconds for which a device that has disconnected still counts as reachable
        rate: requests per second and address that show no token (to enrol, for example)
        max_bytes: largest answer of a device in bytes
        max_connections: most connections at a time
        per_address: most connections at a time from one address; None for no limit
        status: HOST:PORT of /healthz and /metrics; "none" for no such page"""

    server: str
    state: str
    clients: int
    ca: str | None = None
    keys: str | None = None
    listen: str = "127.0.0.1:8445"
    certificate: str | None = None
    certificate_key: str | None = None
    open_enrolment: bool = False
    hold: float = 25.0
    max_held: int = 4_096
    poll: float = 30.0
    grace: float = 3.0
    rate: float = 20.0
    max_bytes: int = 4_000_000
    max_connections: int = 16_000
    per_address: int | None = None
    status: str | None = "127.0.0.1:8446"

    def __post_init__(self) -> None:
        address_of(self.server)
        address_of(self.listen)
        _ = self.status_address
        _check_clients(self.clients)
        require(0.0 < self.hold <= 60.0, f"hold must be in (0, 60] seconds, got {self.hold}")
        require(self.poll >= 1.0, f"poll must be >= 1 second, got {self.poll}")
        require(self.grace >= 0.0, f"grace must be >= 0 seconds, got {self.grace}")
        require(self.rate > 0.0, f"rate must be > 0 requests per second, got {self.rate}")
        _check_least(self, max_held=0, max_bytes=1_000, max_connections=1, per_address=1)


@checked
@dataclass(frozen=True)
class DevicesTable:
    """The table [devices], for simulated devices behind a gateway.

    Fields
        gateway: https://HOST:PORT of the gateway
        devices: number of devices
        population: number of clients of the whole federation
        ca: certificate of the authority that signed the gateway's certificate
        invitations: file with an invitation per line; None for open enrolment
        data, users, partition, seed: as in [node], for the whole federation
        wait: seconds for which a device wants its requests to be held
        device_keys: file with the public keys of all devices, for SecureSum(consistency=True). The
            file may appear after the devices have enrolled
        roster: copy of the roster, for such sums in which nodes take part, too"""

    gateway: str
    devices: int
    population: int
    data: Source
    ca: str | None = None
    invitations: str | None = None
    users: ClickModel = Cascade()
    partition: Partition = IID()
    seed: int = 0
    wait: int = 25
    device_keys: str | None = None
    roster: str | None = None

    def __post_init__(self) -> None:
        require(
            self.roster is None or self.device_keys is not None,
            "roster needs device_keys, the file of pinned keys",
        )
        require(
            1 <= self.devices <= self.population,
            f"devices must be in 1 .. population, got {self.devices}",
        )


def read_server(path: Path, code: Code) -> tuple[Agreement, ServerTable]:
    """Read the settings of a server."""
    return _settings(path, code, "server", ServerTable)


def read_node(path: Path, code: Code) -> tuple[Agreement, NodeTable]:
    """Read the settings of a node."""
    return _settings(path, code, "node", NodeTable)


def read_gateway(path: Path, code: Code) -> tuple[Agreement, GatewayTable]:
    """Read the settings of a gateway."""
    return _settings(path, code, "gateway", GatewayTable)


def read_devices(path: Path, code: Code) -> tuple[Agreement, DevicesTable]:
    """Read the settings of simulated devices."""
    return _settings(path, code, "devices", DevicesTable)


def beside(path: Path, name: str) -> Path:
    """A path in a settings file. A relative path starts at the file's folder."""
    return Path(path).parent / name


def settings_file(config: Mapping[str, Any], of: Literal["server", "node"]) -> Path:
    """The settings file that the configuration of a stock Flower deployment names."""
    option = "--node-config" if of == "node" else "flwr run --run-config"
    how = f"""{option} 'settings="/path/of/{of}.toml"'"""
    name = config.get("settings")
    if not isinstance(name, str) or not name:
        raise Mistake(f"no settings file is named: {how}")
    path = Path(name).expanduser()
    whole = f"settings = {name!r} is no absolute path, and Flower runs apps in a folder of its own"
    require(path.is_absolute(), f"{whole}: {how}")
    return path


def _settings(path: Path, code: Code, name: str, cls: type[T]) -> tuple[Agreement, T]:
    content = _read(path, code, name)
    table = _table(cls, content.pop(name), path, name)
    return _agreement(content, path), table


def _read(path: Path, code: Code, name: str) -> dict[str, Any]:
    try:
        raw = content_of(path)
        require(
            len(raw) <= MOST_BYTES,
            f"{path} has {len(raw):,} bytes, and a settings file at most {MOST_BYTES:,}: is it"
            " another file?",
        )
        content = tomllib.loads(raw.decode("utf-8-sig"))
        check_extent(content)
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except Mistake:
        raise
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{path} is not TOML: {error}") from None
    for other in ("server", "node", "gateway"):
        if other in content and name not in content:
            command = "serve" if other == "server" else other
            raise Mistake(f"{path} is the file of a {other}: `foltr {command} {path}`")
    require(name in content, f"{path} has no table [{name}]: add it after the agreement")
    known = {*AGREED, name, "use"}
    for key in content:
        require(key in known, f"{path}: unknown key {key!r}: {did_you_mean(key, known)}")
    used = content.pop("use", [])
    listed = isinstance(used, list) and all(isinstance(each, str) for each in used)
    require(listed, f'{path}: use must be a list of paths, such as use = ["own.py"]')
    code.load(path, [beside(path, each) for each in used])
    return content


def _table(cls: type[T], table: Any, path: Path, name: str) -> T:
    require(isinstance(table, dict), f"{path}: {name} must be a table: write [{name}]")
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for key in table:
        hint = did_you_mean(key, known)
        require(key in known, f"{path}: [{name}] has no key {key!r}: {hint}")
    needed = [f.name for f in fields(cls) if f.default is MISSING]  # type: ignore[arg-type]
    missing = [key for key in needed if key not in table]
    require(not missing, f"{path}: [{name}] needs {', '.join(missing)}: add to the table")
    try:
        return cls(**table)
    except Mistake as error:
        text = str(error).replace(f"{cls.__name__}.", f"[{name}] ")
        raise Mistake(f"{path}: {text.removeprefix(f'{cls.__name__}: ')}") from None


def _agreement(content: dict[str, Any], path: Path) -> Agreement:
    """The agreement in a settings file. `features` may be a number. The defaults are those of an
    experiment."""
    values = dict(content)
    missing = [name for name in ("features", "asked", "rounds") if name not in values]
    require(not missing, f"{path} needs {', '.join(missing)}: add before the first table")
    if isinstance(values["features"], int) and not isinstance(values["features"], bool):
        many = f"{path}: features must be in 1 .. 10^6, got {values['features']}"
        require(1 <= values["features"] <= 10**6, many)
        values["features"] = numbered(values["features"])
    named = isinstance(values["features"], list | tuple)
    require(named, f"{path}: features must be a whole number, or a list of names")
    defaults = Experiment()
    values.setdefault("ranker", defaults.ranker)
    values.setdefault("learner", defaults.learner)
    try:
        hints = hints_of(Agreement)
        learner = coerce(values["learner"], hints["learner"], "learner")
        values.setdefault("sessions", learner.sessions)
        if "fewest" not in values:
            channel = coerce(values.get("channel"), hints["channel"], "channel")
            asked = coerce(values["asked"], int, "asked")
            values["fewest"] = 1 if channel is None else channel.fewest(asked)
        return Agreement(**values)
    except Mistake as error:
        raise Mistake(f"{path}: {error}") from None
