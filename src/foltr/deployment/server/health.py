"""Whether a server is healthy, and metrics of its SuperLink and certificate."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from foltr.core.system.log import Event, Reloaded, Tell
from foltr.core.system.process import usage
from foltr.deployment.flower.session import Session
from foltr.deployment.flower.superlink import SuperLink, is_full
from foltr.deployment.keys.keys import ServerFiles, check_server, read_certificate
from foltr.deployment.metrics import counter, counters, gauge, gauges, process_metrics
from foltr.deployment.monitoring import Health, Monitor
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.board import Board

if TYPE_CHECKING:
    from prometheus_client import Metric

SILENT = 5.0  # seconds without a response after which the SuperLink counts as down
STEPS = 5  # exchanges in a round with a secure sum
# a round counts as hanging after FAR times its deadlines and MORE seconds
FAR, MORE = 2.0, 60.0


@dataclass
class ServerHealth:
    """The health checks and metrics of a running server."""

    board: Board
    state: Path
    longest: float  # seconds that a round may take
    certificate: Reloaded[Certificate] | None = None  # None without TLS
    link: SuperLink | None = None  # the one that this process has started
    session: Session | None = None

    def monitor(self) -> Monitor:
        """The content of /healthz and /metrics."""
        checks = {
            "superlink": self.superlink,
            "disk": self.disk,
            "round": self.round,
            "certificate": self.expired,
        }
        health = Health(checks, self.facts)
        return Monitor(health, lambda: [*families(self.board), *self.families()])

    def facts(self) -> dict[str, object]:
        seen = self.board.seen()
        there = sum(state == "connected" for state in seen["nodes"].values())
        doing = "waiting for nodes" if self.board.asking is None else "in a round"
        done, rounds = seen["round"], seen["rounds"]
        return {"doing": doing, "round": done, "rounds": rounds, "connected_nodes": there}

    def superlink(self) -> str | None:
        if self.link is not None and not self.link.alive:
            return "the SuperLink is down"
        since = None if self.session is None else self.session.failing
        if since is not None and time.monotonic() - since > SILENT:
            return "the SuperLink does not respond"
        return None

    def disk(self) -> str | None:
        return "the disk of the state folder is full" if is_full(self.state) else None

    def round(self) -> str | None:
        since = self.board.asking
        took = 0.0 if since is None else time.monotonic() - since
        if took <= self.longest:
            return None
        return f"a round has taken {took:.0f} s: it counts as hanging after {self.longest:.0f} s"

    def expired(self) -> str | None:
        pair = None if self.certificate is None else self.certificate.value
        if pair is None or datetime.now(UTC) <= pair.until:
            return None
        return f"the certificate expired on {pair.until:%Y-%m-%d}: foltr keys renew"

    def families(self) -> Iterator[Metric]:
        """Metrics beside those of the rounds."""
        if self.link is not None and self.link.process is not None:
            alive = float(self.link.alive)
            yield gauge("foltr_superlink_up", "1 while the SuperLink runs.", alive)
            if self.link.alive:
                used = usage(self.link.process.pid)
                yield from process_metrics(used, "foltr_superlink_process")
        if self.certificate is not None:
            until = self.certificate.value.until.timestamp()
            help = "When the server's certificate expires, since 1970."
            yield gauge("foltr_certificate_expiry_timestamp_seconds", help, until)


def longest_round(agreed: Agreement, deadline: float) -> float:
    """Seconds after which a round counts as hanging. A round may wait for nodes, for their HELLO,
    and for each exchange."""
    exchanges = 1 if agreed.channel is None else STEPS
    return FAR * deadline * (3 + exchanges) + MORE


@dataclass(frozen=True)
class Certificate:
    """The server's certificate, for which the key file is the right one."""

    until: datetime  # when the certificate expires
    warnings: tuple[str, ...] = ()


def watch_certificate(folder: Path, tell: Tell) -> Reloaded[Certificate]:
    """The server's certificate, which is read again when its files change. Raises a Mistake if it
    cannot be used."""
    files = ServerFiles(folder)

    def read() -> Certificate:
        warnings = check_server(folder)
        return Certificate(
            read_certificate(files.certificate).not_valid_after_utc, tuple(warnings)
        )

    return Reloaded((files.certificate, files.key), read, tell)


def log_new_certificate(pair: Reloaded[Certificate] | None, tell: Tell) -> None:
    """Log that the certificate was replaced, if it was. The SuperLink reads it by itself."""
    if pair is not None and pair.refresh():
        told = f"the certificate was replaced; it is valid until {pair.value.until:%Y-%m-%d}"
        tell(Event(f"{told}. New connections get it", "certificate"))
        for warning in pair.value.warnings:
            tell(Event(warning, "certificate", "warning"))


# The metrics of `foltr serve`, from the data of its status page.

STATES = ("connected", "away", "refused", "revoked")


def families(board: Board) -> Iterator[Metric]:
    """The metrics of a server. Counters continue when the server is started again."""
    seen = board.seen()
    totals, history = Counter(seen["totals"]), seen["history"]
    yield gauge("foltr_rounds_planned", "Rounds of training in total.", seen["rounds"])
    yield gauge("foltr_round", "The number of the last finished round, from 1.", seen["round"])
    for name, help, value in (
        ("rounds", "Finished rounds.", totals["rounds"]),
        ("rounds_withheld", "Rounds with too few answers to change the model.", totals["few"]),
        ("models_not_adopted", "Models that were worse on held-out data.", totals["not_adopted"]),
        ("clients_asked", "`asked` of the agreement, over all rounds.", totals["asked"]),
        ("clients_answered", "Clients whose answers were used.", totals["answered"]),
    ):
        yield counter(f"foltr_{name}_total", help, value)
    help = "Answers that were left out, by reason."
    yield counters("foltr_failures_total", help, "kind", seen["failures"])
    bytes = {"sent": totals["sent"], "received": totals["got"]}
    help = "Bytes of the messages to and from nodes, without their transport."
    yield counters("foltr_message_bytes_total", help, "direction", bytes)
    yield board.lasted.family("foltr_round_seconds", "Seconds that a round took.")
    help = "When the last round ended, or else the server started, since 1970."
    yield gauge("foltr_last_round_timestamp_seconds", help, board.changed)
    yield gauges("foltr_nodes", "Nodes of the roster, by state.", "state", nodes(seen))
    measured = [about for about in history if isinstance(about.get("ndcg"), float)]
    if measured:
        last = measured[-1]
        help = "nDCG@10 of the last new model on held-out queries."
        yield gauge("foltr_heldout_ndcg", help, last["ndcg"])
        yield gauge("foltr_heldout_ndcg_best", "The best one so far.", last["best"])
    help = "What a client that answered in all rounds that it may has spent, rounded up."
    spent = {who: epsilon(text) for who, text in seen["epsilon"].items()}
    yield gauges("foltr_epsilon_spent", help, "adversary", spent)


def nodes(seen: dict[str, dict[str, str]]) -> dict[str, float]:
    """How many nodes are in each state. `refused: why` counts as refused."""
    found = Counter(state.partition(":")[0] for state in seen["nodes"].values())
    return {state: float(found[state]) for state in STATES}


def epsilon(text: str) -> float:
    """The number of an epsilon on the status page."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.inf  # "no limit"
