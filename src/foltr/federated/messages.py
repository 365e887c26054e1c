"""What travels: one frame of bytes in one record of a Flower message."""

from foltr.errors import Mistake
from foltr.federated import INSTALL

try:
    from flwr.app import ConfigRecord, MessageType, RecordDict
except ImportError as error:
    raise Mistake(f"Flower is not installed ({error}): {INSTALL}") from error

RECORD, FIELD = "foltr", "frame"
TYPE = MessageType.QUERY  # of every message

# Codes of error answers. Flower's own are 0 to 8, of which it makes three by itself: nobody took
# the ask in time, no answer came in time, and the node is away.
FAILED = 2  # answering raised an exception
EXPIRED, UNANSWERED, AWAY = 3, 4, 5
REFUSED = 1001  # the ask is no frame of ours, or it is too large


class NewSession(Exception):
    """The run was lost and another one is open: messages of the old one get no answers. Push them
    again; ids of nodes may be others."""


class LinkDown(Mistake):
    """The SuperLink did not answer for as long as the session waits."""


class NoAnswer(Exception):
    """Raised by what answers asks: the server gets this code and text. Other exceptions reach the
    server by their class name only."""

    def __init__(self, reason: str, code: int = REFUSED) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


def packed(frame: bytes) -> RecordDict:
    """A frame as the content of a message."""
    return RecordDict({RECORD: ConfigRecord({FIELD: bytes(frame)})})


def unpacked(content: RecordDict) -> bytes:
    """The frame in the content of a message; ValueError for anything else."""
    if list(content) != [RECORD]:
        raise ValueError(f"expected one record {RECORD!r}, got {sorted(content)[:5]}")
    record = content[RECORD]
    if not isinstance(record, ConfigRecord):
        raise ValueError(f"expected a ConfigRecord, got {type(record).__name__}")
    if list(record) != [FIELD]:
        raise ValueError(f"expected one field {FIELD!r}, got {sorted(record)[:5]}")
    frame = record[FIELD]
    if not isinstance(frame, bytes):
        raise ValueError(f"expected bytes, got {type(frame).__name__}")
    return frame
