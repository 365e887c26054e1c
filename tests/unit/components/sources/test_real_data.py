"""The real data sets, where they are on this machine."""

import numpy as np

from foltr.components.sources.folder import Letor
from foltr.components.sources.intents import Intents
from foltr.components.sources.published import MQ2008
from foltr.data import catalogue


def test_every_fold_of_mq2008_is_complete(shared):
    for fold in range(1, 6):
        parts = [MQ2008(fold=fold).load(split) for split in ("train", "vali", "test")]
        assert sum(part.queries for part in parts) == 784
        assert np.bincount(np.concatenate([part.labels[0] for part in parts])).tolist() == [
            12_279,
            2_001,
            931,
        ]
        assert {part.width for part in parts} == {46} and all(
            part.document_ids is not None for part in parts
        )
    assert MQ2008().load("train").document_ids[0] == b"GX008-86-4444840"


def test_mq2008_can_be_added(shared):
    told = []
    catalogue.add("MQ2008", shared / "MQ2008", told.append)
    assert "\n".join(told).count("784 queries, 15,211 documents (as published)") == 5


def test_a_sample_of_mslr_is_normalised_per_query(shared):
    raw, data = (Letor(path="MSLR-sample", normalize=n).load("test") for n in (False, True))
    assert (data.queries, data.documents, data.width, data.grades) == (32, 3_379, 136, 5)
    rows = np.asarray(raw.features[data.offsets[3] : data.offsets[4]], np.float64)
    low, span = rows.min(axis=0), np.ptp(rows, axis=0)
    expected = np.divide(rows - low, span, out=np.zeros_like(rows), where=span > 0).astype(
        np.float32
    )
    np.testing.assert_array_equal(data.features[data.offsets[3] : data.offsets[4]], expected)


def test_web_track_intents(shared):
    data = Intents(path="WebTrack-intents").load("train")
    assert (data.queries, data.documents, data.width, data.grades) == (61, 26_646, 42, 2)
    assert data.labels.sum(axis=1).tolist() == [3_937, 2_765, 2_449, 884]
    relevant = np.add.reduceat(data.labels, data.offsets[:-1], axis=1) > 0
    assert relevant.all(axis=0).sum() == 27
