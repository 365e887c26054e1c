"""TensorBoard: an event file in the run's own folder, so that `tensorboard --logdir runs` shows
all runs by their names."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foltr.simulation.runs.sinks.sink import FINAL, About, Row

PATTERN = "events.out.tfevents.*.foltr"
LENGTH, SUM = 8, 4  # bytes before and after a record's length and its content


class TensorBoardSink:
    """Each process that works on a run writes a file of its own. It begins with the last round of
    the files before, and tells readers to forget what they have of that round."""

    def __init__(self, about: About) -> None:
        from tensorboardX.record_writer import RecordWriter

        self.first, self.complete = _written(about.folder)
        self._writer: Any = None
        if self.complete:
            return
        taken = [int(file.name.split(".")[3]) for file in about.folder.glob(PATTERN)]
        number = max([int(time.time()), *(each + 1 for each in taken)])
        name = PATTERN.replace("*", f"{number:010d}")
        self._writer = RecordWriter(str(about.folder / name))
        self._event(file_version="brain.Event:2")
        if self.first:
            from tensorboardX.proto.event_pb2 import SessionLog

            self._event(session_log=SessionLog(status=SessionLog.START), step=self.first)
        else:
            from tensorboardX.summary import text

            code = "\n".join(f"    {line}" for line in about.toml.splitlines())
            self._event(summary=text("config", code), step=0)
        self._writer.flush()

    def write(self, rows: list[Row]) -> None:
        for t, values in rows:
            self._scalars(t, values)
        self._writer.flush()

    def finish(self, rounds: int, final: dict[str, float]) -> None:
        self._scalars(rounds, final)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _scalars(self, t: int, values: dict[str, float]) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        parts = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._event(summary=Summary(value=parts), step=t)

    def _event(self, **fields: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())


def _written(folder: Path) -> tuple[int, bool]:
    """The last round in the files of a folder, and whether they hold a finished run."""
    from tensorboardX.proto.event_pb2 import Event

    last, complete = 0, False
    for file in sorted(folder.glob(PATTERN)):
        for record in _records(file.read_bytes()):
            event = Event.FromString(record)
            last = max(last, event.step)
            complete = complete or any(v.tag.startswith(FINAL) for v in event.summary.value)
    return last, complete


def _records(content: bytes) -> Iterator[bytes]:
    """The records of an event file. The last one may be cut off, where a process was killed."""
    at = 0
    while at + LENGTH + SUM <= len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        at += LENGTH + SUM
        if at + size + SUM > len(content):
            return
        yield content[at : at + size]
        at += size + SUM
