"""Small labelled data sets."""

import numpy as np

from foltr.core.seeds import stream
from foltr.core.world.dataset import Dataset, padded


def collection(*queries, grades=3):
    """A data set of (documents, labels) per query."""
    docs = np.concatenate(
        [np.array(docs, np.float32).reshape(len(labels), -1) for docs, labels in queries]
    )
    storage = np.zeros((len(docs), padded(docs.shape[1])), np.float32)
    storage[:, : docs.shape[1]] = docs
    storage.setflags(write=False)
    labels = np.concatenate([np.array(labels, np.int8) for _, labels in queries])[None]
    offsets = np.cumsum([0, *(len(labels) for _, labels in queries)])
    ids = np.array([f"{q}".encode() for q in range(len(queries))])
    return Dataset(storage, docs.shape[1], labels, offsets, grades, ids, "made by hand")


def noisy(queries=30, features=5, seed=0, most=8):
    """Labels 0, 1 and 2 that follow the first two features, with noise; 2 .. `most` documents a
    query."""
    made = []
    for q in range(queries):
        rng = stream(seed, "noisy", q)
        m = 2 + rng.integer(most - 1)
        docs = rng.uniforms(m * features).reshape(m, features)
        made.append(
            (docs, np.digitize(docs[:, 0] + 0.5 * docs[:, 1] + 0.3 * rng.normals(m), [0.7, 1.1]))
        )
    return collection(*made)


ONE_GRADE = collection(([[0.1], [0.9]], [1, 1]), ([[0.3], [0.4]], [1, 1]))
NO_PAIR = collection(([[0.1], [0.9]], [1, 1]), ([[0.3], [0.4]], [0, 0]), ([[0.5]], [2]))
