"""The compiled engine against the plain one: the same draws, hence the same lists, clicks and
updates, except where a draw falls between two roundings of the same number."""

from dataclasses import replace

import numpy as np
import pytest
from engine_cases import (
    CASES,
    INFORMATIONAL,
    SEED,
    compare,
    compared,
    engines,
    every_third,
    rounding,
    scattered,
    usual,
)
from populations import dataset, lengths_between, varied

from asking import collected as answers_of
from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import with_malicious_model
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local

FEWER_THAN = 5_000  # one mismatched session in so many
# no pair can teach anything
STILL = {"single documents", "nothing to click", "k = 1", "network of zeros"}


@pytest.mark.parametrize("name", CASES)
def test_lists_clicks_and_updates_are_the_same(name):
    found = compared(name)
    # one client: a single draw on a boundary is no mistake, many would be
    assert found.mismatched <= 5
    if name not in STILL:
        assert found.moved > 0.05  # else there was nothing to compare


@pytest.mark.parametrize(
    "change", [{"lr": 0.1001}, {"mu": 0.01}, {"decay": 0.999}, {"pairs": "shown"}, {"k": 9}]
)
def test_the_comparison_sees_small_mistakes(change):
    case = CASES["four sessions"]()
    assert compare(case, replace(case.learner, **change)).mismatched > 100


def test_fewer_than_one_session_in_5000_falls_on_a_rounding_boundary():
    found = [compared(name) for name in CASES]
    sessions, mismatched = sum(c.sessions for c in found), sum(c.mismatched for c in found)
    assert sessions >= 20_000
    assert mismatched * FEWER_THAN < sessions, f"{mismatched} of {sessions}"


@pytest.mark.parametrize("change", [{"pull": 0.21}, {"learner": PDGD(sessions=4, lr=0.1001)}])
def test_the_comparison_sees_what_is_kept(change):
    case = CASES["personal"]()
    assert compare(case, replace(case.learner, **change)).mismatched > 100


@pytest.mark.parametrize("name", [name for name in CASES if "personal" in name])
def test_rounds_that_follow_each_other(name):
    """Each engine with its own memory; both get the parameters that the plain one arrived at."""
    case = CASES[name]()
    debug, local = engines(case, case.learner)
    params, clients, mismatched = case.params, np.arange(case.population.clients), 0
    for t in range(4):
        asked = clients[t % 2 :: 2] if t else clients  # who is not asked keeps what it has
        plain, fast = (
            answers_of(debug, params, t, asked)[0],
            answers_of(local, params, t, asked)[0],
        )
        allowed = (1 + t) * rounding(case)  # memory carries a round's rounding to the next
        differs = np.abs(plain.updates - fast.updates).max(axis=1) > allowed[asked]
        differs |= np.abs(debug.memory - local.memory).max(axis=1)[asked] > allowed[asked]
        mismatched += int(differs.sum())
        # one draw on a boundary shall not be counted twice
        local.memory[asked[differs]] = debug.memory[asked[differs]]
        np.testing.assert_allclose(debug.memory, local.memory, atol=allowed.max())
        params = params + plain.updates.mean(axis=0)
    assert mismatched <= 2
    assert not np.allclose(local.memory, case.memory(), atol=0.01)


RANKERS = [Linear(), MLP(hidden=7)]


def start(ranker, data):
    return (
        ranker.init(data.width, stream(1))
        + 0.3 * stream(2).normals(len(ranker.init(data.width, stream(1))))
    ).astype(np.float32)


def collected(engine, learner, ranker, population, **fields):
    memory, clients = (
        np.empty((len(population.first), 0), np.float32),
        np.arange(population.clients),
    )
    threads = {} if engine is Debug else {"threads": Threads(1)}
    made = engine(learner, ranker, population, SEED, memory, **threads, **fields)
    cohort, observed = answers_of(made, start(ranker, population.data), 2, clients)
    return cohort.updates, observed.ndcg, observed.max_rr, cohort.weights


def same(one, other):
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("engine", [Local, Debug])
@pytest.mark.parametrize("learner", [PDGD(), ES(antithetic=False)], ids=["PDGD", "ES"])
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_scattered_documents_are_as_good_as_a_reordered_copy(engine, learner, ranker):
    """The same bits as a data set in which every block lies in one piece."""
    data = usual()
    apart = scattered(data, 60)
    rows, ends = apart.rows, np.append(0, apart.stops)
    copy = Dataset(
        data.storage[rows],
        data.width,
        data.labels[:, rows],
        ends,
        data.grades,
        data.query_ids,
        content="copy",
    )
    together = replace(apart, data=copy, rows=np.arange(len(rows), dtype=np.int32))
    found = collected(engine, learner, ranker, apart)
    assert (found[0] != 0).any()
    assert same(found, collected(engine, learner, ranker, together))


MODELS = (Cascade(), INFORMATIONAL)


@pytest.mark.parametrize("engine", [Local, Debug])
@pytest.mark.parametrize(
    "learner", [PDGD(), ES(antithetic=False), ES(antithetic=False, entropy="shared")], ids=repr
)
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_malicious_users_lie_and_nobody_else_is_touched(engine, learner, ranker):
    poison = Cascade(kind="poison")
    honest = varied(dataset(lengths_between(2, 30)), MODELS, 60)
    population, lies = with_malicious_model(honest, poison), every_third(2, np.arange(60))
    found = collected(engine, learner, ranker, population, malicious=every_third)
    told = collected(engine, learner, ranker, honest)
    lied = collected(engine, learner, ranker, replace(honest, click_models=(poison, poison)))
    assert not same(told, lied)
    assert same([part[lies] for part in found], [part[lies] for part in lied])
    assert same([part[~lies] for part in found], [part[~lies] for part in told])
    # they know no other way
    assert same(collected(engine, learner, ranker, honest, malicious=every_third), told)


def test_who_lies_may_change_from_round_to_round():
    population = with_malicious_model(varied(usual(), MODELS, 30), Cascade(kind="poison"))
    clients, params = np.arange(30), start(Linear(), population.data)

    def local():
        return Local(
            PDGD(),
            Linear(),
            population,
            SEED,
            np.empty((30, 0), np.float32),
            threads=Threads(1),
            malicious=every_third,
        )

    one, asked = local(), [clients, clients, clients[::2], clients, clients[:1]]
    for t, who in zip([0, 3, 3, 1, 3], asked, strict=True):
        assert (
            answers_of(one, params, t, who)[0].updates.tobytes()
            == answers_of(local(), params, t, who)[0].updates.tobytes()
        )


@pytest.mark.parametrize("engine", [Local, Debug])
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_residual_that_is_forgotten_at_once_changes_no_bit(engine, ranker):
    """Personal(pull=1) is the learner alone."""
    learner, population = PDGD(mu=0.1, max_norm=4.0), varied(usual(), MODELS, 40)
    params, clients = start(ranker, population.data), np.arange(40)
    threads = {} if engine is Debug else {"threads": Threads(1)}
    parts = ranker, population, SEED
    alone = engine(learner, *parts, np.empty((40, 0), np.float32), **threads)
    forgetful = engine(
        Personal(learner=learner, pull=1.0),
        *parts,
        np.zeros((40, len(params)), np.float32),
        **threads,
    )
    for t in range(3):
        one, other = (
            answers_of(alone, params, t, clients)[0],
            answers_of(forgetful, params, t, clients)[0],
        )
        assert one.updates.tobytes() == other.updates.tobytes()
        assert not forgetful.memory.any()
        params = params + one.updates.mean(axis=0)
