"""Clicks from sums: the formula is what it says, bare sums are open as far as they are said to be,
and noise hides."""

import numpy as np
import pytest

from chance import max_auc_by_chance
from foltr.simulation.audits import labels
from foltr.simulation.audits.guesses import Model, click_sets
from foltr.simulation.audits.labels import (
    ABSENT,
    OTHERS_NORMAL,
    OTHERS_TOO,
    SETS_ABSENT,
    infer_labels,
)
from foltr.simulation.audits.noise import of_others, sent, summed, variance
from foltr.simulation.audits.searches import single
from foltr.simulation.audits.sums import Sum, member, prior, rounding

MANY = "Synthetic(queries=180)"
LAPLACE = "Laplace(epsilon=90, clip=0.05)"


def rows(made, *sizes, **fields):
    """(attack, clients) -> means of the measures, and whether the AUC is that of a guess."""
    e, params, found = made(**fields)
    got = infer_labels(e, params, found, tuple(map(summed, sizes)), 1e-5, lambda *_: None)
    means = {}
    for row in got:
        here = {name: each.mean for name, each in row.measures.items()}
        if area := row.measures.get("AUC"):
            here["guess"] = abs(area.mean - 0.5) < max_auc_by_chance(area.count) - 0.5
        means[row.attack, row.view.arriving] = here
    return means


def sums(made, n, **fields):
    """The model, searches, and what n of their clients send, summed."""
    e, params, found = made(**fields)
    model = Model(single(e), e.privacy, params, e.rounds)
    arrived = sent(
        e.privacy, np.stack([search.payload for search in found[:n]]), n, e.seed, e.rounds
    ).sum(axis=0)
    clients = [member(model, search, n) for search in found[:n]]
    noise = variance(e.privacy, summed(n), len(params)) + rounding(params, clients)
    return model, found[:n], clients, arrived.astype(np.float64), noise


def test_before_anything_arrives_every_document_is_as_likely_as_another():
    chance = np.exp(prior(6))
    assert chance.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(chance @ click_sets(6), 1 / 3)  # of Beta(1/2, 1)
    together = chance @ (click_sets(6)[:, 0] & click_sets(6)[:, 5])
    assert together > 1.5 / 9


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=4)"])
@pytest.mark.parametrize("privacy", [None, "GammaShares(epsilon=90, sensitivity=0.3)", LAPLACE])
def test_what_a_client_could_send_is_taken_apart_without_loss(made, ranker, privacy):
    """Also where a ball or the privatizer clips, and where two documents are alike."""
    model, found, clients, _, _ = sums(
        made, 3, learner="PDGD(k=4, pairs='shown')", ranker=ranker, privacy=privacy, weights=3.0
    )
    found[0].gradients[2] = found[0].gradients[1]
    for each, search in zip([member(model, found[0], 3), *clients[1:]], found, strict=True):
        np.testing.assert_allclose(
            each.mean + each.sets @ each.ways.T, model.updates(search, 3), atol=1e-9
        )
        chance = np.exp(prior(4))
        np.testing.assert_allclose(chance @ each.sets, 0.0, atol=1e-7)
        used = np.square(each.ways).sum(axis=0) > 0.0
        np.testing.assert_allclose(
            (each.sets.T * chance) @ each.sets, np.diag(used.astype(float)), atol=1e-5
        )


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=4)"])
@pytest.mark.parametrize("privacy", ["Gaussian(noise=0.1, clip=0.05, where='shares')", LAPLACE])
def test_the_first_guess_is_the_formula(made, ranker, privacy):
    model, found, clients, arrived, noise = sums(
        made, 3, learner="PDGD(k=4)", ranker=ranker, privacy=privacy
    )
    chance, updates = np.exp(prior(4)), [model.updates(search, 3) for search in found]
    means = [chance @ each for each in updates]
    covariances = [
        (u - m).T @ ((u - m) * chance[:, None]) for u, m in zip(updates, means, strict=True)
    ]
    for i, guess in enumerate(Sum(clients, noise).first([0, 1, 2], arrived)):
        others = [j for j in range(3) if j != i]
        r = arrived - updates[i] - sum(means[j] for j in others)
        inverse = np.linalg.inv(sum(covariances[j] for j in others) + noise * np.eye(len(arrived)))
        fit = np.log(chance) - 0.5 * np.einsum("sd,de,se->s", r, inverse, r)
        likely = np.exp(fit - fit.max())
        np.testing.assert_allclose(guess.belief, likely @ click_sets(4) / likely.sum(), atol=1e-6)


@pytest.mark.parametrize("n", [4, 10])
def test_all_clicks_of_ten_clients_are_in_their_bare_sum(made, n):
    """46 weights, 100 documents: least squares is lost, trying click sets is not."""
    _, found, clients, arrived, noise = sums(made, n, learner="PDGD(pairs='shown')", data=MANY)
    clicks = np.stack([search.clicks for search in found])
    settled = np.stack([guess.clicked for guess in Sum(clients, noise).settled(arrived)])
    assert (settled == clicks).all()


