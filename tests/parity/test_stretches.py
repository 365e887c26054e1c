"""Rounds in compiled stretches have the bits of `federate`: parameters, memories, and the rows of
what was observed, for all parts that have twins and for any division into stretches."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foltr.simulation.runs.train
from foltr.components.partitions.by_clicks import ByClicks
from foltr.core.errors import Mistake
from foltr.core.federation import Participants, Server, federate
from foltr.core.seeds import stream
from foltr.experiment import Experiment
from foltr.kernels import rules
from foltr.kernels.crafting import numpy_sum
from foltr.simulation.engines.stretch import Stretch, missing, parts_of
from foltr.simulation.runs.context import Context
from foltr.simulation.runs.run import Run
from foltr.simulation.runs.setup import delivery_of, engine_of
from property_settings import examples

BASE = Experiment(
    data="Synthetic(queries=25)",
    users="Cascade(kind='informational')",
    clients=7,
    rounds=16,
    evaluate_every=6,
    learner="PDGD(sessions=2)",
)
RULES = (
    "Mean()",
    "Krum(malicious=2)",
    "Krum(malicious=1, squared=True)",
    "MultiKrum(malicious=2)",
    "TrimmedMean(malicious=2)",
    "Median()",
    "Gated()",
    "Gated(horizon=5, limit=0.5, uneven=1.0, longest=1.5)",
    "Gated(fallback=Krum(malicious=2), limit=0.3, uneven=1.0)",
    "Gated(fallback=TrimmedMean(malicious=3), limit=0.3, uneven=1.0)",
)
ATTACKS = (
    "DataPoisoning()",
    "LittleIsEnough()",
    "LittleIsEnough(z=1.5, knowledge='all')",
    "InnerProduct()",
    "InnerProduct(knowledge='own')",
    "FangKrum()",
    "FangKrum(knowledge='all', squared=True)",
    "FangMultiKrum()",
    "FangMultiKrum(knowledge='all')",
    "FangTrimmed()",
    "FangTrimmed(knowledge='all')",
    "MinSum()",
    "MinSum(direction='unit', knowledge='own')",
    "MinSum(direction='sign')",
    "Mimic()",
    "CompromisedModel()",
    "Disguised()",
    "Disguised(attack=FangTrimmed(knowledge='all'), share=0.5)",
)
LEARNERS = (
    ("PDGD(sessions=3, decay=0.99, mu=0.1, max_norm=2.0)", "Linear()"),
    ("PDGD(sessions=3, update='round', explore=False)", "MLP(hidden=5)"),
    ("PDGD(sessions=2)", "MLP(hidden=6, activation='relu')"),
    ("ES(sessions=4)", "Linear()"),
    ("ES(sessions=4, antithetic=True, objective='dcg')", "MLP(hidden=4, activation='tanh')"),
    ("ES(sessions=2, entropy='shared')", "Linear()"),
    ("FedPer(learner=PDGD(sessions=2))", "MLP(hidden=5)"),
    ("Personal(learner=PDGD(sessions=2), pull=0.1)", "Linear()"),
    ("Personal(learner=PDGD(sessions=2, mu=0.1), pull=0.3)", "MLP(hidden=3)"),
)
PRIVACY = (
    "GammaShares(epsilon=4.5, sensitivity=3.0)",
    "Laplace(epsilon=5.0, clip=1.0)",
    "Gaussian(noise=0.5, clip=1.0)",
    "Gaussian(noise=0.5, clip=1.0, where='client')",
)
WHOLE_UP_TO = 12  # many combinations are only tried with some of the others


@pytest.fixture
def counted(monkeypatch):
    """How many rounds `federate` makes."""
    found = []

    def federated(server, engine, state, rounds, *rest):
        found.extend(range(state.t, rounds))
        return federate(server, engine, state, rounds, *rest)

    monkeypatch.setattr(foltr.simulation.runs.train, "federate", federated)
    return found


def bits(result):
    return result.params.tobytes(), result.metrics.csv()


def one_by_one(e):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foltr.simulation.runs.train, "stretch_of", lambda *parts: None)
        return e.run()


def assert_same(e, counted, most=0):
    """Both ways give the same, and `federate` makes `most` rounds of the stretches at most."""
    plain = one_by_one(e)
    counted.clear()
    fast = e.run()
    assert bits(fast) == bits(plain), e
    assert len(counted) <= most, e
    assert not any("one by one" in note for note in fast.final["notes"])
    assert plain.final | {"seconds": 0, "kernel_seconds": 0} == fast.final | {
        "seconds": 0,
        "kernel_seconds": 0,
    }


def is_first(rule):
    """Whether it is the first of its class, and not the same rule with other settings."""
    return rule == next(other for other in RULES if other.split("(")[0] == rule.split("(")[0])


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=[] if is_first(rule) else [pytest.mark.slow]) for rule in RULES],
)
def test_rules_and_attacks(rule, counted):
    gated = rule.startswith("Gated")
    e = replace(BASE, aggregator=rule)
    assert_same(e, counted, most=gated)
    first = is_first(rule)
    for i, attack in enumerate(ATTACKS):
        if not first and (i + RULES.index(rule)) % 3:
            continue  # a rule with other settings gets every third attack
        attacked = replace(e, attack=attack, malicious=2, roaming=i % 3 == 1, seed=i)
        assert_same(attacked, counted, most=gated)


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_on_a_part_of_the_clients(attack, counted):
    """Where another number of malicious clients takes part in each round, and sometimes none."""
    for roaming in (False, True):
        e = replace(BASE, clients=30, participation=0.3, malicious=5, attack=attack)
        assert_same(replace(e, roaming=roaming, aggregator="Median()"), counted)


@pytest.mark.parametrize(
    "attack", ["LittleIsEnough()", "FangTrimmed(knowledge='all')", "MinSum()"]
)
def test_many_clients_with_many_parameters(attack, counted):
    """More numbers than NumPy adds up at a time."""
    e = replace(BASE, data="Synthetic(shape='MSLR', queries=12)", clients=100, rounds=6)
    for rule in ("TrimmedMean(malicious=20)", "MultiKrum(malicious=20)", "Median()"):
        assert_same(replace(e, aggregator=rule, attack=attack, malicious=20), counted)


def test_what_very_many_devices_keep_is_not_copied(counted, monkeypatch):
    e = replace(BASE, learner="Personal(learner=PDGD(sessions=2))", participation=0.5)
    monkeypatch.setattr("foltr.simulation.engines.stretch.KEPT", 0)
    assert any("memory of devices" in note for note in e.run().final["notes"])
    assert_same(replace(e, participation=1.0), counted)


def test_attacks_on_large_networks_are_made_one_by_one(counted):
    e = replace(BASE, ranker="MLP(hidden=200)", attack="MinSum()", malicious=2, rounds=3)
    assert any("for MinSum" in note for note in e.run().final["notes"])
    assert_same(replace(e, attack=None, malicious=0), counted)


@pytest.mark.parametrize("optimizer", ["SGD(lr=0.7)", "Adam(lr=0.01)"])
@pytest.mark.parametrize(("learner", "ranker"), LEARNERS)
def test_learners_and_optimizers(learner, ranker, optimizer, counted):
    e = replace(BASE, learner=learner, ranker=ranker, optimizer=optimizer)
    assert_same(e, counted)
    assert_same(replace(e, aggregator="Krum(malicious=2)", participation=0.8), counted)
    gated = replace(e, aggregator="Gated()", participation=0.6)
    assert_same(gated, counted, most=WHOLE_UP_TO)  # a client that is new is met singly


@pytest.mark.parametrize("privacy", PRIVACY)
def test_noise(privacy, counted):
    e = replace(BASE, privacy=privacy, rounds=12)
    assert_same(e, counted)
    assert_same(replace(e, participation=0.6, ranker="MLP(hidden=3)", clients=9), counted)


def test_noise_on_rewards(counted):
    e = replace(BASE, learner="ES(sessions=4)", privacy="RandomizedReward(p=0.6)")
    assert_same(e, counted)


@pytest.mark.parametrize(
    "change",
    [
        {"partition": "ByClicks()", "users": "Cascade()", "clients": 9},
        {"partition": "ByVolume()", "clients": 10},
        {"partition": "ByLabel(labels=2)", "clients": 6},
    ],
    ids=str,
)
def test_clients_that_are_not_alike(change, counted):
    assert_same(replace(BASE, **change), counted)
    assert_same(replace(BASE, **change, participation=0.5, aggregator="Median()"), counted)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"aggregator": "GeometricMedian()"}, "GeometricMedian"),
        ({"attack": "MinMax()", "malicious": 2}, "MinMax"),
        ({"attack": "Mimic(target='outermost')", "malicious": 2}, "Mimic"),
        ({"privacy": "Gaussian(noise=0.5, clip=1.0, where='server')"}, "Gaussian"),
        ({"dropout": 0.2}, "dropout"),
        ({"aggregator": "Gated(fallback=Gated())"}, "Gated"),
    ],
)
def test_what_has_no_twin_is_named_and_runs_as_before(change, named, counted):
    e = replace(BASE, **change)
    made = e.run()
    assert bits(made) == bits(one_by_one(e)) and len(counted) >= e.rounds
    slow = f"rounds are made one by one: no compiled stretch of rounds for {named}"
    assert slow in made.final["notes"]


def parts(e):
    context: Context = Run(e, None).context
    params = e.ranker.init(context.train.width, stream(e.seed, "init")).astype(np.float64)
    server = Server(e.device_learner, e.aggregator, e.optimizer, e.privacy)
    engine = engine_of(e, context.population, params, context.threads, context.engine)
    choose = Participants(np.arange(e.clients), e.participation, e.seed)
    delivery = delivery_of(e, context.population)
    return server, engine, choose, delivery, server.init(params)


DIVIDED = {
    "plain": BASE,
    "personal, sampled, gated": replace(
        BASE,
        learner="Personal(learner=PDGD(sessions=2), pull=0.1)",
        aggregator="Gated(limit=0.5, uneven=1.0)",
        optimizer="Adam(lr=0.05)",
        participation=0.6,
        attack="LittleIsEnough(z=1.0)",
        malicious=2,
        roaming=True,
    ),
    "poisoned network": replace(
        BASE, ranker="MLP(hidden=4)", attack="DataPoisoning()", malicious=3, roaming=True
    ),
}


@pytest.mark.parametrize("name", DIVIDED)
@examples(15)
@given(st.lists(st.integers(-2, 9), min_size=1, max_size=12))
def test_any_division_into_stretches(name, lengths):
    """Stretches of these lengths; a negative one stands for rounds by definition."""
    e = DIVIDED[name]
    server, engine, choose, delivery, state = parts(e)
    rows, expected = [], []
    kept = lambda state, sent, seen: expected.append([seen.ndcg, seen.max_rr, sent.weights])  # noqa: E731
    also = lambda state, sent, seen: rows.append([seen.ndcg, seen.max_rr, sent.weights])  # noqa: E731
    after = federate(server, engine, state, e.rounds, choose, e.seed, kept, delivery)
    server, again, choose, delivery, here = parts(e)
    given = parts_of(server, again, choose, delivery, e.seed, len(here.params))
    stretch = Stretch(given)
    turn = 0
    while here.t < e.rounds:
        wanted = min(lengths[turn % len(lengths)], e.rounds - here.t)
        turn += 1
        made = 0
        if wanted > 0:
            here, seen = stretch.advance(here, wanted)
            rows.extend(seen)
            made = len(seen)
        if made < wanted or wanted <= 0:
            until = min(here.t + max(1, -wanted), e.rounds)
            here = federate(server, again, here, until, choose, e.seed, also, delivery)
    assert here.params.tobytes() == after.params.tobytes()
    assert np.array_equal(np.array(rows), np.array(expected))
    assert again.memory.tobytes() == engine.memory.tobytes()
    for one, other in ((here.aggregator, after.aggregator), (here.optimizer, after.optimizer)):
        assert [part.tobytes() for part in one] == [part.tobytes() for part in other]
    assert not missing(given)


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=3)"])
def test_scores_that_are_not_finite_name_client_and_round(ranker, counted):
    """Also inside a stretch, and as `federate` names them."""
    e = replace(BASE, ranker=ranker, learner="PDGD(lr=3e38, sessions=2)", evaluate_every=24)
    with pytest.raises(FloatingPointError) as plain:
        one_by_one(e)
    counted.clear()
    with pytest.raises(FloatingPointError) as fast:
        e.run()
    assert str(fast.value) == str(plain.value) and "round " in str(plain.value)
    assert len(counted) == 1


def test_tables_in_any_order_of_memory(counted, monkeypatch):
    """As a partition of a user's own may make them."""
    e = replace(BASE, users="Cascade()", clients=6, partition=ByClicks(iid=True))
    straight, population = e.run(), ByClicks.population

    def turned(self, *given):
        p = population(self, *given)
        return replace(p, models=np.asfortranarray(p.models))

    monkeypatch.setattr(ByClicks, "population", turned)
    assert_same(e, counted)
    assert e.run().params.tobytes() == straight.params.tobytes()


