"""The MSLR-WEB10K collection."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.data.collection import Collection, InFolds, five_folds
from foltr.spec import source

FILES, PUBLISHED = five_folds(10_000, 1_200_192)


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

    collection: ClassVar[Collection] = Collection(
        name="MSLR10K",
        about="MSLR-WEB10K: queries of a web search engine with raw features",
        home=(
            "Microsoft Research's MSLR page"
            " (https://www.microsoft.com/en-us/research/project/mslr/)"
        ),
        terms="free for research under Microsoft's MSLR terms, no redistribution",
        features=136,
        grades=5,
        files=FILES,
        published=PUBLISHED,
        folders=("MSLR-WEB10K", "MSLR10K", "MSLR-10K"),
    )