def test_bare_sums_reveal_more_to_who_tries_click_sets_and_hardly_anything_of_who_is_not_in_them(
    made,
):
    found = rows(made, 2, 5, 10, learner="PDGD(pairs='shown')")
    for n in (2, 5):
        assert (
            found[OTHERS_NORMAL, n]["accuracy"] > 0.99 and found[OTHERS_TOO, n]["accuracy"] > 0.99
        )
    squares, normal, too = (
        found[name, 10]["accuracy"] for name in ("least squares", OTHERS_NORMAL, OTHERS_TOO)
    )
    assert squares + 0.1 < normal < too and too > 0.99
    assert all(found[control, n]["guess"] for control in (ABSENT, SETS_ABSENT) for n in (2, 5, 10))


@pytest.mark.parametrize("many", [100, 10**9])
def test_a_sum_with_fewer_documents_than_weights_hides_nothing(made, monkeypatch, many):
    """384 weights and 200 documents of twenty clients: open to plain least squares. In a ranker of
    `many` weights or more, all clients of a sum are sought at once, and one after the other in
    smaller ones."""
    monkeypatch.setattr(labels, "MANY_WEIGHTS", many)
    monkeypatch.setattr(labels, "TARGETS", 8)
    found = rows(made, 20, ranker="MLP(hidden=8, scale=1.0)", data=MANY)
    assert found["least squares", 20]["AUC"] > 0.99
    assert found[OTHERS_NORMAL, 20]["accuracy"] > 0.97 and found[OTHERS_NORMAL, 20]["AUC"] > 0.99
    assert found[ABSENT, 20]["guess"] and found[SETS_ABSENT, 20]["guess"]


NOISY = [
    "GammaShares(epsilon=1.2, sensitivity=3.0)",
    "Gaussian(noise=4.0, clip=0.5, where='shares')",
    "Laplace(epsilon=1.2, clip=0.5)",
]


@pytest.mark.parametrize("privacy", NOISY)
def test_noise_with_a_guarantee_hides_clicks_from_click_sets_too(made, privacy):
    found = rows(made, 2, 10, privacy=privacy, data=MANY)
    for attack in (OTHERS_NORMAL, OTHERS_TOO):
        assert all(found[attack, n]["guess"] for n in (2, 10))


def test_noise_of_the_server_hides_nothing_from_it(made):
    found = rows(made, 5, privacy="Gaussian(noise=1.0, clip=0.5, where='server')")
    assert found[OTHERS_TOO, 5]["accuracy"] > 0.99


@pytest.mark.parametrize("privacy", [*NOISY, "Gaussian(noise=1.0, clip=0.5)"])
def test_the_variance_of_a_sums_noise_is_that_of_its_clients(made, privacy):
    e, _, _ = made(privacy=privacy)
    noise = of_others(e.privacy, summed(6), 20_000, 2, e.seed)  # of five of them
    # of 40,000 numbers with a kurtosis of 6.6 at most: six standard errors
    assert noise.var() == pytest.approx(variance(e.privacy, summed(6), 2) * 5 / 6, rel=0.075)
    assert variance(None, summed(6), 2) == 0.0


def test_sums_that_would_take_too_much_are_left_out(made, monkeypatch):
    monkeypatch.setattr(labels, "HELD_SETS", 46 * 10 * 3)
    found = rows(made, 2, 5)
    assert (
        (OTHERS_NORMAL, 2) in found
        and ("least squares", 5) in found
        and (OTHERS_NORMAL, 5) not in found
    )
    monkeypatch.setattr(labels, "HELD", 46 * 10 * 3)
    assert {n for _, n in rows(made, 2, 5)} == {2}


def test_a_bare_sum_is_as_exact_as_float32(made):
    """What is taken for its rounding is what it is, or more: the true clicks must not look
    impossible."""
    for ranker in ("Linear()", "MLP(hidden=8)"):
        model, found, _, arrived, noise = sums(made, 8, ranker=ranker)
        true = sum(model.updates(s, 8)[int((s.clicks << np.arange(10)).sum())] for s in found)
        assert np.square(arrived - true).mean() < noise < np.square(1e-6)


def test_many_clients_are_solved_for_once(made, monkeypatch):
    """Sought together they are the same clients of the same sum."""
    e, params, found = made(ranker="MLP(hidden=8)", data=MANY)
    monkeypatch.setattr(labels, "MANY_WEIGHTS", 10)
    calls, solve = [], labels.minimum_norm_solution
    monkeypatch.setattr(
        labels, "minimum_norm_solution", lambda a, y: calls.append(y.shape) or solve(a, y)
    )
    (row,) = (
        r
        for r in infer_labels(e, params, found, (summed(30),), 1e-5, lambda *_: 0)
        if r.attack == ABSENT
    )
    clicked = sum(search.clicks.any() for search in found)
    assert row.measures["accuracy"].count == clicked and len(calls) == 2 * -(-clicked // 30)


def test_updates_that_are_all_zero_reveal_nothing(made):
    found = rows(made, 2, ranker="MLP(hidden=3, scale=0)", weights=0.0)
    # rounding at most
    assert all(found[attack, 2]["guess"] for attack in (OTHERS_NORMAL, OTHERS_TOO))
