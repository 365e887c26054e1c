"""Messages and sessions that `ES` refuses."""

import numpy as np
import pytest

from foltr.components.learners.es import ES, read_messages
from foltr.core.errors import Mistake


@pytest.mark.parametrize(
    "payloads",
    [np.zeros((2, 3), np.float32), np.zeros(3, np.uint32), np.zeros((2, 4), np.uint32),
     np.array([[1, 0x7FC00000, 0]], np.uint32), np.array([[1, 0x7F800000, 0]], np.uint32)],
)  # fmt: skip
def test_messages_that_no_client_sends(payloads):
    with pytest.raises(Mistake):
        read_messages(payloads)


def test_an_uneven_number_of_sessions_is_refused_where_a_partition_sets_it():
    with pytest.raises(Mistake, match="got 5"):
        ES().check_halves(5)
