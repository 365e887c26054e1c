"""The content of foltr's Flower messages: one record with one frame as bytes."""

from foltr.core.errors import Mistake
from foltr.deployment import INSTALL

try:
    from flwr.app import ConfigRecord, MessageType, RecordDict
except ImportError as error:
    raise Mistake(f"Flower is not installed ({error}): {INSTALL}") from error

RECORD, FIELD = "foltr", "frame"
TYPE = MessageType.QUERY  # of every message

# Codes of error replies. Flower's own codes are 0 to 8.
FAILED = 2  # the node's code raised an exception
# The SuperLink itself sends three codes: the node did not fetch the ask in time, it did not answer
# in time, or it is not connected.
EXPIRED, UNANSWERED, AWAY = 3, 4, 5
REFUSED = 1001  # the ask is not a foltr frame, or it is too large


class NewSession(Exception):
    """The run on the SuperLink was lost, and a new one is open. Messages of the old run get no
    answers: push them again. Node ids may have changed."""


class LinkDown(Mistake):
    """The SuperLink did not respond within the session's timeout."""


class NoAnswer(Exception):
    """Raised by a node's `answer` function to refuse an ask. The server gets this code and text.
    Of other exceptions, the server gets only the class name."""

    def __init__(self, reason: str, code: int = REFUSED) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


def packed(frame: bytes) -> RecordDict:
    """A frame as the content of a message."""
    return RecordDict({RECORD: ConfigRecord({FIELD: bytes(frame)})})


def unpacked(content: RecordDict) -> bytes:
    """The frame in the content of a message. Raises ValueError for any other content."""
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
