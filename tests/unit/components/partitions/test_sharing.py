"""Some queries for everybody."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.partitions.by_intent import ByIntent
from foltr.components.partitions.by_label import ByLabel
from foltr.components.partitions.iid import IID
from foltr.components.partitions.sharing import Sharing
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.metrics import ideal_dcg
from tiny_data import blocks, copies_nothing, documents, made, query_of, tiny


def queries(data, p, client):
    return [query_of(data, rows) for rows, _ in blocks(p, client)]


@given(tiny(least=3, queries=12), st.floats(0.01, 1.0), st.integers(0, 2**63 - 1))
def test_everybody_holds_the_shared_queries_in_full_and_the_rest_of_its_own(data, share, seed):
    clients = data.grades
    alone = ByLabel().population(data, Cascade(), clients, 5, seed)
    p = Sharing(share=share, warmup=7).population(data, Cascade(), clients, 5, seed)
    assert (
        copies_nothing(p, data) and p.clients == clients and (p.server_clients, p.warmup) == (1, 7)
    )
    shared = queries(data, p, clients)  # what the server holds
    assert len(shared) == max(1, round(share * data.queries))
    whole = [row for q in shared for row in range(data.offsets[q], data.offsets[q + 1])]
    assert documents(p, clients) == whole
    for c in range(clients):
        own = [row for row in documents(alone, c) if query_of(data, [row]) not in shared]
        assert documents(p, c) == own + whole
        held = queries(data, p, c)
        assert len(held) == len(set(held))  # no query twice: each is drawn as often as the others
        for (_, labels), ideal in zip(blocks(p, c), p.ideals[p.first[c] : p.last[c]], strict=True):
            assert ideal == ideal_dcg(labels, np.array([0, len(labels)]))[0]
    assert p.sessions.tolist() == [5] * (clients + 1)
    # one more index for each shared document, for all clients
    assert len(p.rows) == data.documents + len(whole)


def test_a_share_of_everything_is_iid():
    data = made([np.arange(30) % 3], [10] * 3, 3)
    p, plain = (each.population(data, Cascade(), 3, 5, 1) for each in (Sharing(share=1.0), IID()))
    assert [sorted(documents(p, c)) for c in range(3)] == [documents(plain, c) for c in range(3)]


def test_the_shared_queries_are_drawn():
    data = made([np.arange(30) % 3], [3] * 10, 3)
    drawn = {
        tuple(queries(data, Sharing().population(data, Cascade(), 3, 5, seed), 3))
        for seed in range(200)
    }
    assert drawn == {(q,) for q in range(10)}


def test_what_is_wrong_is_refused():
    for share in (0.0, 1.1):
        with pytest.raises(Mistake, match=r"share must be in \(0, 1\]"):
            Sharing(share=share)
    with pytest.raises(Mistake, match="warmup must be in 0"):
        Sharing(warmup=-1)
    data = made([np.arange(30) % 3], [10] * 3, 3)
    with pytest.raises(Mistake, match="shares queries already"):
        Sharing(of=Sharing()).population(data, Cascade(), 3, 5, 1)
    with pytest.raises(Mistake, match="nothing to share"):
        Sharing(of=ByIntent()).population(made(np.eye(2, 4), [4], 2), Cascade(), 2, 5, 1)
