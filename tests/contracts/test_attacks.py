"""What every attack must be true of. A new file is tested here without being mentioned."""

from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from plain_things import each

from asking import asked_of
from foltr.core import Cohort
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import attacks


def knowledge(cls):
    """Each kind of knowledge that an attack has a field for."""
    kinds = get_args(get_type_hints(cls).get("knowledge"))
    return [(f"{kind}-{cls.__name__}", {"knowledge": kind}) for kind in kinds]


each_one = each(attacks, variants=knowledge)
each_own = each(attacks, lambda thing: not thing.overhears, variants=knowledge)
# chance may make a round of any kind
SIZES = [(10, 1), (10, 2), (10, 3), (10, 4), (1000, 10), (10, 6), (3, 3), (1, 1)]
sizes = pytest.mark.parametrize(("n", "m"), SIZES)


def cohort(n, m, d=5, seed=0):
    """A round, and who is malicious in it: rows that lie anywhere."""
    rng = stream(seed, "cohort", n, m)
    updates = (0.05 * rng.normals(n * d).reshape(n, d) + 0.02).astype(np.float32)
    malicious = np.zeros(n, bool)
    malicious[rng.sample(n, m)] = True
    return Cohort(np.arange(n) + 3, updates, np.arange(1.0, n + 1)), malicious


PARAMS = np.array([0.5, -0.25, 0.0, 3.0, -2.0], np.float32)


def crafted(thing, c, malicious, t=4):
    return thing.craft(c, malicious, asked_of(len(c), PARAMS, t), stream(7, "attack", t))


@each_one
def test_full_knowledge_is_overhearing(thing):
    """The ledger guarantees nothing of a sum where attackers make messages of honest ones."""
    known = getattr(thing, "knowledge", None)
    assert known is None or thing.overhears == (known == "all")


@each_one
@sizes
def test_a_row_for_each_malicious_client(thing, n, m):
    sent = crafted(thing, *cohort(n, m))
    assert sent.shape == (m, 5) and sent.dtype == np.float32 and np.isfinite(sent).all()


@each_one
@pytest.mark.parametrize("value", [0.0, 1.0, -1e6], ids=["nothing", "agreement", "far"])
def test_clients_that_agree_leave_no_hole(thing, value):
    """A device without clicks sends zeros, and all of a round may send the same."""
    c, malicious = cohort(10, 3)
    sent = crafted(thing, replace(c, updates=np.full_like(c.updates, value)), malicious)
    assert sent.shape == (3, 5) and np.isfinite(sent).all()


@each_one
def test_nothing_is_written(thing):
    c, malicious = cohort(10, 3)
    params, before = PARAMS.copy(), c.updates.copy()
    for array in (c.clients, c.updates, c.weights, malicious, params):
        array.setflags(write=False)
    thing.craft(c, malicious, asked_of(len(c), params, 4), stream(7, "attack", 4))
    np.testing.assert_array_equal(c.updates, before)
    assert not np.shares_memory(crafted(thing, c, malicious), c.updates)


@each_one
@sizes
def test_the_same_address_gives_the_same_rows(thing, n, m):
    np.testing.assert_array_equal(crafted(thing, *cohort(n, m)), crafted(thing, *cohort(n, m)))


@each_one
@pytest.mark.parametrize(("n", "m"), [(10, 1), (10, 4), (40, 10)])
def test_the_order_of_clients_does_not_matter(thing, n, m):
    """Each malicious client sends the same wherever its row stands."""
    c, malicious = cohort(n, m)
    order = stream(1, "order").words(n).argsort()
    shuffled = Cohort(c.clients[order], c.updates[order], c.weights[order])
    expected = np.empty_like(c.updates)
    expected[malicious] = crafted(thing, c, malicious)
    got = crafted(thing, shuffled, malicious[order])
    np.testing.assert_allclose(got, expected[order][malicious[order]], rtol=1e-5, atol=1e-7)


@each_own
@pytest.mark.parametrize(("n", "m"), [(10, 1), (10, 2), (10, 4), (10, 6)])
def test_own_knowledge_looks_at_no_other_client(thing, n, m):
    c, malicious = cohort(n, m)
    other, _ = cohort(n, m, seed=1)
    updates = np.where(malicious[:, None], c.updates, 100.0 * other.updates)
    weights = np.where(malicious, c.weights, 77.0)
    changed = replace(c, updates=updates, weights=weights, trusted=np.ones(5, np.float32))
    np.testing.assert_array_equal(crafted(thing, changed, malicious), crafted(thing, c, malicious))


@each_one
@pytest.mark.parametrize(("n", "m"), [(10, 1), (10, 2), (10, 4), (1000, 10), (10, 6)])
def test_remarks_are_sentences_and_refusals_name_the_numbers(thing, n, m):
    try:
        notes = thing.fits(n, m)
    except Mistake as refusal:
        assert str(n) in str(refusal) and str(m) in str(refusal)
    else:
        assert isinstance(notes, tuple) and all(
            note and "\n" not in note and note[-1] not in " ." for note in notes
        )


@each_one
def test_users_are_known(thing):
    assert thing.rewrites in (True, False)
    if thing.users is not None:
        assert thing.users.tables(3, 10) is None or len(thing.users.tables(3, 10)) == 2
