"""The MSLR-WEB10K collection."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.components.sources._microsoft import mslr
from foltr.data.collection import Collection, InFolds
from foltr.spec import source


@source
@dataclass(frozen=True)
class MSLR10K(InFolds):
    """MSLR-WEB10K: 10,000 queries, 1,200,192 documents, 136 features, grades 0-4.

    Queries of a web search engine, with raw features. The published runs of FOLtR-ES used raw
    features, those of PDGD normalised ones.

    Fields
        fold: cross-validation fold (1 .. 5)
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)

    Reference: usually cited as Qin & Liu, Introducing LETOR 4.0 Datasets, arXiv:1306.2597,
    2013."""

    fold: int = 1
    normalize: bool = True

    collection: ClassVar[Collection] = mslr(10, 10_000, 1_200_192)
