"""A user's own LETOR files."""

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from foltr.core.errors import Mistake, require
from foltr.core.spec import added, source
from foltr.core.system.files import regular
from foltr.core.world.dataset import Dataset
from foltr.data import collection as lookup
from foltr.data import files, text_files
from foltr.data.collection import SPLITS, known_split
from foltr.data.letor import MOST_FEATURES, MOST_GRADES, Reading

NAMES = {"train": ("train.txt",), "vali": ("vali.txt", "valid.txt"), "test": ("test.txt",)}


@source
@dataclass(frozen=True)
class Letor:
    """Read your own folder of LETOR text: train.txt, test.txt and, if used, vali.txt.

    A line is `label qid:Q 1:v 2:v ... #comment`. The validation file may also be called valid.txt.
    Files may be compressed with gzip (train.txt.gz).

    Fields
        path: the folder; relative to the working directory, or else below a folder of FOLTR_DATA
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)
        sparse: whether features that a line leaves out are zeros; otherwise they are an error
        features: number of features (1 .. 100,000), or None for what the files have
        grades: number of relevance grades, labels 0 .. grades - 1 (2 .. 128), or None for what the
            files have
        clip: replace numbers beyond float32 by its largest number, instead of an error
        users: a file of the folder that says who searched, for the partition ByUser: a line
            `query id, tab, user` for every query of every split; None if that is not known
    """

    path: str
    normalize: bool = False
    sparse: bool = False
    features: int | None = None
    grades: int | None = None
    clip: bool = False
    users: str | None = added()

    def __post_init__(self) -> None:
        require(
            self.features is None or 1 <= self.features <= MOST_FEATURES,
            f"Letor: features={self.features} is not between 1 and {MOST_FEATURES}",
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
        data = self._loaded(split)
        return data if self.users is None else with_users(data, self._users_file())

    def _users_file(self) -> Path:
        folder = lookup.own_path(self.path)
        inside = Path(str(self.users)).name == self.users
        require(inside, f"Letor: users={self.users!r} is not the name of a file in {folder}")
        return folder / str(self.users)

    def _loaded(self, split: str) -> Dataset:
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
        """This split with the number of features and grades that all splits together have."""
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
        found = (text_files.at(folder / name) for name in NAMES[split])
        return next((file for file in found if file is not None), None)

    def _found(self, split: str) -> Path:
        file = self._file(split)
        if file is None:
            folder = lookup.own_path(self.path)
            raise Mistake(
                f"{folder} has no {' or '.join(NAMES[split])}; Letor needs train.txt and test.txt"
                " there"
            )
        return file


def with_users(data: Dataset, path: Path) -> Dataset:
    """The data with the user of each query, as a file of lines `query id, tab, user` says."""
    try:
        with regular(path.resolve()) as file:
            content = file.read()
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    found: dict[bytes, bytes] = {}
    for number, line in enumerate(content.removeprefix(text_files.BOM).splitlines(), 1):
        parts = [part.strip() for part in line.split(b"\t")]
        if not any(parts):
            continue
        where = f"{path}, line {number}"
        require(len(parts) == 2 and all(parts), f"{where}: write the query id, a tab and the user")
        twice = found.setdefault(parts[0], parts[1]) == parts[1]
        require(twice, f"{where}: query {parts[0].decode(errors='replace')} has two users")
    lacking = [id for id in data.query_ids.tolist() if id not in found]
    if lacking:
        some = ", ".join(id.decode(errors="replace") for id in lacking[:3])
        raise Mistake(f"{path} does not say who searched {len(lacking)} queries: {some}")
    users = np.array([found[id] for id in data.query_ids.tolist()])
    both = f"{data.content} {blake2b(content, digest_size=16).hexdigest()}".encode()
    return replace(data, users=users, content=blake2b(both, digest_size=16).hexdigest())
