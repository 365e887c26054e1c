"""The MSLR-WEB30K collection."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.data.collection import Collection, InFolds, five_folds
from foltr.spec import source

FILES, PUBLISHED = five_folds(31_531, 3_771_125)


@source
@dataclass(frozen=True)
class MSLR30K(InFolds):
    """MSLR-WEB30K: 31,531 queries, 3,771,125 documents, 136 features, grades 0-4.

    Queries of a web search engine, with raw features.

    Fields
        fold: cross-validation fold (1 .. 5)
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)

    Reference: usually cited as Qin & Liu, Introducing LETOR 4.0 Datasets, arXiv:1306.2597,
    2013."""

    fold: int = 1
    normalize: bool = True

    collection: ClassVar[Collection] = Collection(
        name="MSLR30K",
        about="MSLR-WEB30K: queries of a web search engine with raw features",
        home=(
            "Microsoft Research's MSLR page"
            " (https://www.microsoft.com/en-us/research/project/mslr/)"
        ),
        terms="free for research under Microsoft's MSLR terms, no redistribution",
        features=136,
        grades=5,
        files=FILES,
        published=PUBLISHED,
        folders=("MSLR-WEB30K", "MSLR30K", "MSLR-30K"),
    )
