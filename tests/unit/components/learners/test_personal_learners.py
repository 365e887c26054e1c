"""Learners that keep a part of the ranker on the device: what they refuse, what they guarantee,
and that they are compiled."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from asking import collected
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.es import ES
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.optimizers.adam import Adam
from foltr.components.optimizers.sgd import SGD
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.federation import Server, federate
from foltr.core.seeds import stream
from foltr.core.spec import learners
from foltr.core.system.process import Threads
from foltr.core.world.population import iid
from foltr.experiment import Experiment
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local

BOTH = [FedPer, Personal]
CLIENTS = 12
NETWORK = MLP(hidden=6)


@pytest.mark.parametrize("kind", BOTH)
def test_a_spec_holds_a_spec(kind):
    made = learners.build(f"{kind.__name__}(learner=PDGD(sessions=5, mu=0.1))")
    assert made == kind(learner=PDGD(sessions=5, mu=0.1)) and made.sessions == 5
    assert learners.build(repr(made)) == made


@pytest.mark.parametrize("kind", BOTH)
def test_rewards_are_refused(kind):
    with pytest.raises(Mistake, match="ES sends rewards: use PDGD"):
        kind(learner=ES())


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("inner", BOTH)
def test_one_around_the_other_is_refused(kind, inner):
    with pytest.raises(Mistake, match=f"{inner.__name__} keeps numbers on the device already"):
        Experiment(learner=kind(learner=inner()), ranker=NETWORK)


@pytest.mark.parametrize("kind", BOTH)
def test_a_privatizers_ball_is_refused(kind):
    with pytest.raises(Mistake, match=f"{kind.__name__} starts from weights of the client's own"):
        Experiment(
            learner=kind(), ranker=NETWORK, privacy=GammaShares(epsilon=1.2, sensitivity=3.0)
        )


def test_a_linear_ranker_has_no_head():
    with pytest.raises(Mistake, match=r"Linear has no layer beside it.*use MLP\(\)"):
        Experiment(learner="FedPer()")


@pytest.mark.parametrize("pull", [-0.1, 1.1, float("nan")])
def test_a_pull_is_a_share(pull):
    with pytest.raises(Mistake, match="pull"):
        Personal(pull=pull)


def alike_clients():
    return iid(Synthetic(queries=30).load("train"), Cascade(kind="informational"), CLIENTS, 4)


def begun(learner, ranker, population):
    params = ranker.init(population.data.width, stream(1, "init"))
    return params, np.tile(learner.remembered(ranker, params), (CLIENTS, 1))


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=repr)
def test_the_servers_head_never_changes(optimizer):
    learner, population = FedPer(), alike_clients()
    params, memory = begun(learner, NETWORK, population)
    local, server = (
        Local(learner, NETWORK, population, 3, memory, threads=Threads(1)),
        Server(learner, Mean(), optimizer),
    )
    sent = []
    end = federate(
        server, local, server.init(params), 6, lambda t: np.arange(t, CLIENTS), 3,
        lambda state, cohort, observed: sent.append(cohort.updates),
    )  # fmt: skip
    assert not any(updates[:, -6:].any() for updates in sent)
    assert (end.params[-6:] == params[-6:]).all() and (end.params[:-6] != params[:-6]).any()
    assert local.memory.any(axis=1).all()
    assert len(np.unique(local.memory, axis=0)) == CLIENTS  # everybody has another one


@pytest.mark.parametrize("learner", [FedPer(), Personal()], ids=repr)
def test_clients_rank_with_what_is_theirs(learner):
    """A client with the server's parameters and its memory does what one without memory does with
    both added up."""
    population = alike_clients()
    params, memory = begun(learner, NETWORK, population)
    memory[:] = 0.3 * stream(2).normals(memory.size).reshape(memory.shape)
    own = [learner.personal(params, kept) for kept in memory]
    parts, threads = (NETWORK, population, 3), Threads(1)
    shared = collected(
        Local(learner, *parts, memory, threads=threads), params, 1, np.arange(CLIENTS)
    )[0].updates
    nothing = np.empty((CLIENTS, 0), np.float32)
    for c in range(CLIENTS):
        alone = collected(
            Local(PDGD(), *parts, nothing, threads=threads), own[c], 1, np.array([c])
        )[0].updates[0]
        shared_part = len(params) - (memory.shape[1] if isinstance(learner, FedPer) else 0)
        assert alone[:shared_part].tobytes() == shared[c, :shared_part].tobytes()


@dataclass(frozen=True)
class Mine(PDGD):
    """Somebody's own, which may learn otherwise."""

    def learn(self, *args):
        update, weight, memory = PDGD.learn(self, *args)
        return 2 * update, weight, memory


@pytest.fixture
def registered():
    learners.register(Mine)
    yield
    learners.forget(__name__)


@pytest.mark.parametrize("engine", [Debug, Local])
def test_a_learner_of_ones_own_runs_plainly_inside(engine, registered):
    learner, population = Personal(learner=Mine()), alike_clients()
    params, memory = begun(learner, Linear(), population)
    threads = {} if engine is Debug else {"threads": Threads(1)}
    made = engine(learner, Linear(), population, 3, memory, **threads)
    cohort, _ = collected(made, params, 0, np.arange(3))
    nothing = np.empty((CLIENTS, 0), np.float32)
    plain, _ = collected(Debug(Mine(), Linear(), population, 3, nothing), params, 0, np.arange(3))
    assert cohort.updates.tobytes() == plain.updates.tobytes()
    if engine is Local:
        assert made.notes == (
            "runs as plain Python: there is no compiled kernel for Personal, Linear, Cascade"
            " together",
        )


def test_clients_of_opposite_tastes_are_served_by_rankers_of_their_own(tmp_path):
    """One wants documents with much of the first feature, the other those with little: no shared
    ranker serves both."""
    draws = stream(3, "tastes").uniforms(60 * 10 * 4).reshape(60, 10, 4)
    for name, sign in (("1", 1.0), ("2", -1.0)):
        lines = []
        for q, docs in enumerate(draws):
            best = np.argsort(-sign * docs[:, 0])[:3]
            for i, doc in enumerate(docs):
                features = " ".join(f"{f + 1}:{value:.6f}" for f, value in enumerate(doc))
                lines.append(f"{int(i in best)} qid:{q} {features}\n")
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    e = Experiment(
        data=f"Intents(path={str(tmp_path)!r})",
        partition="ByIntent(dealt='for good')",
        clients=2,
        rounds=300,
        users="Cascade(kind='perfect')",
        learner="PDGD(sessions=5)",
        evaluate_every=300,
    )
    alone = e.run().final["own_ndcg@10"]
    personal = replace(e, learner="Personal(learner=PDGD(sessions=5))").run().final
    assert alone < 0.7 and personal["personal_own_ndcg@10"] > alone + 0.25
