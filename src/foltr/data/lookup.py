"""Where a data set lies on this machine: FOLTR_DATA, what `foltr data add` registered, the user's data folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from foltr.errors import Mistake
from foltr.places import data_folders


def registry() -> Path:
    """The small file that `foltr data add` writes."""
    return data_folders()[-1] / "registry.json"


def registered() -> dict[str, Path]:
    """Name -> folder, as registered."""
    try:
        return {str(name): Path(folder) for name, folder in json.loads(registry().read_text()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError):
        raise Mistake(f"{registry()} is not a readable registry; remove it and add the data sets again") from None


def register(name: str, folder: Path) -> None:
    """Remember where a data set lies."""
    file = registry()
    known = {**{n: str(f) for n, f in registered().items()}, name: str(folder.resolve())}
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(known, indent=1))
        os.replace(aside, file)
    except OSError as error:
        raise Mistake(f"cannot write {file}: {error.strerror}; FOLTR_DATA can name the folder instead") from None


def candidates(name: str, folders: Iterable[str]) -> list[Path]:
    """Everywhere that a collection may lie, in the order in which it is sought."""
    *named, own = data_folders()
    known = registered().get(name)
    names = list(folders)
    return [*(p / n for p in named for n in names), *([known] if known else []), *(own / n for n in names)]


def own_path(path: str) -> Path:
    """A user's file or folder: as given, or below FOLTR_DATA."""
    tried = [Path(path).expanduser(), *(folder / path for folder in data_folders())]
    for place in tried:
        if place.exists():
            return place
    raise Mistake(f"no file or folder {path!r}; tried {', '.join(str(place) for place in tried)}")
