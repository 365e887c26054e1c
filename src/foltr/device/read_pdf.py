"""Reads PDF in a process of its own.

A PDF is a program, and some of them never end, or take all memory. The process that reads them
is ended after `SECONDS`, and may use at most `MOST_MEMORY`. It gets the name and the size of a
file as a line of JSON, then its content, and returns the text as a line of JSON. It is started for
the first file, and reads others until `stop`."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from foltr.device.content import MOST_CHARACTERS, Text, Unread, document, one_line, parsing

if TYPE_CHECKING:
    from pypdf import PdfReader

SECONDS = 30.0  # for one file
MOST_MEMORY = 1 << 30  # bytes of addresses, where the system can limit them

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
            answer = json.loads(_answer_of(process, data, name))
        except (OSError, ValueError):  # it has been ended, or it has crashed
            _end()
            raise Unread("takes too long" if late.is_set() else "damaged") from None
        except BaseException:  # Ctrl-C: its answer would be taken for that of the next file
            _end()
            raise
        finally:
            timer.cancel()
    if "unread" in answer:
        raise Unread(answer["unread"])
    return Text(**answer)


def _answer_of(process: subprocess.Popen[bytes], data: bytes, name: str) -> bytes:
    """The answer to a file; empty if the process ends before."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([name, len(data)]).encode() + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    return process.stdout.readline()


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
        _process.kill()
        _process.communicate()
        _process = None


def main() -> None:
    """Read files, in the process that reads."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):  # Windows; a system without this limit
        pass
    # whoever started this process may be gone
    end_after = vars(signal).get("alarm", lambda seconds: None)  # Windows has none
    for line in sys.stdin.buffer:
        name, size = json.loads(line)
        data = sys.stdin.buffer.read(size)
        end_after(int(SECONDS) + 5)
        try:
            with parsing():
                answer = asdict(read_pdf(data, name))
        except Unread as unread:
            answer = {"unread": unread.reason}
        text = json.dumps(answer)
        end_after(0)
        print(text, flush=True)


# Reads PDF with pypdf.

# pypdf reports every fault of a file to its log, which Python prints if nothing handles it
SILENT = logging.NullHandler()
HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")  # in a word that a line end divides
MOST_PAGES = 1000
MOST_UNPACKED = 16 * 2**20  # bytes of one stream
MOST_OPERATIONS = 500_000  # of one page
MOST_OUTLINE = 1000  # headings
DEEPEST = 10  # headings in headings
MOST_FIRST = 2000  # characters in which the first line is
LIMITS: dict[str, Any] = {  # of pypdf's configuration, which has others as well
    "zlib_maximum_output_length": MOST_UNPACKED,
    "lzw_maximum_output_length": MOST_UNPACKED,
    "run_length_maximum_output_length": MOST_UNPACKED,
    "array_based_stream_maximum_output_length": MOST_UNPACKED,
    "stream_decoding_work_maximum_length": 4 * MOST_UNPACKED,
    "stream_parsing_work_maximum_count": MOST_OPERATIONS,
    "outline_maximum_entries": MOST_OUTLINE,
    "outline_maximum_depth": DEEPEST,
    "jbig2dec_binary": None,  # a program that unpacks images
}


def read_pdf(data: bytes, name: str) -> Text:
    """The document of a PDF file."""
    try:
        from pypdf import PdfReader, apply_configuration
        from pypdf.errors import DependencyError
    except ImportError:
        raise Unread("no reader") from None
    logging.getLogger("pypdf").addHandler(SILENT)
    with apply_configuration(**LIMITS):
        try:
            reader = PdfReader(BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):  # many have an empty password
                raise Unread("encrypted")
        except DependencyError:  # packages for other ciphers are not required
            raise Unread("encrypted") from None
        return _document(reader, name)


def _document(reader: PdfReader, name: str) -> Text:
    pages, size, count = [], 0, len(reader.pages)
    for number in range(min(count, MOST_PAGES)):
        pages.append(_kept(partial(_page, reader, number)))
        size += len(pages[-1]) + 1
        if size > MOST_CHARACTERS:
            break
    body = HYPHEN.sub("", "\n".join(pages))
    if not body.strip():
        raise Unread("empty")  # as of scanned pages, which are images
    first = next(filter(None, map(one_line, body[:MOST_FIRST].splitlines())), "")
    title = one_line(_kept(partial(_title, reader))) or first
    headings = _kept(partial(_outline, reader)).splitlines()
    return document("pdf", name, title, headings, body, cut=len(pages) < count)


def _kept(read: Callable[[], str]) -> str:
    """What is read, or nothing if it cannot be; the rest of the file may be whole."""
    try:
        with parsing():
            return read()
    except Unread:
        return ""


def _page(reader: PdfReader, number: int) -> str:
    return reader.pages[number].extract_text()


def _title(reader: PdfReader) -> str:
    told = reader.metadata
    return str(told.get("/Title") or "").removeprefix("Microsoft Word - ") if told else ""


def _outline(reader: PdfReader) -> str:
    """The headings of the outline, which has a list after a heading with the headings below it."""
    waiting: list[Any] = reader.outline[::-1]
    found = []
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, list):
            waiting.extend(entry[::-1])
        else:
            found.append(one_line(str(entry.title or "")))
    return "\n".join(found)


if __name__ == "__main__":
    main()
