"""From an experiment to people, malicious ones, and what becomes of messages."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import foltr
from foltr.core import Answers, Ask, Cohort
from foltr.errors import Mistake
from foltr.federation import Delivery, Observed
from foltr.kinds import ChangesMessages
from foltr.runs.setup import delivery_of, population_of, warmed_up
from foltr.seeds import stream
from foltr.simulation.malicious import Malicious, MaliciousRewrite
from foltr.system.threads import Threads

SMALL = foltr.Experiment(
    data="Synthetic(queries=30)", clients=6, rounds=4, learner="PDGD(sessions=3)"
)


def test_the_malicious_are_the_same_in_every_round_unless_they_roam():
    everybody = np.arange(20)
    fixed, roaming = Malicious(20, 5, False, 1), Malicious(20, 5, True, 1)
    assert {tuple(fixed(t, everybody)) for t in range(30)} == {tuple(fixed(0, everybody))}
    assert len({tuple(roaming(t, everybody)) for t in range(30)}) > 20
    for t in range(30):
        assert fixed(t, everybody).sum() == roaming(t, everybody).sum() == 5
        np.testing.assert_array_equal(np.flatnonzero(roaming(t, everybody)), roaming.members(t))
    some = np.array([19, 3, 7])  # a round's clients, in any order
    np.testing.assert_array_equal(fixed(0, some), np.isin(some, fixed.members(0)))


def test_who_is_malicious_depends_on_the_seed_and_never_on_the_server():
    assert len({tuple(Malicious(20, 5, False, seed).members(0)) for seed in range(20)}) > 15
    hosts = np.array([20, 21])
    assert (
        not Malicious(20, 19, False, 1)(0, hosts).any()
        and not Malicious(20, 19, True, 1)(3, hosts).any()
    )


@dataclass(frozen=True)
class Sends(ChangesMessages):
    rows: np.ndarray

    def craft(self, cohort, malicious, ask, rng):
        return self.rows


COHORT = Cohort(np.arange(3), np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3))
ASK = Ask(np.zeros(2, np.float32), 0, 3)
SECOND = lambda t, clients: clients == 1  # noqa: E731


def test_an_attack_changes_the_messages_of_the_malicious_alone():
    before = COHORT.updates.copy()
    sent = MaliciousRewrite(Sends(np.full((1, 2), 9, np.float32)), SECOND)(COHORT, ASK, stream(1))
    np.testing.assert_array_equal(sent.updates, [[0, 1], [9, 9], [4, 5]])
    np.testing.assert_array_equal(COHORT.updates, before)
    nobody = MaliciousRewrite(Sends(np.zeros((0, 2))), lambda t, clients: clients == 7)
    assert nobody(COHORT, ASK, stream(1)) is COHORT


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(
        Mistake, match=r"Sends.craft gave \(2, 2\) of kind 'f' for 1 malicious clients"
    ):
        MaliciousRewrite(Sends(np.zeros((2, 2))), SECOND)(COHORT, ASK, stream(1))
    with pytest.raises(Mistake, match="round 5: Sends sends numbers that are not finite"):
        MaliciousRewrite(Sends(np.array([[np.inf, 0]])), SECOND)(
            COHORT, replace(ASK, t=5), stream(1)
        )
    # its square overflows, it does not
    huge = MaliciousRewrite(Sends(np.full((1, 2), 3e38, np.float32)), SECOND)
    assert np.isfinite(huge(COHORT, ASK, stream(1)).updates).all()


def test_the_servers_own_client_is_kept_apart():
    delivery = Delivery(host=2)
    np.testing.assert_array_equal(delivery.asked(np.array([0, 1])), [0, 1, 2])
    seen = Observed(np.array([0.1, 0.2, 0.9]), np.array([0.3, 0.4, 0.8]))
    answers = delivery.without_host(Answers(COHORT.clients, COHORT, seen))
    sent, observed = answers.arrived, answers.observed
    np.testing.assert_array_equal(answers.asked, [0, 1])
    np.testing.assert_array_equal(sent.clients, [0, 1])
    np.testing.assert_array_equal(sent.trusted, [4, 5])
    np.testing.assert_array_equal(observed.ndcg, [0.1, 0.2])


def test_trusted_queries_become_the_servers_own_client():
    e = replace(SMALL, aggregator="FLTrust(queries=4)")
    data = e.data.load("train")
    p = population_of(e, data)
    assert p.clients == 6 and p.server_clients == 1 and delivery_of(e, p).host == 6
    rows, _, offsets = p.held(6)
    assert len(offsets) == 5 and set(offsets[:-1].tolist()) <= set(range(len(rows)))
    with pytest.raises(Mistake, match="FLTrust wants 500 trusted queries, and there are 30"):
        population_of(replace(e, aggregator="FLTrust(queries=500)"), data)


def test_noise_does_not_touch_what_the_server_learns_alone():
    shared = replace(SMALL, partition="Sharing(of=ByLabel(), share=0.3, warmup=20)")
    # a ball that nothing reaches
    private = replace(shared, privacy="GammaShares(epsilon=1.2, sensitivity=500)")
    data, params = shared.data.load("train"), np.zeros(shared.data.load("train").width)
    alone = [
        warmed_up(e, population_of(e, data), params, Threads(1), "local")
        for e in (shared, private)
    ]
    np.testing.assert_array_equal(*alone)
    assert np.abs(alone[0]).max() > 0


def test_equal_weights_are_those_of_clients_not_of_the_server():
    uneven = replace(
        SMALL,
        privacy="GammaShares(epsilon=1.2, sensitivity=3)",
        partition="ByVolume(sessions=(1, 5))",
    )
    with pytest.raises(Mistake, match="GammaShares needs equal weights"):
        population_of(uneven, uneven.data.load("train"))
    even = replace(uneven, partition="ByVolume(sessions=(5, 5), of=Sharing(of=ByLabel()))")
    # it searches 3 times, as the learner says
    assert population_of(even, even.data.load("train")).server_clients == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"malicious": 2}, "malicious=2, roaming=False: that needs an attack"),
        ({"roaming": True}, "roaming=True: that needs an attack"),
        (
            {"attack": "DataPoisoning()"},
            "needs 1 .. 5 of 6 clients to be malicious, got malicious=0",
        ),
        ({"attack": "DataPoisoning()", "malicious": 6}, "got malicious=6"),
        (
            {"attack": "InnerProduct()", "malicious": 1, "learner": "ES()"},
            "messages of ES are rewards",
        ),
        ({"aggregator": "Krum(malicious=4)"}, "needs n > m [+] 2, at least 7 clients"),
        ({"aggregator": "Bulyan(malicious=1)"}, "at least 7 clients in a round: here n = 6"),
        ({"aggregator": "TrimmedMean(malicious=3)"}, "n > 2m"),
        ({"learner": "FedPer()"}, "Linear has no layer"),
        (
            {"aggregator": "FLTrust()", "privacy": "Laplace(epsilon=1, clip=1)"},
            "leave privacy out",
        ),
        ({"history": 0}, "history must be >= 1"),
        ({"history": 5, "learner": "ES()"}, "messages of ES are rewards: leave history out"),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_built(fields, told):
    with pytest.raises(Mistake, match=told):
        replace(SMALL, **fields)


def test_what_no_proof_covers_runs_with_a_note():
    result = replace(
        SMALL, aggregator="Krum(malicious=2)", attack="DataPoisoning()", malicious=2
    ).run()
    assert any(
        "Krum's proof needs n > 2m + 2 = 6: here n = 6, m = 2" in note
        for note in result.final["notes"]
    )
