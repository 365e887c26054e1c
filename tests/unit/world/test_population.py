"""`world.population.holding`: any documents for any client, as tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.users.cascade import Cascade
from foltr.errors import Mistake
from foltr.seeds import stream
from foltr.world.population import holding
from foltr.world.user import SimulatedUser
from tiny_data import blocks, copies_nothing, documents, made, query_of, tiny


@given(tiny(), st.data())
def test_clients_hold_what_they_are_given(data, choose):
    some = st.sets(st.integers(0, data.documents - 1), min_size=1)
    held = [
        np.array(choose.draw(st.permutations(sorted(rows))))
        for rows in choose.draw(st.lists(some, min_size=1, max_size=4))
    ]
    p = holding(data, Cascade(), held, 3)
    assert p.clients == len(held) and copies_nothing(p, data)
    for c, rows in enumerate(held):
        assert documents(p, c) == sorted(rows.tolist())
        assert [query_of(data, part) for part, _ in blocks(p, c)] == sorted(
            {query_of(data, [row]) for row in rows}
        )


def test_a_user_sees_only_the_documents_of_its_block():
    data = made([[0, 1, 2, 0, 1, 2]], [3, 3], 3)
    p = holding(data, Cascade(), [np.array([2, 4, 3]), np.array([5])], 1)
    seen = set()
    for t in range(50):
        docs, _, _ = SimulatedUser(p, 0, stream(1, "user", 0, t)).session(
            lambda docs: np.arange(len(docs))
        )
        # the first feature is the document's number
        seen.add(tuple(docs[:, 0].astype(int).tolist()))
    assert seen == {(2,), (3, 4)}


def test_nobody_is_empty_handed():
    with pytest.raises(Mistake, match="client 1 holds no document"):
        holding(made([[0, 1]], [2], 2), Cascade(), [np.array([0]), np.array([], int)], 1)
