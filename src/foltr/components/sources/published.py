"""Published collections: those of Microsoft Research, Yahoo and Istella."""

from dataclasses import dataclass
from typing import ClassVar

from foltr.core.errors import require
from foltr.core.spec import source
from foltr.data.collection import SPLITS, Collection, InFolds, Published, five_folds

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
class Yahoo(Published):
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
    def part(self) -> str:
        return f"set {self.set}"


@source
@dataclass(frozen=True)
class IstellaS(Published):
    """Istella-S LETOR: 33,018 queries, 3,408,630 documents, 220 features, grades 0-4.

    A sample of the queries of an Italian web search engine, with raw features. Some values are the
    largest number of float64; they become the largest of float32.

    Fields
        normalize: scale each feature to [0, 1] within each query (min-max; constant features
            become 0)

    Reference: Lucchese, Nardini, Orlando, Perego, Silvestri & Trani, Post-Learning Optimization of
    Tree Ensembles for Efficient Ranking, SIGIR 2016."""

    normalize: bool = True

    part = "sample"
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
