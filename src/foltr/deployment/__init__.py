"""A federation between machines: the server, its nodes and gateways, their protocol and keys, and
Flower, which carries the messages. `protocol` knows nothing of Flower, `flower` nothing of rounds.

Importing this package disables Flower's telemetry and update check, before Flower is imported."""

import os
from importlib.util import find_spec
from pathlib import Path

from foltr.core.errors import Mistake
from foltr.core.system.files import cache_folder

INSTALL = "pip install 'foltr[deploy]'"


def quiet(home: Path) -> None:
    """Make Flower contact no outside host, and keep its files in the folder `home`."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    os.environ["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    os.environ["FLWR_HOME"] = str(home)


quiet(Path(os.environ.get("FLWR_HOME") or cache_folder("flower")))


def required(*more: str) -> None:
    """Raise a Mistake if a package of the extra `deploy` is not installed; `more` are packages
    that only some commands need."""
    needed = "flwr", "cryptography", "uvicorn", *more
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise Mistake(f"a federation between machines needs {', '.join(missing)}: {INSTALL}")
