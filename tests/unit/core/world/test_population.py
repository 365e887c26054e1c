"""`world.population`: any documents for any client, as tables, which are checked."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import click_models
from foltr.core.world.population import SimulatedUser, holding, iid
from foltr.experiment import Experiment
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


SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Table:
    """A click model of any table."""

    fill: float = 0.5
    depth: int | None = None

    def tables(self, grades, depth):
        table = np.full((self.depth or depth, grades), self.fill)
        return table, table

    def clicks(self, shown, grades, rng):
        return np.ones(len(shown), bool)


WRONG_TABLES = [({"fill": 2.0}, "no probability"), ({"depth": 3}, "Table.tables gave")]


@pytest.mark.parametrize(("fields", "message"), WRONG_TABLES)
def test_click_tables_are_checked_before_a_kernel_reads_them(fields, message, request):
    click_models.register(Table)
    request.addfinalizer(lambda: click_models.forget(__name__))
    replace(SMALL, users=Table()).run()
    with pytest.raises(Mistake, match=message):
        replace(SMALL, users=Table(**fields)).run()


@pytest.mark.parametrize(
    ("table", "value", "message"),
    [
        ("stops", 10**6, "documents"),
        ("labelling", 1, "labellings"),
        ("first", 20, "blocks"),
        ("last", 21, "blocks"),
        ("models", 1, "click models"),
        ("sessions", -1, "some client must search"),
    ],
)
def test_a_population_must_exist(table, value, message):
    population = iid(SMALL.data.load("train"), SMALL.users, 3, 2)
    wrong = getattr(population, table).copy()
    wrong[1] = value
    with pytest.raises(Mistake, match=message):
        replace(population, **{table: wrong})
