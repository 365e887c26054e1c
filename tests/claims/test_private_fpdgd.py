"""Figures 3.6 and 3.8 of the thesis in kind: FPDGD with its noise shares, beside FOLtR-ES at equal
interactions, on MQ2008, from the file in reproduce/."""

import numpy as np
import pytest

pytestmark = pytest.mark.claims
KINDS = ("perfect", "navigational", "informational")
PAIRS = ((1.2, 3.0), (2.3, 3.0), (4.5, 5.0), (10.0, 5.0))
EQUAL = ((1.2, 0.25), (4.5, 0.9))  # epsilon of FPDGD and p of FOLtR-ES that the thesis compares


@pytest.fixture(scope="module")
def runs(made):
    return made("thesis-3.6")


@pytest.fixture(scope="module")
def beside(made):
    """FPDGD and FOLtR-ES with 1000 clients, at two of the four pairs of the thesis."""

    def chosen(point):
        privacy, clients = point.experiment.privacy, point.experiment.clients
        at = getattr(privacy, "epsilon", None) or getattr(privacy, "p", None)
        return clients == 1000 and (privacy is None or at in {x for pair in EQUAL for x in pair})

    return made("thesis-3.6", chosen)


def level(runs, kind, **fields):
    """Mean of five folds of the mean of the last tenth of the evaluations of offline nDCG@10."""
    chosen = runs.where(**{"users.kind": kind, **fields})
    assert len(chosen) == 5
    curves = [run.curve("ndcg@10").values for run in chosen]
    return float(np.mean([curve[-max(1, len(curve) // 10) :].mean() for curve in curves]))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_costs_little_with_many_clients_and_much_with_few(runs, kind):
    lost = {}
    for clients in (10, 100, 1000):
        bare = level(runs, kind, clients=clients, privacy=None)
        for epsilon, sensitivity in PAIRS:
            private = {"privacy.epsilon": epsilon, "privacy.sensitivity": sensitivity}
            lost[clients, epsilon] = bare - level(runs, kind, clients=clients, **private)
        print(
            f"{kind}, {clients} clients: {bare:.4f}, lost",
            {e: round(lost[clients, e], 4) for e, _ in PAIRS},
        )
    for epsilon, _ in PAIRS:
        assert lost[1000, epsilon] < 0.01
        assert lost[10, epsilon] > lost[1000, epsilon] + 0.01
    assert lost[10, 1.2] > 0.05 and lost[10, 1.2] > lost[10, 10.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("epsilon", "p"), EQUAL)
def test_fpdgd_beside_foltr_es_at_equal_interactions(beside, kind, epsilon, p):
    """The thesis finds FPDGD above FOLtR-ES offline at equal epsilon: so it is here, with the
    published seeding and with independent draws. Online FOLtR-ES is ahead, also under
    informational clicks, where in the thesis it is not."""
    fpdgd = level(beside, kind, clients=1000, **{"privacy.epsilon": epsilon})
    es = {
        entropy: level(beside, kind, **{"learner.entropy": entropy, "privacy.p": p})
        for entropy in ("independent", "shared")
    }

    def online(**fields):
        chosen = beside.where(**{"users.kind": kind, **fields})
        assert len(chosen) == 5
        return float(np.mean([run.final["online"] for run in chosen]))

    private = online(clients=1000, **{"privacy.epsilon": epsilon})
    bare = online(clients=1000, privacy=None)
    ours = online(**{"learner.entropy": "independent", "privacy.p": p})
    print(
        f"{kind}, epsilon {epsilon}, p {p}: offline FPDGD {fpdgd:.4f}, ES",
        {entropy: round(value, 4) for entropy, value in es.items()},
        f"online FPDGD {private:.1f}, without noise {bare:.1f}, ES {ours:.1f}: ahead by"
        f" {ours / private - 1:.3f} and {ours / bare - 1:.3f}",
    )
    assert fpdgd > max(es.values()) + 0.001
    assert 1.05 < ours / private < 1.11
    assert 0.99 < ours / bare < 1.08
