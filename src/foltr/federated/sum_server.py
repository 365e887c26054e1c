"""The server's side of a secure sum between machines: it gives each client a seat in the sum, and
checks that a node sends messages only for its own clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from foltr.core import Array
from foltr.secure_sum.messages import HEADER, Refused
from foltr.secure_sum.messages import Kind as Step
from foltr.secure_sum.server import SumServer
from foltr.secure_sum.terms import Terms

SENDER = 5  # field of a message's header


class SumRound:
    """One sum. `clients` (n,) are all clients that are asked, ascending; the position is the
    seat."""

    def __init__(
        self,
        terms: Terms,
        clients: Array,
        known: Mapping[int, bytes],
        fail: Callable[[int, str, str], None],
    ) -> None:
        self.ids = clients.tolist()
        self.seats = {id: seat for seat, id in enumerate(self.ids)}
        by_seat = {self.seats[id]: key for id, key in known.items() if id in self.seats}
        self._server, self._fail = SumServer(terms, by_seat), fail

    def take(self, node: int, messages: Mapping[int, bytes]) -> None:
        """Take the messages that a node sent for its clients."""
        for id, message in messages.items():
            try:
                if len(message) < HEADER.size:
                    raise Refused(f"a message of {len(message)} bytes is too short")
                if HEADER.unpack_from(message)[SENDER] != self.seats[id]:
                    raise Refused("the message names another client as its sender")
                self._server.take(message)
            except Refused as error:
                self._fail(node, "sum", f"client {id}: {self._with_ids(str(error))}")

    def _with_ids(self, text: str) -> str:
        """A text of the sum's server, which numbers clients by their seats, with their ids."""
        return re.sub(r"\bclient (\d+)", lambda found: f"client {self.ids[int(found[1])]}", text)

    def close(self) -> tuple[Step | None, dict[int, bytes]]:
        """End a step. Returns the next step, and the message for each remaining client. Raises
        Withheld if too few clients remain."""
        post = self._server.close()
        return self._server.due, {self.ids[seat]: message for seat, message in post.items()}

    @property
    def survivors(self) -> frozenset[int]:
        return self._server.survivors

    def total(self) -> Array:
        return self._server.total()
