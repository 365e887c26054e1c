"""The intent-change collection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from foltr.core.errors import Mistake
from foltr.core.spec import source
from foltr.core.world.dataset import Dataset
from foltr.data import cache
from foltr.data import text_files as stamps
from foltr.data.collection import Collection, known_split
from foltr.data.letor import wrong

SPLITS = ("train", "test")
INTENTS = (1, 2, 3, 4)
FEATURES = "clueweb09_intent_change.txt"


@source
@dataclass(frozen=True)
class IntentChange:
    """Intent-change collection: 200 queries, 105 features, four binary labellings (ClueWeb09).

    The queries are those of the TREC Web Tracks 2009 to 2012. There is no held-out set: both
    splits have the same queries. A document that an intent's judgements do not name is not
    relevant. The files are a feature file and one TREC qrels file per intent (`foltr data info
    IntentChange`).

    Fields
        normalize: scale each feature to [0, 1] within each query (min-max)

    Reference: Zhuang & Zuccon, How do online learning to rank methods adapt to changes of intent?,
    SIGIR 2021."""

    normalize: bool = False

    collection: ClassVar[Collection] = Collection(
        name="IntentChange",
        about="intent-change: ClueWeb09 documents whose relevance depends on one of four intents",
        home=(
            "the ielab group, beside its non-IID study"
            " (https://github.com/ielab/2022-SIGIR-noniid-foltr)"
        ),
        terms="judgements by TREC, features by the authors for research",
        features=105,
        grades=2,
        files={"all": {"train": FEATURES}},
        published={},
        extras=tuple(f"intents/{intent}.txt" for intent in INTENTS),
        folders=("IntentChange", "intent-change", "intent_change"),
    )

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        known_split(split, SPLITS)
        file = self.collection.find("all", "train")
        data = self.collection.load("all", "train", self.normalize)
        judgements = [file.parent / "intents" / f"{intent}.txt" for intent in INTENTS]
        key = {
            "features": data.content,
            "judgements": [stamps.content(path) for path in judgements],
        }
        found = cache.kept(key, partial(_label, data, file, judgements))
        return replace(data, labels=found.arrays["labels"], content=found.content)


def _label(data: Dataset, file: Path, judgements: list[Path], folder: Path) -> dict[str, Any]:
    """Labels (intents, N): 1 where the intent's judgements call the document relevant."""
    if data.document_ids is None:
        raise Mistake(
            f"{file}, line 1: no comment `#docid = ...`, which the judgements need to find the"
            " document"
        )
    queries = np.repeat(data.query_ids, np.diff(data.offsets)).tolist()
    documents = list(zip(queries, data.document_ids.tolist(), strict=True))
    labels = np.zeros((len(judgements), data.documents), np.int8)
    for i, path in enumerate(judgements):
        relevant = set(_relevant(path))
        labels[i] = [document in relevant for document in documents]
        if not labels[i].any():
            raise Mistake(
                f"{path}, line 1: none of its relevant documents is in {file}; are both of one"
                " collection?"
            )
    np.save(folder / "labels.npy", labels)
    return {"judgements": [path.name for path in judgements]}


def _relevant(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Query and document of each positive line `qid 0 docid rel` of a TREC qrels file."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        words = line.split()
        if len(words) not in (0, 4) or (words and not words[3].lstrip(b"-").isdigit()):
            raise wrong(
                path,
                number,
                f"{line[:60].decode('latin-1')!a} is not a judgement `qid 0 docid rel`",
            )
        if words and int(words[3]) > 0:
            yield words[0], words[2]
