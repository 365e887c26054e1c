"""`foltr check`: whether the process of a settings file runs and is healthy."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, require
from foltr.serving import alive
from foltr.serving.monitoring import ask_health
from foltr.system.files import content_of

# defaults of `status` in the two tables
STATUS = {"server": "127.0.0.1:8444", "gateway": "127.0.0.1:8446"}
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def check_process(file: Path) -> tuple[bool, str]:
    """Whether the process of a settings file is healthy, and a line of text about it. No code that
    the file names is loaded."""
    content = _content(file)
    for name, usual in STATUS.items():
        if isinstance(table := content.get(name), dict):
            able, told = ask_health(page_address(table.get("status", usual), file))
            return able, f"{name}: {told}"
    if isinstance(table := content.get("node"), dict):
        state = table.get("state")
        if not isinstance(state, str):
            raise Mistake(f"{file}: [node] needs state: add to the table")
        able, told = alive.node_status(file.parent / state)
        return able, f"node: {told}"
    tables = "[server], [gateway] or [node]"
    raise Mistake(f"{file} has no table {tables}: give the settings file of a process")


def page_address(status: object, file: Path) -> str:
    """The address of a page that listens on HOST:PORT of this machine."""
    way_out = 'set status = "HOST:PORT"'
    require(status != "none", f"{file}: the process has no status page to ask: {way_out}")
    host, colon, port = str(status).rpartition(":")
    fits = isinstance(status, str) and bool(colon and host) and port.isdigit()
    require(fits, f"{file}: status = {status!r} is no address: {way_out}")
    return f"http://{EVERYWHERE.get(host, host)}:{port}/"


def _content(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content_of(file).decode("utf-8-sig"))
    except OSError as error:
        raise Mistake(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{file} is not TOML: {error}") from None
