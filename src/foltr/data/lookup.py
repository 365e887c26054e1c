"""Where data sets are on this machine: FOLTR_DATA, folders registered by `foltr data add`, the
user's data folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from foltr.errors import Mistake
from foltr.system.files import write_whole, writing
from foltr.system.paths import data_folders


def registry() -> Path:
    """The file that `foltr data add` writes."""
    return data_folders()[-1] / "registry.json"


def registered() -> dict[str, Path]:
    """The registered folders by name."""
    try:
        return {
            str(name): Path(folder) for name, folder in json.loads(registry().read_text()).items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Mistake(f"cannot read {registry()}: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError):
        raise Mistake(
            f"{registry()} is not a readable registry; remove it and add the data sets again"
        ) from None


def register(name: str, folder: Path) -> None:
    """Register the folder of a data set."""
    file = registry()
    known = {**{n: str(f) for n, f in registered().items()}, name: str(folder.resolve())}
    with writing(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(known, indent=1))


def candidates(name: str, folders: Iterable[str]) -> list[Path]:
    """All folders that may hold a collection, in the order of search."""
    *named, own = data_folders()
    known = registered().get(name)
    names = list(folders)
    return [
        *(p / n for p in named for n in names),
        *([known] if known else []),
        *(own / n for n in names),
    ]


def own_path(path: str) -> Path:
    """A user's file or folder: as given, or below FOLTR_DATA."""
    try:
        own = Path(path).expanduser()
    except RuntimeError as error:
        raise Mistake(f"{path!r}: {error}") from None
    tried = [own, *(folder / path for folder in data_folders())]
    for place in tried:
        if place.exists():
            return place
    raise Mistake(f"no file or folder {path!r}; tried {', '.join(str(place) for place in tried)}")
