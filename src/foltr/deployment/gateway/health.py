"""Whether a gateway is healthy, and its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from foltr.core.errors import Mistake
from foltr.deployment.flower.superlink import is_full
from foltr.deployment.gateway.app import App
from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.keys.keys import read_certificate
from foltr.deployment.metrics import counter, counters, gauge, gauges
from foltr.deployment.monitoring import Health, Monitor

if TYPE_CHECKING:
    from prometheus_client import Metric

if TYPE_CHECKING:
    from foltr.deployment.gateway.process import Upstream

REFUSED = "refused "  # before the code of a refusal, in the gateway's counts


@dataclass
class GatewayHealth:
    """The health checks and metrics of a running gateway."""

    app: App
    upstream: Upstream
    state: Path
    pair: tuple[Path, Path] | None  # certificate and key; None without TLS
    _last: datetime | None = None  # when the certificate expires that was read last

    def __post_init__(self) -> None:
        self.gateway, self.connections = self.app.gateway, self.app.connections

    def monitor(self) -> Monitor:
        """The content of /healthz and /metrics."""
        checks = {"server": self.server, "disk": self.disk, "certificate": self.certificate}
        return Monitor(Health(checks, self.facts), self.families)

    def facts(self) -> dict[str, object]:
        doing = "waiting for an ask" if self.gateway.step is None else "waiting for answers"
        devices = len(self.gateway.devices)
        return {"doing": doing, "devices": devices, "connected_devices": self._open}

    @property
    def _open(self) -> int:
        return self.gateway.presence.open

    def server(self) -> str | None:
        return None if self.upstream.connected else "the server cannot be reached: see the log"

    def disk(self) -> str | None:
        return "the disk of the state folder is full" if is_full(self.state) else None

    def certificate(self) -> str | None:
        until = self._until()
        if until is None or datetime.now(UTC) <= until:
            return None
        return f"the certificate for devices expired on {until:%Y-%m-%d}: renew it"

    def _until(self) -> datetime | None:
        """When the certificate expires; None without TLS. While its file cannot be read, the
        gateway uses the one that it has read before."""
        if self.pair is not None:
            with suppress(OSError, Mistake):
                self._last = read_certificate(self.pair[0]).not_valid_after_utc
        return self._last

    def families(self) -> Iterator[Metric]:
        """The metrics. Counters begin at 0 when the gateway is started."""
        gateway, counts = self.gateway, self.gateway.counts
        states = gateway.devices.standings()
        enrolled = {each.value: float(states[each.value]) for each in Standing}
        help = "Devices that have enrolled, by state."
        yield gauges("foltr_gateway_devices", help, "state", enrolled)
        for name, help, value in (
            ("places", "Places for devices.", gateway.clients),
            ("connected_devices", "Devices with a connection.", self._open),
            ("held_requests", "Requests that wait for an ask.", gateway.presence.held),
            ("connections", "Open connections.", self.connections.open),
            ("handshakes", "TLS handshakes under way.", self.connections.handshakes),
            (
                "server_connected",
                "1 while the server can be reached.",
                float(self.upstream.connected),
            ),
        ):
            yield gauge(f"foltr_gateway_{name}", help, value)
        for name, help in (
            ("asks", "Asks of the server that were divided among devices."),
            ("answers", "Answers of devices that were stored."),
            ("missing", "Devices that did not answer an ask."),
        ):
            yield counter(f"foltr_gateway_{name}_total", help, counts[name])
        refusals = {
            name.removeprefix(REFUSED): float(many)
            for name, many in list(counts.items())
            if name.startswith(REFUSED)
        }
        for name, help, label, values in (
            ("refusals", "Answers in which a device refused, by reason.", "code", refusals),
            ("closed", "Connections that were closed, by reason.", "why", self.connections.closed),
            ("responses", "HTTP responses, by status.", "status", self.app.statuses),
        ):
            plain = {str(key): float(value) for key, value in list(values.items())}
            yield counters(f"foltr_gateway_{name}_total", help, label, plain)
        if (until := self._until()) is not None:
            help = "When the certificate for devices expires, since 1970."
            name = "foltr_certificate_expiry_timestamp_seconds"
            yield gauge(name, help, until.timestamp())
