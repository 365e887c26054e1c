"""Frames as contents of Flower's messages: one record with one field of bytes, because every
record and every array would be a request of its own."""

from __future__ import annotations

from flwr.app import ConfigRecord, RecordDict

RECORD, FIELD = "foltr", "frame"


def packed(frame: bytes) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord({FIELD: frame})})


def unpacked(content: RecordDict) -> bytes:
    """The frame in a message; raises ValueError for any other content."""
    record = content.get(RECORD) if set(content) == {RECORD} else None
    frame = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    if not isinstance(frame, bytes) or record is None or set(record) != {FIELD}:
        raise ValueError("the message holds no frame of foltr")
    return frame
