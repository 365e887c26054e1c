"""The MQ2007 collection of LETOR 4.0."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.components.sources.microsoft import letor4
from foltr.core.spec import source
from foltr.data.collection import Collection, InFolds


@source
@dataclass(frozen=True)
class MQ2007(InFolds):
    """LETOR 4.0 MQ2007: 1,692 queries, 69,623 documents, 46 features, grades 0-2.

    Queries of the TREC Million Query track 2007 on the .gov2 pages. The features are published
    normalised per query.

    Fields
        fold: cross-validation fold (1 .. 5)
        normalize: scale each feature to [0, 1] within each query once more (min-max)

    Reference: Qin & Liu, Introducing LETOR 4.0 Datasets, arXiv:1306.2597, 2013."""

    fold: int = 1
    normalize: bool = False

    collection: ClassVar[Collection] = letor4(2007, 1_692, 69_623)


# The MQ2008 collection of LETOR 4.0.


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

    collection: ClassVar[Collection] = letor4(2008, 784, 15_211)
