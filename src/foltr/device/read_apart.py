"""Reads PDF in a process of its own.

A PDF is a program, and some of them never end, or take all memory. The process that reads them
is ended after `SECONDS`, and may use at most `MOST_MEMORY`. It gets the content of a file, and
returns its text as JSON. It is started for the first file, and reads others until `stop`."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from foltr.device.content import Unread, parsing
from foltr.device.text import Text

SECONDS = 30.0  # for one file
MOST_MEMORY = 1 << 30  # bytes of addresses, where the system can limit them
SIZE = struct.Struct("<Q")  # before each part of a message

_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None


def read_apart(data: bytes, name: str) -> Text:
    """The document of a PDF file."""
    with _lock:
        process = _started()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(SECONDS, end)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            _write(process.stdin, name.encode("utf-8", "replace"), data)
            (answer,) = _read(process.stdout, 1)
        except (OSError, EOFError):  # it has been ended, or it has crashed
            _end()
            raise Unread("takes too long" if late.is_set() else "damaged") from None
        except BaseException:  # Ctrl-C: its answer would be taken for that of the next file
            process.kill()
            _end()
            raise
        finally:
            timer.cancel()
    found = json.loads(answer)
    if "unread" in found:
        raise Unread(found["unread"])
    return Text(**found)


def stop() -> None:
    """End the process that reads, if there is one."""
    with _lock:
        _end()


def _started() -> subprocess.Popen[bytes]:
    global _process
    if _process is None or _process.poll() is not None:
        _process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process
        )
    return _process


def _end() -> None:
    global _process
    if _process is not None:
        for pipe in (_process.stdin, _process.stdout):
            with suppress(OSError):  # what was not written yet cannot be
                assert pipe is not None
                pipe.close()
        _process.wait()
        _process = None


def _write(pipe: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        pipe.write(SIZE.pack(len(part)))
        pipe.write(part)
    pipe.flush()


def _read(pipe: IO[bytes], count: int) -> list[bytes]:
    """So many parts of a message. Raises EOFError if there are fewer."""
    return [_exactly(pipe, *SIZE.unpack(_exactly(pipe, SIZE.size))) for _ in range(count)]


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    found = pipe.read(size)
    if len(found) < size:
        raise EOFError
    return found


# --- in the process that reads ---


def _answer(data: bytes, name: str) -> dict[str, Any]:
    from foltr.device.read_pdf import read_pdf

    try:
        with parsing():
            return asdict(read_pdf(data, name))
    except Unread as unread:
        return {"unread": unread.reason}


def _end_after(seconds: int) -> None:
    """End this process after so long; 0 takes it back."""
    try:
        from signal import alarm
    except ImportError:  # Windows
        return
    alarm(seconds)


def main() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):  # Windows; a system without this limit
        pass
    with suppress(EOFError):
        while True:
            name, data = _read(sys.stdin.buffer, 2)
            _end_after(int(SECONDS) + 5)  # whoever started this process may be gone
            answer = json.dumps(_answer(data, name.decode()))
            _end_after(0)
            _write(sys.stdout.buffer, answer.encode())


if __name__ == "__main__":
    main()
