"""Published collections: their facts, where to get them, and their files in the publisher's
layout."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from foltr.core.errors import Mistake, require
from foltr.core.system.files import data_folders, write_whole, writing
from foltr.core.world.dataset import Dataset
from foltr.data import files, text_files
from foltr.data.letor import Reading

SPLITS = ("train", "vali", "test")
FOLDS = tuple(range(1, 6))


@dataclass(frozen=True)
class Collection:
    """The facts of one published collection. `files`: part ("fold 1") -> split -> path below its
    folder."""

    name: str
    about: str
    home: str
    terms: str
    features: int
    grades: int
    files: Mapping[str, Mapping[str, str]]
    published: Mapping[str, tuple[int, int]]  # part, or part and split -> queries, documents
    folders: tuple[str, ...] = ()  # names that its folder may have
    extras: tuple[str, ...] = ()  # further files of the collection
    sparse: bool = False
    clip: bool = False
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "reading", Reading(self.sparse, self.features, self.grades, self.clip)
        )

    def load(self, part: str, split: str, normalize: bool) -> Dataset:
        return files.load(self.find(part, split), self.reading, normalize)

    def find(self, part: str, split: str) -> Path:
        """The file of a split; raises with instructions where to get it and where to put it."""
        known_split(split, tuple(self.files[part]))
        file = self.files[part][split]
        for folder in candidates(self.name, self.folders):
            if (found := text_files.at(folder / file)) is not None:
                return found
        raise Mistake(self.absent(file))

    def present(self) -> Path | None:
        """The first folder that holds a file of this collection, or None."""
        paths = [path for part in self.files.values() for path in part.values()]
        for folder in candidates(self.name, self.folders):
            if any(text_files.at(folder / path) for path in paths):
                return folder
        return None

    def absent(self, file: str) -> str:
        *named, own = data_folders()
        sought = (
            f"below FOLTR_DATA ({', '.join(map(str, named))})"
            if named
            else "below a folder named by FOLTR_DATA"
        )
        return (
            f"{self.name} is not on this machine. Get it from {self.home} ({self.terms}). "
            f"Then put it so that {self.folders[0]}/{file} lies {sought} or in {own}, "
            f"or run `foltr data add {self.name} FOLDER` with the folder that holds {file}."
        )


def known_split(split: str, splits: tuple[str, ...]) -> None:
    require(split in splits, f"no split is called {split!r}: known: {', '.join(splits)}")


class Published(ABC):
    """The base of sources that are a part of a published collection."""

    collection: ClassVar[Collection]
    normalize: bool

    @property
    @abstractmethod
    def part(self) -> str:
        """Which part of the collection it is."""

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        return self.collection.load(self.part, split, self.normalize)


class InFolds(Published):
    """The base of sources in Microsoft's layout, FoldK/{train,vali,test}.txt."""

    fold: int

    def __post_init__(self) -> None:
        require(self.fold in FOLDS, f"fold {self.fold} does not exist: folds are 1 .. 5")

    @property
    def part(self) -> str:
        return f"fold {self.fold}"


def five_folds(
    queries: int, documents: int
) -> tuple[dict[str, dict[str, str]], dict[str, tuple[int, int]]]:
    """The files and published counts of five folds; every fold has all queries."""
    layout = {f"fold {k}": {split: f"Fold{k}/{split}.txt" for split in SPLITS} for k in FOLDS}
    return layout, {part: (queries, documents) for part in layout}


# Where data sets are on this machine: FOLTR_DATA, folders registered by `foltr data add`, the
# user's data folder.


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
