"""Folders for data sets and caches on this machine, which environment variables can move, and the
paths that users give."""

import errno
import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from foltr.errors import Mistake, shown


def given_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user gave: `~` is the home folder. Refuses a name that no file can have."""
    try:
        found = Path(path).expanduser()
        os.lstat(found)
    except RuntimeError:
        raise Mistake(f"{shown(str(path))}: there is no such home folder") from None
    except ValueError:
        raise Mistake(f"{shown(str(path))} is no path: it holds a zero byte") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Mistake(f"{shown(str(path))}: {error.strerror}: choose a shorter one") from None
    return found  # it need not exist


def data_folders() -> list[Path]:
    """The folders searched for data sets, in order: those of FOLTR_DATA, then the user's data
    folder."""
    named = [Path(part) for part in os.environ.get("FOLTR_DATA", "").split(os.pathsep) if part]
    return [*named, user_data_path("foltr") / "data"]


def cache_folder(kind: str) -> Path:
    """The folder of a kind of cache: below FOLTR_CACHE, or in the user's cache folder."""
    root = os.environ.get("FOLTR_CACHE")
    return (Path(root) if root else user_cache_path("foltr")) / kind
