"""Where things are kept on this machine: data sets and caches. Each has an environment variable
that moves it."""

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def data_folders() -> list[Path]:
    """Where data sets are sought, in this order: FOLTR_DATA (may be unset), then the user's data
    folder."""
    named = [Path(part) for part in os.environ.get("FOLTR_DATA", "").split(os.pathsep) if part]
    return [*named, user_data_path("foltr") / "data"]


def cache_folder(kind: str) -> Path:
    """Where what can be made again is kept: below FOLTR_CACHE, or the user's cache folder."""
    root = os.environ.get("FOLTR_CACHE")
    return (Path(root) if root else user_cache_path("foltr")) / kind
