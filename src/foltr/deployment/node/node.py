"""`foltr node`: the process of a node."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foltr.core.errors import require
from foltr.core.system.lock import only_one
from foltr.core.system.log import Event
from foltr.core.system.state_file import Unusable
from foltr.deployment.flower.node import Asked, Node
from foltr.deployment.flower.superlink import LOOPBACK
from foltr.deployment.guarantee import whole_budget
from foltr.deployment.keys.keys import SIGN_KEY, check_dates, read_sign_key
from foltr.deployment.monitoring import Heartbeat
from foltr.deployment.node.clients import keys_known, learning, participant_with, records_in
from foltr.deployment.node.connections import Connections
from foltr.deployment.protocol.participant import FORGOTTEN, Participant
from foltr.deployment.settings import address_of, beside, read_node
from foltr.experiment.user_files import Code
from foltr.simulation.runs.interruptions import on_signals

if TYPE_CHECKING:
    from foltr.deployment.gateway.enrolment import Enrolment
    from foltr.deployment.protocol.records import Records

FAREWELL = 2.0  # seconds until the node stops, in which its last answer is sent


def run_node(
    file: Path,
    code: Code,
    insecure: bool = False,
    forget: bool = False,
    tell: Callable[[str], None] = print,
    changed: Callable[[Participant], Callable[[bytes], bytes]] = lambda participant: (
        participant.answer
    ),
) -> None:
    """Run a node until it is stopped or, with `forget`, until the server has unlearned it.
    `changed` replaces the answer function of the participant: for malicious nodes in
    demonstrations."""
    agreed, table = read_node(file, code)
    needs = "the folder that `foltr keys node NAME` makes"
    require(table.keys is not None, f"{file}: [node] needs keys, {needs}")
    keys = beside(file, table.keys or "")
    ca = None if table.ca is None else beside(file, table.ca)
    signed = f"{file}: [node] needs ca, the file ca.pem of the server's keys"
    require(insecure or ca is not None, f"{signed} (or give --insecure for a test)")
    if insecure:
        host, _ = address_of(table.server)
        way_out = f"{host} is another one; leave --insecure out, and set ca"
        require(host in LOOPBACK, f"--insecure is for a server on this machine: {way_out}")
    elif ca is not None:
        for warning in check_dates(ca, way_out="ask the server's operator for the new ca.pem"):
            tell(warning)
    state, stop = beside(file, table.state), threading.Event()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with only_one(state, "node"), on_signals(lambda signum, frame: stop.set()):
        known = keys_known(agreed, table, file, tell)
        records = records_in(state, agreed, with_log=table.clicks is not None)
        engine_for = learning(agreed, table, file, records)
        own = read_sign_key(keys / SIGN_KEY)

        def stop_soon() -> None:
            threading.Timer(FAREWELL, stop.set).start()

        participant = participant_with(
            agreed, table, records, engine_for, tell, own, known, stop_soon
        )
        if forget:
            participant.forget_me()
            tell("asking to be forgotten: this node stops when the server has unlearned it")
        told = f"federation {agreed.id.hex()[:12]}: {table.clients} clients, server {table.server}"
        tell(Event(told, "started", federation=agreed.id.hex(), clients=table.clients))
        tell(f"a client that answers in all {agreed.rounds:,} agreed rounds spends at most:")
        for line in whole_budget(agreed):
            tell(line)
        answering = Answering(participant, changed(participant))

        def looked(node: Node) -> None:
            beat(node.connected, server=table.server, round=answering.last_round)

        beat = Heartbeat(state)
        try:
            connections = Connections(
                keys,
                table.server,
                answering,
                roots=None if insecure else ca,
                insecure=insecure,
                home=home_of(records),
                tell=tell,
            )
            connections.serve(stop, looked)
        finally:
            beat.delete()
        left = records.about(FORGOTTEN) is not None
        told = "forgotten: this node has left" if left else "stopped: the same command continues"
        tell(Event(told, "stopped"))


@dataclass
class Answering:
    """How a participant answers on the connections of its node."""

    participant: Participant
    answer: Callable[[bytes], bytes]
    last_round: int | None = None  # the last one in which a client answered

    def __post_init__(self) -> None:
        self.last_round = self.participant.records.last_round()

    def __call__(self, ask: Asked, sign_key: bytes) -> bytes:
        if self.participant.sums is not None:
            self.participant.sums.key = sign_key
        answer = self.answer(ask.frame)
        with suppress(Unusable):  # a full disk
            self.last_round = self.participant.records.last_round()
        return answer


def home_of(records: Records | Enrolment) -> str:
    """The token by which the SuperLink recognises this state folder (`flower/doors.py`)."""
    kept = records.about("home")
    if kept is None:
        kept = secrets.token_hex(16).encode()
        records.set_about("home", kept)
    return kept.decode()
