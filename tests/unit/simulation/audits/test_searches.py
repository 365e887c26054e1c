"""What the audit takes for a client's message is what a client of the experiment would send, bit
for bit."""

import numpy as np
import pytest

from asking import client_step
from foltr.components.learners.es import read_messages
from foltr.components.learners.pdgd import document_weights
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.world.population import SimulatedUser
from foltr.simulation.audits.guesses import Model, click_sets, coefficients
from foltr.simulation.audits.labels import ABSENT, Inference, _reported, infer_labels
from foltr.simulation.audits.noise import message, sent, summed
from foltr.simulation.audits.searches import alone, single

PRIVACY = [
    None,
    "Laplace(epsilon=1.2, clip=0.05)",
    "Gaussian(noise=1.0, clip=0.05)",
    "Gaussian(noise=1.0, clip=0.05, where='shares')",
    "Gaussian(noise=1.0, clip=0.05, where='server')",
    "GammaShares(epsilon=1.2, sensitivity=0.3)",
]


@pytest.mark.parametrize("privacy", PRIVACY)
@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=3)"])
def test_a_message_is_what_client_step_sends(made, privacy, ranker):
    e, params, found = made(privacy=privacy, ranker=ranker)
    messages = sent(
        e.privacy, np.stack([search.payload for search in found]), e.cohort, e.seed, e.rounds
    )
    data = e.data.load("vali")
    population = alone(data, e.users, np.array([search.query for search in found]))
    for i in (0, 3, len(found) - 1):
        user = SimulatedUser(population, i, stream(e.seed, "user", i, e.rounds))
        args = (
            single(e),
            e.ranker,
            e.privacy,
            params,
            np.empty(0, np.float32),
            user,
            i,
            e.cohort,
            e.rounds,
            e.seed,
        )
        np.testing.assert_array_equal(messages[i], client_step(*args)[0].payload)


def test_a_privatizer_without_a_compiled_twin_sends_the_same(made):
    e, _, found = made(privacy="GammaShares(epsilon=1.2, sensitivity=3.0)")

    class Mine(type(e.privacy)):  # the exact class decides whether there is a twin
        pass

    payloads = np.stack([search.payload for search in found])
    plain = sent(Mine(1.2, 3.0), payloads, 7, seed=2, t=9)
    np.testing.assert_allclose(
        plain, sent(e.privacy, payloads, 7, seed=2, t=9), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("pairs", ["shown", "examined"])
def test_the_weights_of_all_click_sets_are_document_weights(pairs):
    rng = np.random.default_rng(4)
    for k, m in ((4, 4), (5, 9)):
        scores = rng.normal(size=m) * 2
        ranking = np.argsort(-scores)[:k]
        ours = coefficients(scores, ranking, pairs)
        for i, clicks in enumerate(click_sets(k)):
            expected = document_weights(scores, ranking, clicks, pairs)[ranking]
            np.testing.assert_allclose(ours[i], expected, atol=1e-12)


@pytest.mark.parametrize("privacy", [PRIVACY[0], *PRIVACY[-2:]])  # the device adds no noise
@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=3)"])
@pytest.mark.parametrize("pairs", ["shown", "examined"])
def test_the_model_knows_the_update_of_the_true_clicks(made, privacy, ranker, pairs):
    """But for float32: the real payload, clipped by the privatizer, is one of the 2^10
    calculated ones."""
    e, params, found = made(
        privacy=privacy, ranker=ranker, learner=f"PDGD(pairs={pairs!r})", weights=3.0
    )
    model = Model(single(e), e.privacy, params, e.rounds)
    quiet = e.privacy if privacy and "server" in privacy else None
    for search in found[:4]:
        mine = model.updates(search, e.cohort)[int((search.clicks << np.arange(10)).sum())]
        bare = sent(quiet, search.payload[None], e.cohort, e.seed, 0)[0]
        np.testing.assert_allclose(mine, bare, atol=2e-6)


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=3)"])
@pytest.mark.parametrize("privacy", [None, "GammaShares(epsilon=1.2, sensitivity=1.0)"])
def test_bare_messages_give_all_clicks_away_even_where_the_ball_hides_them_from_least_squares(
    made, ranker, privacy
):
    """Weights of norm 3 in a ball of 1/2; of a thousand shares a message carries nearly
    nothing."""
    e, params, found = made(privacy=privacy, ranker=ranker, weights=3.0, clients=10_000)
    rows = {
        row.attack: row.measures
        for row in infer_labels(e, params, found, (message(e.cohort),), 1e-5, lambda *_: 0)
    }
    assert rows["all click sets of PDGD"]["accuracy"].mean > 0.99
    assert rows["least deviations, weights known"]["accuracy"].mean > 0.93
    guessed = rows["random 3"]["AUC"]  # its interval is 3.9 standard errors long
    assert abs(guessed.mean - 0.5) < 1.6 * (guessed.high - guessed.low)
    if privacy:
        assert (
            rows["least squares"]["accuracy"].high
            < rows["least squares, weights known"]["accuracy"].low
        )


