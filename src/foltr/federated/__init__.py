"""A federation between machines: what is sent (`frames`), what a device does with it (`device`),
who takes part (`roster`), what all agree on (`agreement`), and Flower, which carries the messages
between a SuperLink, the server's session on it and resident nodes.

Flower is told to keep quiet before anything of it is imported."""

import os
from importlib.util import find_spec
from pathlib import Path

from foltr.errors import Mistake
from foltr.system.paths import cache_folder

INSTALL = "pip install 'foltr[deploy]'"


def quiet(home: Path) -> None:
    """Flower asks no outside host and keeps its files in a folder of ours."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    os.environ["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    os.environ["FLWR_HOME"] = str(home)


quiet(Path(os.environ.get("FLWR_HOME") or cache_folder("flower")))


def required() -> None:
    """Raises a Mistake without the extra `deploy`."""
    missing = [name for name in ("flwr", "cryptography", "uvicorn") if find_spec(name) is None]
    if missing:
        raise Mistake(f"a federation between machines needs {', '.join(missing)}: {INSTALL}")
