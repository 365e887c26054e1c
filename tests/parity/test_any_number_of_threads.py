"""Same bits for one, two and three threads, and for any order of the clients."""

import numpy as np
import pytest
from engine_cases import INFORMATIONAL, SEED, usual, weights
from populations import FEATURES, dataset, lengths_between, varied

from asking import collected
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.optimizers.adam import Adam
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.core import Cohort
from foltr.core.federation import Server, federate
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.kernels.evaluation import CHUNK
from foltr.simulation.engines.local import Local
from foltr.simulation.evaluation import Evaluator

CLIENTS = 151  # no multiple of any number of pieces
MODELS = (Cascade(), INFORMATIONAL)
RANKERS = [Linear(), MLP(hidden=7), MLP(hidden=16, activation="tanh")]


@pytest.fixture(autouse=True)
def every_round_is_shared(monkeypatch):
    monkeypatch.setattr("foltr.simulation.engines.local.ALONE", 0.0)


def start(ranker):
    return weights() if ranker == Linear() else ranker.init(FEATURES, stream(1, "init"))


def engine(ranker, threads):
    population = varied(usual(), MODELS, CLIENTS)
    return Local(
        PDGD(mu=0.1, max_norm=3.0),
        ranker,
        population,
        SEED,
        np.empty((CLIENTS, 0), np.float32),
        threads=threads,
    )


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_round(ranker):
    rounds = []
    for number in (1, 2, 3):
        with Threads(number).running() as threads:
            rounds.append(collected(engine(ranker, threads), start(ranker), 5, np.arange(CLIENTS)))
    (cohort, seen), *others = rounds
    assert (cohort.updates != 0).any(axis=1).mean() > 0.5
    for other, other_seen in others:
        assert other.updates.tobytes() == cohort.updates.tobytes()
        assert other.weights.tobytes() == cohort.weights.tobytes()
        assert other_seen.ndcg.tobytes() == seen.ndcg.tobytes()
        assert other_seen.max_rr.tobytes() == seen.max_rr.tobytes()


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_the_order_of_clients_changes_no_row(ranker):
    order = np.random.default_rng(1).permutation(CLIENTS)[:100]
    with Threads(2).running() as threads:
        local = engine(ranker, threads)
        whole, seen = collected(local, start(ranker), 2, np.arange(CLIENTS))
        part, part_seen = collected(local, start(ranker), 2, order)
    assert isinstance(part, Cohort) and part.clients.tolist() == order.tolist()
    assert part.updates.tobytes() == whole.updates[order].tobytes()
    assert part_seen.ndcg.tobytes() == seen.ndcg[order].tobytes()
    assert part_seen.max_rr.tobytes() == seen.max_rr[order].tobytes()


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_evaluation(ranker):
    data = dataset(lengths_between(1, 40, queries=150), grades=3)
    assert data.documents > 5 * CHUNK and data.documents % CHUNK
    tables = []
    for number in (1, 2, 3):
        with Threads(number).running() as threads:
            evaluate = Evaluator(
                ranker, data, ((1.0, Cascade().tables(3, 10)[0]),), "skip", SEED, threads
            )
            tables.append(evaluate.per_query(start(ranker)).tobytes())
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_whole_federations(ranker):
    ends = []
    for number in (1, 2, 3):
        with Threads(number).running() as threads:
            server, local = Server(PDGD(), Mean(), Adam(lr=0.05)), engine(ranker, threads)
            state = server.init(start(ranker))
            end = federate(
                server, local, state, 5, lambda t: np.arange(t, CLIENTS), SEED, lambda *seen: None
            )
            ends.append(end.params.tobytes())
    assert ends[0] == ends[1] == ends[2] != server.init(start(ranker)).params.tobytes()


@pytest.mark.parametrize("learner", [FedPer(), Personal()], ids=repr)
def test_what_devices_keep(learner):
    ranker, population, kept = MLP(hidden=7), varied(usual(), MODELS, CLIENTS), []
    for number in (1, 2, 3):
        memory = np.tile(learner.remembered(ranker, start(ranker)), (CLIENTS, 1))
        with Threads(number).running() as threads:
            local = Local(learner, ranker, population, SEED, memory, threads=threads)
            for t in range(3):
                collected(local, start(ranker), t, np.arange(t, CLIENTS))
        kept.append(memory.tobytes())
    assert kept[0] == kept[1] == kept[2]
    assert memory.any(axis=1).mean() > 0.9
