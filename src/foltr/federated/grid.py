"""A Flower Grid whose nodes are in this process. It runs all messages of a federation without a
network, in tests and in `InProcess` runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid

from foltr.federated.messages import FAILED, packed, unpacked

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
