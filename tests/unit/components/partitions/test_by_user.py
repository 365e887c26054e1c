"""The data's own users."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.partitions.by_user import ByUser
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from tiny_data import blocks, copies_nothing, documents, made, query_of

WHOSE = np.array([b"bo", b"al", b"bo", b"cy", b"al", b"bo"])


def data_of(whose):
    lengths = [1 + q % 3 for q in range(len(whose))]
    return made([np.arange(sum(lengths)) % 3], lengths, 3, users=np.array(whose))


def searching(data, clients, seed=1, iid=False):
    return ByUser(iid=iid).population(data, Cascade(), clients, 5, seed)


def queries(data, p, client):
    return [query_of(data, rows) for rows, _ in blocks(p, client)]


def test_a_client_searches_what_its_user_searched():
    data = data_of(WHOSE)
    p = searching(data, 3)
    assert [queries(data, p, c) for c in range(3)] == [[1, 4], [0, 2, 5], [3]]
    assert sorted(row for c in range(3) for row in documents(p, c)) == list(range(data.documents))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data(), st.integers(0, 2**63 - 1))
def test_clients_are_users_and_the_twin_mixes_their_queries(whose, choose, seed):
    data, users = data_of(whose), len(set(whose))
    clients = choose.draw(st.integers(1, users))
    p, twin = searching(data, clients, seed), searching(data, clients, seed, iid=True)
    assert copies_nothing(p, data) and copies_nothing(twin, data)
    held = [queries(data, p, c) for c in range(clients)]
    for part in held:
        (user,) = {whose[q] for q in part}
        # all of one user's queries
        assert part == [q for q, other in enumerate(whose) if other == user]
    mixed = [queries(data, twin, c) for c in range(clients)]
    assert all(part == sorted(q for one in held for q in one) for part in mixed)
    for each in (p, twin):
        for c in range(clients):
            at = slice(each.first[c], each.last[c])
            np.testing.assert_array_equal(
                each.ideals[at] > 0, [labels.any() for _, labels in blocks(each, c)]
            )


def test_who_takes_part_is_drawn():
    data = data_of(range(10))
    drawn = {
        tuple(q for c in range(2) for q in queries(data, searching(data, 2, seed), c))
        for seed in range(400)
    }
    assert len(drawn) == 45  # all pairs of ten


def test_what_is_wrong_is_refused():
    with pytest.raises(
        Mistake, match="the data has 3 users, and there are 4 clients: say clients=3 or fewer"
    ):
        searching(data_of(WHOSE), 4)
    with pytest.raises(Mistake, match="does not say whose query it was"):
        searching(made([[0, 1]], [2], 2), 1)
