"""One frame in one record."""

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from foltr.deployment.protocol.messages import packed, unpacked


@pytest.mark.parametrize("frame", [b"", b"x", bytes(100_000)])
def test_a_frame_comes_out_as_it_went_in(frame):
    assert unpacked(packed(frame)) == frame


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"other": ConfigRecord({"frame": b""})}),
        RecordDict({"foltr": ConfigRecord({"frame": b""}), "more": ConfigRecord()}),
        RecordDict({"foltr": ConfigRecord()}),
        RecordDict({"foltr": ConfigRecord({"frame": b"", "more": 1})}),
        RecordDict({"foltr": ConfigRecord({"frame": "text"})}),
        RecordDict({"foltr": ConfigRecord({"frame": [b"a", b"b"]})}),
        RecordDict({"foltr": MetricRecord({"frame": 1.0})}),
    ],
)
def test_anything_else_is_no_frame(content):
    with pytest.raises(ValueError, match="expected"):
        unpacked(content)