def test_least_squares_loses_clicks_in_sums_of_more_documents_than_weights(made):
    """Without noise: 46 weights determine the 20 documents of two clients, and not the 1,000 of a
    hundred."""
    e, params, found = made(learner="PDGD(pairs='shown')")
    views = (summed(2), summed(10), summed(100))
    rows = {
        (row.attack, row.view): row.measures
        for row in infer_labels(e, params, found, views, 1e-5, lambda *_: 0)
    }
    two, ten, hundred = (rows["least squares", view]["accuracy"] for view in views)
    assert two.mean > 0.97 > 0.85 > ten.mean > hundred.mean and two.low > ten.high
    assert ("least deviations, weights known", views[0]) in rows
    alone, among_many = (
        rows["least squares", view]["AUC"].mean - rows[ABSENT, view]["AUC"].mean
        for view in (views[0], views[2])
    )
    # what is left in a large sum is what users in general click
    assert alone > 0.2 > 0.1 > among_many


def test_the_others_of_a_sum_are_other_clients(made):
    e, params, found = made()
    inference = Inference(e, single(e), params, found, 1e-5, lambda *_: 0)
    for sought in ([0], [5, 6], [len(found) - 1]):
        drawn = inference._others(sought, 9)
        assert not set(sought) & set(drawn) and len(set(drawn)) == 9
        many = inference._others(sought, 99)
        assert len(many) == 99 and not set(sought) & set(many)


def test_rewards_reveal_the_first_click_and_privatized_ones_less(made):
    truth, noisy = (
        next(
            iter(
                infer_labels(
                    *made(learner="ES()", privacy=p)[:2],
                    made(learner="ES()", privacy=p)[2],
                    (),
                    1e-5,
                    lambda *_: 0,
                )
            )
        )
        for p in (None, "RandomizedReward(p=0.3)")
    )
    assert truth.measures["precision"].mean == 1.0  # the first click is where the reward says
    assert noisy.measures["AUC"].high < truth.measures["AUC"].low
    assert truth.guarantee.epsilon == np.inf and noisy.guarantee.epsilon == pytest.approx(
        np.log(0.3 * 10 / 0.7)
    )


def test_lists_that_are_never_full_are_refused(made):
    with pytest.raises(Mistake, match="100 documents"):
        made(learner="PDGD(k=100)")


@pytest.mark.parametrize("objective", ["maxrr", "last"])
def test_a_sent_reward_is_the_one_in_the_message(made, objective):
    e, params, found = made(
        learner=f"ES(objective={objective!r})", privacy="RandomizedReward(p=0.4)"
    )
    learner = single(e)
    population = alone(e.data.load("vali"), e.users, np.array([search.query for search in found]))
    for i in range(6):
        user = SimulatedUser(population, i, stream(e.seed, "user", i, e.rounds))
        args = (
            learner,
            e.ranker,
            e.privacy,
            params,
            np.empty(0, np.float32),
            user,
            i,
            e.cohort,
            e.rounds,
            e.seed,
        )
        _, means = read_messages(client_step(*args)[0].payload[None])
        assert means[0, 0] == np.float32(
            learner.reward_values()[0][_reported(e, learner, found[i], i)]
        )
