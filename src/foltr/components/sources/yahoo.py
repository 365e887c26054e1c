"""The Yahoo! Learning to Rank Challenge."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.core.errors import require
from foltr.core.spec import source
from foltr.core.world.dataset import Dataset
from foltr.data.collection import SPLITS, Collection

PUBLISHED = {
    "set 1 train": (19_944, 473_134),
    "set 1 vali": (2_994, 71_083),
    "set 1 test": (6_983, 165_660),
    "set 2 train": (1_266, 34_815),
    "set 2 vali": (1_266, 34_881),
    "set 2 test": (3_798, 103_174),
}


@source
@dataclass(frozen=True)
class Yahoo:
    """Yahoo! Learning to Rank Challenge: 36,251 queries in two sets, 700 features, grades 0-4.

    Set 1 has 29,921 queries and 709,877 documents, set 2 has 6,330 and 172,870. They come from a
    web search engine, with anonymous features (Webscope C14). Its lines leave out features that
    are zero.

    Fields
        set: 1 or 2
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)

    Reference: Chapelle & Chang, Yahoo! Learning to Rank Challenge Overview, JMLR W&CP 14, 2011."""

    set: int = 1
    normalize: bool = True

    collection: ClassVar[Collection] = Collection(
        name="Yahoo",
        about=(
            "Yahoo! Learning to Rank Challenge (Webscope C14): queries of a web search engine,"
            " unnamed features"
        ),
        home="Yahoo! Webscope (https://webscope.sandbox.yahoo.com, data set C14)",
        terms="on request, for academic research only, no redistribution",
        features=700,
        grades=5,
        files={
            f"set {k}": {
                split: f"set{k}.{name}.txt"
                for split, name in zip(SPLITS, ("train", "valid", "test"), strict=True)
            }
            for k in (1, 2)
        },
        published=PUBLISHED,
        folders=("Yahoo", "Yahoo-C14", "yahoo", "ltrc_yahoo", "Learning to Rank Challenge"),
        sparse=True,
    )

    def __post_init__(self) -> None:
        require(self.set in (1, 2), f"set {self.set} does not exist: sets are 1 and 2")

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        return self.collection.load(f"set {self.set}", split, self.normalize)
