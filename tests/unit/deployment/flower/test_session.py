"""What of a session needs no SuperLink."""

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.deployment.flower.internals import BATCH, batches
from foltr.deployment.flower.session import LinkDown, Session


class Sized:
    def __init__(self, size):
        self.size = size

    def ByteSize(self):
        return self.size


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1, 2, 3], [3]),
        ([BATCH, 1], [1, 1]),
        ([BATCH + 1], [1]),
        ([BATCH // 2] * 5, [2, 2, 1]),
    ],
)
def test_a_request_carries_some_megabytes(sizes, expected):
    pairs = [(Sized(size), None) for size in sizes]
    made = list(batches(pairs))
    assert [len(batch) for batch in made] == expected
    assert [pair for batch in made for pair in batch] == pairs


def test_no_superlink(tmp_path, closed_port):
    with pytest.raises(LinkDown, match="did not answer"):
        Session(f"http://127.0.0.1:{closed_port}", "secret", tmp_path, patience=0.0)
