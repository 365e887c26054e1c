"""Private runs that clients leave: the rounds that the ledger counts are those that are made, and
all their messages have noise of their own."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.components.unlearners.fed_eraser import calibrated
from foltr.core.seeds import stream
from foltr.core.spec import privatizers
from foltr.experiment import Experiment
from foltr.experiment.compatibility import stretches_of
from foltr.privacy.guarantee import ledger_of
from foltr.privacy.participation import exposure_of
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.folder import Folder

SD = 50.0  # a million times an update
BASE = Experiment(
    data="Synthetic(queries=40)",
    clients=8,
    rounds=12,
    evaluate_every=12,
    learner="PDGD(sessions=3)",
    history=4,
    privacy="Gaussian(noise=1e6, clip=5e-5)",
)
METHODS = (
    "FedEraser(sessions=2)",
    "Retrain()",
    "FineTune(rounds=7)",
    "GradientAscent(rounds=5, radius=1e3, fine_tune=6)",
    "FedRemove(fine_tune=6)",
)


@pytest.fixture
def sent(monkeypatch):
    """All messages of all rounds that are made, in order."""
    found = []
    add = Metrics.add_round

    def add_round(self, cohort, observed, more=None):
        found.append(cohort)
        add(self, cohort, observed, more)

    monkeypatch.setattr(Metrics, "add_round", add_round)
    monkeypatch.setattr("foltr.simulation.runs.train.stretch_of", lambda *parts: None)
    return found


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("leaving", [((2,),), ((2, 5), (0,))])
@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_counts_the_rounds_that_are_made(sent, method, leaving, participation):
    e = replace(BASE, participation=participation, unlearning=method, leaving=leaving)
    e.run()
    lengths = [e.rounds, *(stretch.phase.rounds for stretch in stretches_of(e))]
    assert len(sent) == sum(lengths)
    made, first = np.zeros((e.clients, len(lengths)), int), 0
    for place, rounds in enumerate(lengths):
        asked = [len(cohort) for cohort in sent[first : first + rounds]]
        for cohort in sent[first : first + rounds]:
            made[cohort.clients, place] += 1
        if place:
            stretch = stretches_of(e)[place - 1]
            assert stretch.fewest <= min(asked) and max(asked) <= stretch.most
        first += rounds
    takes = np.array(exposure_of(e).takes)
    for client in made:
        assert (client <= takes).all(axis=1).any()  # nobody spends more than is counted
    for take in takes:
        assert (made == take).all(axis=1).any()  # and there is somebody who spends it


@pytest.mark.parametrize("engine", ["local", "debug"])
@pytest.mark.parametrize("method", METHODS)
def test_all_messages_of_unlearning_have_fresh_noise(sent, method, engine):
    """Noise of training that came again in unlearning would be subtracted: two messages of a
    client would differ by its updates only."""
    e = replace(BASE, unlearning=method, leaving=((2,),))
    e.run(engine=engine)
    noise = np.concatenate([cohort.updates for cohort in sent[e.rounds :]])
    if method != "FedEraser(sessions=2)":
        # of 1,900 numbers or more: six standard errors
        assert noise.std() == pytest.approx(SD, rel=0.1)
    rows = np.concatenate([cohort.updates for cohort in sent])
    rows = rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    alike = np.abs(rows @ rows.T - np.eye(len(rows)))  # |cosine| of 46 random numbers: about .15
    assert alike.max() < 0.85  # any of 20,000 pairs is above with probability 1e-9


def test_a_rescaled_message_is_made_of_two_messages_with_noise(sent):
    """|stored| x new / |new|: the first has been sent in training, the second is the noisy message
    of this round."""
    e = replace(BASE, unlearning="FedEraser(sessions=2)", leaving=((2,),))
    e.run()
    stored = sent[: e.rounds : e.history]
    again = sent[e.rounds :]
    assert len(stored) == len(again) == 3
    for then, now in zip(stored, again, strict=True):
        rows = np.isin(then.clients, now.clients)
        before = np.sqrt(np.square(then.updates[rows].astype(float)).sum(axis=1))
        after = np.sqrt(np.square(now.updates.astype(float)).sum(axis=1))
        np.testing.assert_allclose(after, before, rtol=1e-5)
        # it is noise: six standard errors
        assert before.mean() == pytest.approx(SD * np.sqrt(46), rel=0.25)


def test_the_data_of_a_client_change_its_messages_of_unlearning_only_without_noise(sent):
    """What one client clicks differently shows in its bare messages, and is lost in noisy ones."""
    moved = {}
    for name, privacy in {"bare": None, "noisy": BASE.privacy}.items():
        worlds = []
        for kind in ("perfect", "informational"):  # all click differently
            sent.clear()
            users = f"Cascade(kind='{kind}')"
            fields = {"users": users, "unlearning": "FineTune(rounds=7)", "leaving": ((2,),)}
            replace(BASE, privacy=privacy, **fields).run()
            worlds.append(np.concatenate([cohort.updates for cohort in sent[BASE.rounds :]]))
        moved[name] = float(np.abs(worlds[0] - worlds[1]).max())
    assert moved["bare"] > 0.01  # by far more than the clip
    # by the clip, and by the steps of the grid
    assert moved["noisy"] < 0.01 < SD


def test_shares_of_noise_that_are_rescaled_hide_nothing():
    """Why FedEraser is refused with shares. Of 1000 clients with one parameter, all others have
    updates of 0. A share of the noise is almost always 0 (the sum's noise comes from a few). So
    are then the stored norm and the rescaled message: the sum is the message of the one client."""
    privacy = privatizers.build("GammaShares(epsilon=0.5, sensitivity=1)")
    n, games, own = 1000, 60, privacy.radius
    base = Experiment(data="Synthetic(queries=40)", clients=n, privacy=privacy, rounds=1)
    base = replace(base, channel="SecureSum()")
    epsilon = ledger_of(base, 1).guarantee("models", "round").epsilon
    assert epsilon == pytest.approx(0.5, rel=1e-3)

    def hits(update, rescaled):
        """How often the sum is the client's own update, to a thousandth."""
        found = 0
        for game in range(games):
            updates = np.zeros(n, np.float32)
            updates[0] = update
            rng = stream(7, "game", game, rescaled, update != 0.0)
            # a number each: the noise of numbers is independent, as that of clients is
            then, now = (privacy.on_client(updates, n, rng.at(i)) for i in range(2))
            messages = calibrated(now[:, None], np.abs(then))[:, 0] if rescaled else now
            found += abs(float(messages.sum(dtype=np.float64)) - own) < 1e-3
        return found / games

    advantage = np.expm1(2 * epsilon) / (np.exp(2 * epsilon) + 1.0)  # of any test, at 2 epsilon
    assert advantage < 0.47
    assert hits(own, rescaled=True) - hits(0.0, rescaled=True) > advantage
    assert hits(own, rescaled=False) - hits(0.0, rescaled=False) < 0.1


def test_a_server_clips_what_was_rescaled():
    """A device that rescales to more than the clip gains nothing by it."""
    from foltr.core import Cohort
    from foltr.core.federation import PRIVACY, Server

    privacy = privatizers.build("Gaussian(noise=1.0, clip=1.0, where='server')")
    server = Server(BASE.learner, BASE.aggregator, BASE.optimizer, privacy)
    rows = np.array([[3.0, 4.0], [0.0, 0.5]], np.float32)
    rng = stream(3, "server")
    stepped = server.step(server.init(np.zeros(2)), Cohort(np.arange(2), rows, np.ones(2)), rng)
    mean = np.array([0.6, 0.8 + 0.5]) / 2.0
    by_hand = privacy.on_server(mean, 2, rng.at(PRIVACY))
    np.testing.assert_allclose(stepped.params, by_hand, atol=1e-4)


def foltr(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_command_unlearns_a_private_run_and_prints_what_it_spent(tmp_path):
    e = replace(BASE, privacy="Laplace(epsilon=1.0, clip=0.1)")
    trained = e.run(tmp_path).folder
    told = foltr("unlearn", trained, "--clients", "2", "--retrainings", 1, "--quiet")
    assert told.exit_code == 0, told.output
    for words in (
        "privacy       Laplace(epsilon=1.0, clip=0.1)",
        "one client, 15 rounds",
        "Unlearning makes up to 3 rounds after the 12 of training, of 7 clients.",
        "Forgetting refunds nothing",
    ):
        assert words in told.output
    again = foltr("unlearn", trained, "--clients", "2", "--retrainings", 1, "--quiet", "--json")
    read = json.loads(again.stdout)
    kept = Folder(tmp_path / read["run"].rsplit("/", 1)[-1]).final()
    assert read["privacy"] == kept["privacy"]
    assert (
        kept["privacy"]
        == ledger_of(replace(e, unlearning="FedEraser(sessions=3)", leaving=((2,),)), 46).plain()
    )
    # one more leaves
    third = foltr("unlearn", read["run"], "--clients", "0", "--retrainings", 0, "--quiet")
    assert "one client, 18 rounds" in third.output


def test_the_command_refuses_what_would_reveal_single_messages(tmp_path):
    shares = {"privacy": "GammaShares(epsilon=1.2, sensitivity=3)", "channel": "SecureSum()"}
    trained = replace(BASE, **shares).run(tmp_path).folder
    told = foltr("unlearn", trained, "--clients", "2", "--quiet")
    assert (
        told.exit_code == 2 and "only the sum of a round's messages has the noise" in told.output
    )
    done = foltr("unlearn", trained, "--clients", "2", "--method", "FineTune(rounds=2)", "--quiet")
    assert done.exit_code == 0 and "Forgetting refunds nothing" in done.output


def test_foltr_privacy_states_it_before_anything_runs(tmp_path):
    file = tmp_path / "grid.toml"
    e = replace(BASE, unlearning="FedEraser(sessions=2)", leaving=((2,),))
    file.write_text("".join(f"{k} = {v!r}\n" for k, v in _toml(e).items()))
    told = foltr("privacy", file)
    assert told.exit_code == 0 and "one client, 15 rounds" in told.output
    one = file.read_text().replace("history = 4\n", "")
    file.write_text(one + "\n[sweep]\nhistory = [2, 4]\n")
    told = foltr("privacy", file)
    # stored rounds are made again: their number matters here
    assert "one client, 15 rounds" in told.output and "one client, 18 rounds" in told.output


def _toml(e):
    return {k: v for k, v in e.config().items() if not isinstance(v, bool)}


def test_what_is_not_private_keeps_its_result():
    """The ledger of an unlearned run without privacy says what it said."""
    e = replace(BASE, privacy=None, unlearning="FineTune(rounds=7)", leaving=((2,),))
    assert ledger_of(e, 46).plain() == ledger_of(e.base, 46).plain()
    assert "planned" not in str(e.config())