CLICKS = "Cascade(kind='custom', click=(0.5, 0.5, 0.5), stop=(0.0, 0.0, 0.0))"
NONE = "Cascade(kind='custom', click=(0.0, 0.0, 0.0), stop=(0.0, 0.0, 0.0))"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "attack", ["FangKrum(knowledge='all')", "FangMultiKrum(knowledge='all')", "InnerProduct()"]
)
def test_updates_that_are_not_finite_before_an_attack(attack):
    """Of a malicious client, whose message a twin must not replace unseen."""
    models = f"ByClicks(models=({CLICKS}, {NONE}, {NONE}, {NONE}, {NONE}))"
    e = replace(BASE, users="Cascade()", partition=models, clients=5, malicious=1, attack=attack)
    e = replace(e, learner="PDGD(lr=2e39, sessions=1)", optimizer="SGD(lr=1e-38)", rounds=4)
    seeds = [seed for seed in range(30) if replace(e, seed=seed).attackers.members(0)[0] == 0]
    differ = 0
    for seed in seeds[:4]:
        outcomes = []
        for run in (one_by_one, Experiment.run):
            try:
                outcomes.append(bits(run(replace(e, seed=seed))))
            except (FloatingPointError, Mistake) as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]
        differ += isinstance(outcomes[0][0], type)
    assert differ or attack == "InnerProduct()"  # some run fails, in both ways


