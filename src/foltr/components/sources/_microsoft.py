"""What the collections of Microsoft Research have in common."""

from foltr.data.collection import Collection, five_folds

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
