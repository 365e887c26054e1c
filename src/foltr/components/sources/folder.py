"""Anyone's own data: a folder with train.txt, vali.txt and test.txt in LETOR form."""

from dataclasses import dataclass
from pathlib import Path

from foltr.data import files, lookup
from foltr.data.collection import SPLITS, known_split
from foltr.data.letor import MOST_FEATURES, MOST_GRADES, Reading
from foltr.errors import Mistake, require
from foltr.spec import source
from foltr.world.dataset import Dataset

NAMES = {"train": ("train.txt",), "vali": ("vali.txt", "valid.txt"), "test": ("test.txt",)}


@source
@dataclass(frozen=True)
class Letor:
    """Your own folder of LETOR text: train.txt, test.txt and, if used, vali.txt (or valid.txt).

    `path` is sought from here, then below FOLTR_DATA. `sparse`: absent features are zeros.
    `features` and `grades`: None takes what the files together have. `clip`: numbers beyond
    float32 become its largest."""

    path: str
    normalize: bool = False
    sparse: bool = False
    features: int | None = None
    grades: int | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        require(
            self.features is None or 1 <= self.features <= MOST_FEATURES,
            f"Letor: features={self.features}",
        )
        require(
            self.grades is None or 2 <= self.grades <= MOST_GRADES,
            f"Letor: grades={self.grades} is not between 2 and {MOST_GRADES}",
        )

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        known_split(split, SPLITS)
        own = self._load(split, self.features)
        if self.features is not None and self.grades is not None:
            return own
        others = {
            name: self._load(name, self.features) for name in ("train", "test") if name != split
        }
        if split != "vali" and self._file("vali") is not None:
            others["vali"] = self._load("vali", self.features)
        return self._agreed(split, own, others)

    def _agreed(self, split: str, own: Dataset, others: dict[str, Dataset]) -> Dataset:
        """This split with the features and grades that all splits have between them."""
        widest = max(data.width for data in [own, *others.values()])
        for name, other in others.items():
            if other.width != own.width and not self.sparse:
                raise Mistake(
                    f"{self._found(split)}, line 1: {own.width} features, but {self._found(name)}"
                    f" has {other.width}; sparse=True if absent features are zeros"
                )
        if own.width < widest:
            own = self._load(split, widest)
        return files.with_grades(own, max(data.grades for data in [own, *others.values()]))

    def _load(self, split: str, features: int | None) -> Dataset:
        return files.load(
            self._found(split),
            Reading(self.sparse, features, self.grades, self.clip),
            self.normalize,
        )

    def _file(self, split: str) -> Path | None:
        folder = lookup.own_path(self.path)
        return next((folder / name for name in NAMES[split] if (folder / name).is_file()), None)

    def _found(self, split: str) -> Path:
        file = self._file(split)
        if file is None:
            folder = lookup.own_path(self.path)
            raise Mistake(
                f"{folder} has no {' or '.join(NAMES[split])}; Letor needs train.txt and test.txt"
                " there"
            )
        return file