def test_zeros_of_both_signs_are_left_to_the_definition():
    """NumPy sorts them in an order that depends on the machine."""
    memory = np.empty(0, np.int64), np.empty((0, 2)), np.empty((0, 4)), np.empty(0)
    none, numbers, direction = np.empty(0, np.int64), np.empty(0), np.empty(2)

    def combined(*columns):
        updates = np.array(columns, np.float32).T.copy()
        n = len(updates)
        return rules.median(none, numbers, np.arange(n), updates, np.ones(n), memory, direction)

    assert combined([-0.0, 0.0, 0.0], [1.0, 2.0, 3.0]) == rules.UNUSUAL
    assert combined([-0.0, 5.0, 0.0, 7.0, 8.0], [0.0, 0.0, 0.0, -1.0, 1.0]) == rules.DONE
    assert direction.tolist() == [5.0, 0.0]


@pytest.mark.filterwarnings("ignore")
def test_an_attack_that_would_start_at_infinity():
    """Halving infinity would never end."""
    attacked = replace(BASE, attack="FangKrum(start=1e308)", malicious=2, users="Cascade()")
    for run in (one_by_one, Experiment.run):
        with pytest.raises(Mistake, match="FangKrum sends numbers that are not finite"):
            run(replace(attacked, learner="PDGD(lr=100.0, sessions=1)"))


def test_sums_as_numpy_makes_them():
    for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 100, 127, 128, 129, 136, 255, 264, 700, 3001, 8192):
        v = stream(1, "sums", n).normals(n) * 10.0 ** stream(2, n).uniforms(n)
        assert numpy_sum(v) == v.sum()
