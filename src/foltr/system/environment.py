"""The environment of a run: stored beside its results, not part of its identity."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import foltr


@cache
def environment() -> dict[str, object]:
    return {
        "foltr": foltr.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "scipy", "numba")},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "command": sys.argv,
    }


def _commit() -> str | None:
    """The commit of foltr's source tree, with + if it has changes; None if foltr was installed as
    a package."""
    tree = Path(__file__).resolve().parents[3]
    if not (tree / ".git").exists():
        return None
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, timeout=5
        )
        status = subprocess.run(
            ["git", "--no-optional-locks", "status", "--porcelain"],  # which writes nothing
            cwd=tree, capture_output=True, text=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (
        head.stdout.strip() + ("+" if status.stdout.strip() else "")
        if head.returncode == 0
        else None
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
