"""A plugin of pytest, for `mutants.py`: which lines of one file each test reaches, and the
seconds that it takes. FOLTR_TESTS_REACHED names the file and the JSON file to write."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

TRACED, WRITTEN = os.environ["FOLTR_TESTS_REACHED"].split(os.pathsep)
tests: dict[str, dict[str, Any]] = {}
lines: set[int] = set()  # that the present test has reached


def trace_calls(frame: FrameType, event: str, argument: object) -> Any:
    if frame.f_code.co_filename != TRACED:
        return None
    lines.add(frame.f_lineno)
    return trace_lines


def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
    lines.add(frame.f_lineno)
    return trace_lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    lines.clear()
    began = time.monotonic()
    threading.settrace(trace_calls)
    sys.settrace(trace_calls)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = time.monotonic() - began
        tests[item.nodeid] = {"lines": sorted(lines), "seconds": seconds}


def pytest_sessionfinish() -> None:
    Path(WRITTEN).write_text(json.dumps(tests))
