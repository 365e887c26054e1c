"""What the collections of Microsoft Research have in common."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.core.spec import source
from foltr.data.collection import Collection, InFolds, five_folds

PAGES = "https://www.microsoft.com/en-us/research/project"


def letor4(year: int, queries: int, documents: int) -> Collection:
    """MQ2007 and MQ2008 of LETOR 4.0."""
    name, (files, published) = f"MQ{year}", five_folds(queries, documents)
    track = f"the Million Query track of TREC {year} on the .gov2 pages"
    page = f"{PAGES}/letor-learning-rank-information-retrieval/"
    return Collection(
        name=name,
        about=f"LETOR 4.0 {name}: {track}",
        home=f"Microsoft Research's LETOR 4.0 page ({page})",
        terms="free for research under Microsoft's LETOR agreement, no redistribution",
        features=46,
        grades=3,
        files=files,
        published=published,
        folders=(name, f"LETOR-4.0/{name}"),
    )


def mslr(thousands: int, queries: int, documents: int) -> Collection:
    """MSLR-WEB10K and MSLR-WEB30K."""
    size, (files, published) = f"{thousands}K", five_folds(queries, documents)
    return Collection(
        name=f"MSLR{size}",
        about=f"MSLR-WEB{size}: queries of a web search engine with raw features",
        home=f"Microsoft Research's MSLR page ({PAGES}/mslr/)",
        terms="free for research under Microsoft's MSLR terms, no redistribution",
        features=136,
        grades=5,
        files=files,
        published=published,
        folders=(f"MSLR-WEB{size}", f"MSLR{size}", f"MSLR-{size}"),
    )


# The MSLR-WEB10K collection.


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


# The MSLR-WEB30K collection.


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

    collection: ClassVar[Collection] = mslr(30, 31_531, 3_771_125)
