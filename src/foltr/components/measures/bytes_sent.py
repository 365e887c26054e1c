"""How much clients send."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core.spec import measure
from foltr.core.world.measures import OnlineMeasure, Round


@measure
@dataclass(frozen=True)
class BytesSent(OnlineMeasure):
    """Return the bytes of all messages that clients send to the server in a round.

        clients x numbers of a message x 4

    Only the numbers of the messages are counted: a transport and a secure sum add to them
    (`foltr plan` counts those)."""

    higher_is_better = False
    curve = "summed"

    @property
    def name(self) -> str:
        return "bytes_sent"

    @property
    def label(self) -> str:
        return "bytes sent to the server"

    def of_round(self, round: Round) -> float:
        return float(round.sent.updates.nbytes)
