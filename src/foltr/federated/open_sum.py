"""The state of a secure sum on a node, and how it is handed to the node's next process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from foltr.core import Array
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.terms import Terms

Known = Callable[[Array], Mapping[int, bytes]]  # clients -> the public keys that sign for them


@dataclass
class OpenSum:
    """The clients of one node in an unfinished sum.

    The result of `to_bytes` contains their secrets. Keep it in memory only, delete it when the
    round ends, and use it once: see `SumClient.from_state`."""

    round: int
    terms: bytes
    everybody: Array  # ids of all clients that are asked, ascending; the position is the seat
    clients: dict[int, SumClient] = field(default_factory=dict)
    words: dict[int, Array] = field(default_factory=dict)
    # (client, step) -> hash of what was asked, and the answer, for asks that are repeated
    answers: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)

    def known_by_seat(self, known: Known | None) -> dict[int, bytes]:
        """Seat -> the public key that verifies its signatures."""
        found = {} if known is None else known(self.everybody)
        seats = {int(id): seat for seat, id in enumerate(self.everybody)}
        return {seats[id]: key for id, key in found.items() if id in seats}

    @property
    def over(self) -> bool:
        """Whether every client has made its last step."""
        return all(client.over for client in self.clients.values())

    def to_bytes(self) -> bytes:
        content = {
            "round": self.round,
            "terms": self.terms.hex(),
            "everybody": self.everybody.tolist(),
            "clients": {id: client.to_state() for id, client in self.clients.items()},
            "words": {id: words.astype("<u8").tobytes().hex() for id, words in self.words.items()},
            "answers": [
                [id, int(step), name.hex(), answer.hex()]
                for (id, step), (name, answer) in self.answers.items()
            ],
        }
        return json.dumps(content).encode()

    @classmethod
    def from_bytes(cls, text: bytes, key: bytes | None, known: Known | None) -> Self:
        """Restore a sum that another process of this node has begun."""
        content = json.loads(text)
        named = bytes.fromhex(content["terms"])
        now = cls(content["round"], named, np.array(content["everybody"], np.int64))
        terms, by_seat = Terms.from_bytes(named), now.known_by_seat(known)
        for id, state in content["clients"].items():
            now.clients[int(id)] = SumClient.from_state(terms, state, key, by_seat)
        for id, words in content["words"].items():
            now.words[int(id)] = np.frombuffer(bytes.fromhex(words), "<u8").astype(np.uint64)
        for id, step, name, answer in content["answers"]:
            now.answers[id, step] = bytes.fromhex(name), bytes.fromhex(answer)
        return now
