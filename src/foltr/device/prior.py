"""What the ranker of a device starts from: BM25, or weights that were trained on public manuals.

The weights are those of a ranking SVM on the hyperlinks of Debian's manuals
(`reproduce/device_prior.py`, which also says how good it is on a manual that it was not trained
on). The guard compares their lists with BM25's from the first search on (`guard.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from foltr.components.rankers.linear import Linear
from foltr.device.features import ABOUT

WEIGHTS = {  # for features of version 1
    "bm25": 1.54,
    "bm25_title": -0.45,
    "bm25_headings": 0.45,
    "bm25_body": -1.48,
    "tfidf_title": 0.58,
    "tfidf_headings": 0.05,
    "tfidf_body": 1.11,
    "language_title": -0.21,
    "language_headings": -0.15,
    "language_text": 0.1,
    "mixed_text": 0.25,
    "cover_title": -0.02,
    "cover_headings": 0.42,
    "cover_text": -0.5,
    "idf_title": -0.07,
    "idf_headings": 0.57,
    "idf_text": 0.17,
    "run_title": 0.0,
    "run_headings": -0.58,
    "run_body": -0.04,
    "neighbours_title": 0.38,
    "neighbours_headings": 0.71,
    "neighbours_body": 0.73,
    "closeness": -0.17,
    "nearest": 0.28,
    "title_share": 1.01,
    "headings_share": -0.18,
    "body_share": -0.12,
    "title_equal": 0.49,
    "title_begins": -0.04,
    "first": -0.31,
    "early": 0.15,
    "name": -0.03,
    "path": 0.73,
    "depth": -0.68,
    "length": -0.51,
    "title_length": -0.45,
    "recent": 0.0,
}
START = Linear(start=(5.0,))  # BM25, the first feature
PRIOR = Linear(start=tuple(WEIGHTS[name] for name in ABOUT))
STARTS: Mapping[str, Linear] = {"bm25": START, "manuals": PRIOR}
