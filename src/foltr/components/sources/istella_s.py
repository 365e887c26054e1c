"""The Istella-S collection."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.core.spec import source
from foltr.core.world.dataset import Dataset
from foltr.data.collection import SPLITS, Collection


@source
@dataclass(frozen=True)
class IstellaS:
    """Istella-S LETOR: 33,018 queries, 3,408,630 documents, 220 features, grades 0-4.

    A sample of the queries of an Italian web search engine, with raw features. Some values are the
    largest number of float64; they become the largest of float32.

    Fields
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)

    Reference: Lucchese, Nardini, Orlando, Perego, Silvestri & Trani, Post-Learning Optimization of
    Tree Ensembles for Efficient Ranking, SIGIR 2016."""

    normalize: bool = True

    collection: ClassVar[Collection] = Collection(
        name="IstellaS",
        about="Istella-S LETOR: a sample of the queries of an Italian web search engine",
        home="Istella (https://istella.ai)",
        terms="for non-commercial use, under the Istella LETOR licence agreement",
        features=220,
        grades=5,
        files={"sample": {split: f"sample/{split}.txt" for split in SPLITS}},
        published={"sample": (33_018, 3_408_630)},
        folders=("istella-s-letor", "Istella-S", "IstellaS", "istella-s"),
        # copies exist with all features on each line, and without zeros
        sparse=True,
        clip=True,
    )

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        return self.collection.load("sample", split, self.normalize)
