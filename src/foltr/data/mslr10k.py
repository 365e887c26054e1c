"""MSLR-WEB10K: queries of a web search engine with raw features"""

from dataclasses import dataclass
from typing import ClassVar

from foltr.data.collection import SPLITS, Collection, five_folds, known_fold
from foltr.data.dataset import Dataset
from foltr.spec import source

FILES, PUBLISHED = five_folds(10_000, 1_200_192)


@source
@dataclass(frozen=True)
class MSLR10K:
    """MSLR-WEB10K: 10,000 queries, 1,200,192 documents, 136 raw features (hence normalised per query), grades 0-4.

    mslr10k3
    """

    fold: int = 1
    normalize: bool = True

    collection: ClassVar[Collection] = Collection(
        name="MSLR10K",
        about="MSLR-WEB10K: queries of a web search engine with raw features",
        home="Microsoft Research's MSLR page (https://www.microsoft.com/en-us/research/project/mslr/)",
        terms="free for research under Microsoft's MSLR terms, no redistribution",
        features=136,
        grades=5,
        files=FILES,
        published=PUBLISHED,
        folders=("MSLR-WEB10K", "MSLR10K", "MSLR-10K"),
    )

    def __post_init__(self) -> None:
        known_fold(self.fold)

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        return self.collection.load(f"fold {self.fold}", split, self.normalize)
