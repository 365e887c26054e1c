"""Unlearners by hand: their formulas on numbers that a hand can check, and whole runs against the
papers' steps written out plainly."""

import numpy as np
import pytest

from asking import client_step
from foltr.components.unlearners.fed_eraser import FedEraser, calibrated
from foltr.components.unlearners.fed_remove import FedRemove
from foltr.components.unlearners.gradient_ascent import GradientAscent, in_ball, reference
from foltr.core.seeds import stream
from foltr.core.world.history import History
from foltr.core.world.population import SimulatedUser
from foltr.core.world.protocols import Past
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import RunOptions
from foltr.simulation.runs.run import Run
from foltr.simulation.runs.unlearn import asked_in, costs, seed_of, with_sessions


def test_an_update_of_now_as_long_as_the_one_of_then():
    new = np.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0], [1e-30, 0.0]], np.float32)
    sizes = np.array([10.0, 7.0, 0.0, 2.0])
    sent = calibrated(new, sizes)
    assert sent.dtype == np.float32
    assert sent.tolist() == [[6.0, 8.0], [0.0, 0.0], [0.0, 0.0], [2.0, 0.0]]


def past(**more):
    """Three clients with 1, 3 and 4 interactions, five rounds, every second one stored: rounds 0,
    2 and 4."""
    updates = np.array(
        [[[1, 0], [2, 0], [0, 4]], [[3, 2], [0, 0], [1, 1]], [[8, 0], [0, 8], [0, 0]]],
        np.float32,
    )  # fmt: skip
    # in the last one client 2 took no part
    clients = np.array([[0, 1, 2], [2, 0, 1], [0, 1, -1]], np.int32)
    about = {
        "initial": np.zeros(2),
        "final": np.array([10.0, 20.0]),
        "rounds": 5,
        "sessions": 4,
        "weights": np.array([1.0, 3.0, 4.0]),
        "leaving": np.array([0]),
        "remaining": np.array([1, 2]),
        "history": History(2, 5, clients, updates),
        "step": 0.5,
    }
    return Past(**{**about, **more})


def test_a_stored_round_stands_for_those_until_the_next():
    assert past().history.stand_for.tolist() == [2, 2, 1]
    assert History(3, 9, np.zeros((3, 1)), np.zeros((3, 1, 1))).stand_for.tolist() == [3, 3, 3]


def test_what_a_client_sent_is_found_by_its_number():
    history = past().history
    assert history.sent(1, np.array([0, 2])).tolist() == [[0.0, 0.0], [3.0, 2.0]]
    assert history.took_part(2, np.array([1, 2])).tolist() == [1]
    assert history.with_any(np.array([2])).tolist() == [0, 1]


def test_fed_remove_subtracts_what_was_stored():
    """Client 0: 1/8 of (1, 0) for two rounds, 1/8 of nothing, 1/4 of (8, 0) for one: (0.25 + 2,
    0), times lr 0.5."""
    assert FedRemove().start(past()).tolist() == [10.0 - 0.5 * 2.25, 20.0]
    # Clients 0 and 2: (1 (1, 0) + 4 (0, 4)) / 8 x 2, 4 (3, 2) / 8 x 2, (8, 0) / 4 x 1
    share = np.array([0.25, 4.0]) + np.array([3.0, 2.0]) + np.array([2.0, 0.0])
    both = FedRemove().start(past(leaving=np.array([0, 2]), remaining=np.array([1])))
    assert both.tolist() == (np.array([10.0, 20.0]) - 0.5 * share).tolist()


def test_the_reference_is_the_others_mean_model_of_the_last_stored_round():
    """Clients 0 and 1 sent (8, 0) and (0, 8), with weights 1 and 3: the mean is (2, 6), without
    client 0 (0, 8)."""
    assert reference(past()).tolist() == [10.0 + 0.5 * (0 - 2), 20.0 + 0.5 * (8 - 6)]


def test_a_ball():
    centre = np.array([1.0, 1.0])
    assert in_ball(np.array([4.0, 5.0]), centre, 5.0).tolist() == [4.0, 5.0]
    np.testing.assert_allclose(in_ball(np.array([7.0, 9.0]), centre, 5.0), [4.0, 5.0], rtol=1e-15)


def test_a_climb_along_what_was_stored():
    """From (9, 21): minus lr times the leaving client's last two updates, (8, 0) and (0, 0), into
    balls of 9 and 2."""
    climb = GradientAscent(rounds=2, radius=9.0, stored=True)
    assert climb.start(past()).tolist() == [9.0 - 0.5 * 8.0, 21.0]
    assert GradientAscent(rounds=2, radius=2.0, stored=True).start(past()).tolist() == [7.0, 21.0]
    assert [phase.who for phase in climb.phases(past())] == ["remaining"]


