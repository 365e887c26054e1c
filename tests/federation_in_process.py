"""A federation inside this process: `Experiment.run(engine=InProcess(nodes=3))`, for tests.

It uses the same frames, devices and checks as a federation between machines, and Flower's
interface, but no network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid

from foltr.core import Answers, Array, Ask, Engine
from foltr.core.errors import Mistake, require
from foltr.core.scoring import numbered
from foltr.core.system.process import Threads
from foltr.core.world.population import Population
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.messages import FAILED, packed, unpacked
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import Simulated
from foltr.simulation.runs.unlearn import with_sessions


def agreement_of(
    e: Experiment, features: tuple[str, ...], noise: Literal["system", "address"] = "system"
) -> Agreement:
    """The agreement of a federation between machines that runs this experiment."""
    return Agreement(
        ranker=e.ranker,
        learner=e.learner,
        features=features,
        asked=e.cohort,
        fewest=1 if e.channel is None else e.channel.fewest(e.cohort),
        sessions=e.sessions,
        rounds=e.rounds,
        privacy=e.privacy,
        channel=e.channel,
        history=e.history,
        noise=noise,
    )


@dataclass(frozen=True)
class InProcess:
    """Makes an engine whose clients belong to nodes in this process.

    Fields
        nodes: number of nodes; the clients are divided among them in order
        noise: 'address' draws the noise of a simulation, so that results are equal bit for bit;
            'system' draws from the operating system, like a federation between machines
        state: folder of the nodes' records; None keeps them in memory, so that an interrupted run
            cannot be continued
        checkpoint_seconds: time between two checkpoints of the run; 0 for one after each round"""

    nodes: int = 3
    noise: Literal["address", "system"] = "address"
    state: Path | None = None
    checkpoint_seconds: float | None = 0.0
    name = "in-process"

    def __post_init__(self) -> None:
        require(self.nodes >= 1, f"nodes must be >= 1, got {self.nodes}")

    def __call__(
        self, e: Experiment, p: Population, params: Array, threads: Threads, seed: int
    ) -> Engine:
        rule = type(e.aggregator).__name__
        own = f"{rule} needs a client of the server's own, which an in-process federation lacks"
        require(not e.aggregator.trusted_queries, f"{own}: choose another aggregator")
        lost = f"dropout = {e.dropout} cannot be combined with a channel here: leave dropout out"
        require(e.channel is None or not e.dropout, lost)
        agreed = agreement_of(e, numbered(p.data.width), noise=self.noise)
        edges = np.linspace(0, e.clients, min(self.nodes, e.clients) + 1).astype(int).tolist()
        ranges = [range(a, b) for a, b in pairwise(edges)]
        make = Simulated("local", noise=self.noise)

        def engine_for(sessions: int) -> Engine:
            given = p if not sessions else with_sessions(p, e.learner.sessions, sessions)
            return make(e, given, params, threads, seed)

        devices, public_keys = dict[int, Participant](), dict[int, bytes]()
        members = Members(dict(enumerate(ranges, start=2)), public_keys)
        if self.state is not None:
            self.state.mkdir(parents=True, exist_ok=True)
        for node, clients in members.nodes.items():
            where = None if self.state is None else self.state / f"node-{node}.db"
            device = Participant(agreed, clients, engine_for, Records(where, agreed.id), offset=0)
            if agreed.protocol is not None:
                from foltr.deployment.protocol.sums import SumParticipant  # needs cryptography
                from foltr.secure_sum.keys import node_key

                device.sums = SumParticipant(agreed.protocol, agreed.fewest)
                if agreed.protocol.consistency:
                    device.sums.key, public = node_key()
                    device.sums.known = members.known
                    public_keys |= dict.fromkeys(clients, public)
            devices[node] = device
        grid = InProcessGrid({node: device.answer for node, device in devices.items()})
        return _InProcess(
            grid,
            agreed,
            members,
            patience=0.0,
            message=grid.create_message,
            resumable=self.state is not None,
        )


@dataclass
class _InProcess(Flower):
    resumable: bool = False

    def collect(self, ask: Ask, clients: Array) -> Answers:
        if ask.t > 0 and not self.resumable:
            lost = "its devices kept nothing on disk"
            way_out = "give InProcess(state=...), or delete the run to start again"
            begun = f"an in-process federation cannot continue in round {ask.t}"
            raise Mistake(f"{begun}, because {lost}: {way_out}")
        self.resumable = True
        return super().collect(ask, clients)


# A Flower Grid whose nodes are in this process. It runs all messages of a federation without a
# network, in tests and in `InProcess` runs.

SERVER, DAY = 1, 86_400.0  # the server's node id, seconds


class InProcessGrid(Grid):
    """A Grid that answers every message as soon as it is pushed."""

    def __init__(self, nodes: Mapping[int, Callable[[bytes], bytes]]) -> None:
        self.nodes = dict(nodes)  # node id -> function from an ask to the answer
        self._replies: dict[str, Message] = {}
        self._pushed = 0
        self._run: Any = None

    def set_run(self, run: Any) -> None:
        self._run = run

    @property
    def run(self) -> Any:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        self._pushed += 1
        about = Metadata(
            run_id=1,
            message_id=f"message {self._pushed}",
            src_node_id=SERVER,
            dst_node_id=dst_node_id,
            reply_to_message_id="",
            group_id=group_id,
            created_at=time.time(),
            ttl=DAY if ttl is None else ttl,
            message_type=message_type,
        )
        return Message(content, metadata=about)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(message.metadata.message_id)
            if message.metadata.dst_node_id in self.nodes:  # other messages get no answer
                self._replies[ids[-1]] = self._reply(message)
        return ids

    def _reply(self, message: Message) -> Message:
        answer = self.nodes[message.metadata.dst_node_id]
        try:
            return Message(packed(answer(unpacked(message.content))), reply_to=message)
        except Exception as error:  # noqa: BLE001  # as Flower does with a client app that raises
            return Message(Error(FAILED, type(error).__name__), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = [id for id in message_ids if id in self._replies]
        return [self._replies.pop(id) for id in wanted]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(list(self.push_messages(messages)))
