"""The MQ2008 collection of LETOR 4.0."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.data.collection import Collection, InFolds, five_folds
from foltr.spec import source

FILES, PUBLISHED = five_folds(784, 15_211)


@source
@dataclass(frozen=True)
class MQ2008(InFolds):
    """LETOR 4.0 MQ2008: 784 queries, 15,211 documents, 46 features, grades 0-2.

    Queries of the TREC Million Query track 2008 on the .gov2 pages. The features are published
    normalised per query.

    Fields
        fold: cross-validation fold (1 .. 5)
        normalize: scale each feature to [0, 1] within each query once more (min-max)

    Reference: Qin & Liu, Introducing LETOR 4.0 Datasets, arXiv:1306.2597, 2013."""

    fold: int = 1
    normalize: bool = False

    collection: ClassVar[Collection] = Collection(
        name="MQ2008",
        about="LETOR 4.0 MQ2008: the Million Query track of TREC 2008 on the .gov2 pages",
        home=(
            "Microsoft Research's LETOR 4.0 page"
            " (https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/)"
        ),
        terms="free for research under Microsoft's LETOR agreement, no redistribution",
        features=46,
        grades=3,
        files=FILES,
        published=PUBLISHED,
        folders=("MQ2008", "LETOR-4.0/MQ2008"),
    )