def test_what_it_costs_beside_retraining():
    """Section 3.3 of the paper: n / n' x delta_t times fewer local steps, delta_t times fewer
    messages. Ten clients, one of whom leaves, 1,000 rounds of 5 sessions, every tenth one stored,
    46 parameters."""
    e = Experiment(
        clients=10,
        rounds=1000,
        learner="PDGD(sessions=5)",
        history=10,
        unlearning="FedEraser(sessions=2)",
        leaving=((3,),),
    )
    clients = np.tile(np.arange(10, dtype=np.int32), (100, 1))
    stored = History(10, 1000, clients, np.zeros((100, 10, 46), np.float32))
    remaining = np.delete(np.arange(10), 3)
    about = Past(
        np.zeros(46), np.zeros(46), 1000, 5, np.full(10, 5.0), np.array([3]), remaining, stored
    )  # fmt: skip
    asked = [asked_in(e, about, phase, 0) for phase in FedEraser(sessions=2).phases(about)]
    told = costs(e, about, asked, steps=9 * 100 * 2)
    assert told["local_steps"] == {"made": 1800, "retraining": 45_000, "times_fewer": 5 / 2 * 10}
    assert told["messages"] == {"made": 900, "retraining": 9000, "times_fewer": 10.0}
    assert told["bytes"] == {"made": 900 * 184, "retraining": 9000 * 184, "times_fewer": 10.0}
    assert told["storage"] == {"of": "norms", "per_device": 400, "in_all": 4000}


# Whole runs, by the steps of the papers.

BASE = {
    "data": "Synthetic(queries=30)",
    "clients": 5,
    "rounds": 7,
    "learner": "PDGD(lr=0.1, sessions=4)",
    "history": 3,
    "attack": "CompromisedModel(z=2.0)",
    "malicious": 1,
    "seed": 5,
}


def unlearned(method, leaving):
    e = Experiment(**BASE, unlearning=method, leaving=leaving)
    run = Run(e, None, RunOptions(engine="debug"))
    result = run.result()
    base, before = run.base
    return e, run, base.history, before, result


def updates_of(e, run, params, clients, sessions, t):
    """What these clients would honestly send, one after another."""
    population, sent, seed = (
        with_sessions(run.context.population, e.learner.sessions, sessions),
        [],
        seed_of(e),
    )
    for client in clients:
        user = SimulatedUser(population, int(client), stream(seed, "user", int(client), t))
        update, _ = client_step(
            e.learner,
            e.ranker,
            None,
            params.astype(np.float32),
            np.empty(0, np.float32),
            user,
            int(client),
            len(clients),
            t,
            seed,
        )
        sent.append(update.payload)
    return np.array(sent)


def the_malicious_one(e):
    return int(stream(e.seed, "malicious").sample(e.clients, e.malicious)[0])


def test_fed_eraser_step_by_step():
    e, run, history, _, result = unlearned("FedEraser(sessions=2)", "malicious")
    bad = the_malicious_one(e)
    good = [client for client in range(e.clients) if client != bad]
    params = np.zeros(run.context.train.width)
    for t, s in enumerate([0, 3, 6]):  # the stored rounds of seven
        new = updates_of(e, run, params, good, 2, t).astype(np.float64)
        stored = history.updates[s // 3][good].astype(np.float64)
        sent = [
            np.linalg.norm(old) * u / np.linalg.norm(u) if u.any() else u
            for old, u in zip(stored, new, strict=True)
        ]
        params = params + np.mean(np.array(sent, np.float32).astype(np.float64), axis=0)
    np.testing.assert_allclose(result.params, params, rtol=1e-6, atol=1e-7)
    assert result.final["rounds"] == 3 and result.final["interactions"] == 3 * 4 * 2


@pytest.mark.parametrize(("method", "rounds"), [("Retrain()", 7), ("FineTune(rounds=4)", 4)])
def test_rounds_of_those_who_remain(method, rounds):
    e, run, _, before, result = unlearned(method, ((1, 2),))
    bad = the_malicious_one(e)
    params = np.zeros(run.context.train.width) if method == "Retrain()" else before.params
    for t in range(rounds):
        sent = updates_of(e, run, params, [0, 3, 4], 4, t).astype(np.float64)
        if bad in (0, 3, 4):
            row = (0, 3, 4).index(bad)
            sent[row] = (-2.0 * sent[row] - 3.0 * params.astype(np.float32)).astype(np.float32)
        params = params + sent.mean(axis=0)
    np.testing.assert_allclose(result.params, params, rtol=1e-6, atol=1e-7)


def test_gradient_ascent_step_by_step():
    e, run, history, before, result = unlearned(
        "GradientAscent(rounds=3, radius=0.4, fine_tune=2)", "malicious"
    )
    bad = the_malicious_one(e)
    good = [client for client in range(e.clients) if client != bad]
    last = history.updates[2].astype(np.float64)
    centre = before.params + last[good].mean(axis=0) - last.mean(axis=0)
    params, outside = centre, 0
    for t in range(3):
        u = updates_of(e, run, params, [bad], 4, t)[0].astype(np.float64)
        # what it sent in training, now reversed
        attack = (-2.0 * u - 3.0 * params.astype(np.float32)).astype(np.float32)
        params = params - attack
        far = np.linalg.norm(params - centre)
        outside += far > 0.4
        params = centre + min(1.0, 0.4 / far) * (params - centre)
    for t in (3, 4):
        params = params + updates_of(e, run, params, good, 4, t).astype(np.float64).mean(axis=0)
    assert outside
    np.testing.assert_allclose(result.params, params, rtol=1e-5, atol=1e-7)
