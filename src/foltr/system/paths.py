"""Folders for data sets and caches on this machine; environment variables can move them."""

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def data_folders() -> list[Path]:
    """The folders searched for data sets, in order: those of FOLTR_DATA, then the user's data
    folder."""
    named = [Path(part) for part in os.environ.get("FOLTR_DATA", "").split(os.pathsep) if part]
    return [*named, user_data_path("foltr") / "data"]


def cache_folder(kind: str) -> Path:
    """The folder of a kind of cache: below FOLTR_CACHE, or in the user's cache folder."""
    root = os.environ.get("FOLTR_CACHE")
    return (Path(root) if root else user_cache_path("foltr")) / kind
