"""Unlearning as a run: found or made from the run that clients leave; cut, killed, swept and
threaded like others."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import foltr.simulation.runs.train
from foltr.core.errors import Mistake
from foltr.core.federation import cohort_size
from foltr.core.system.lock import Busy, Claim
from foltr.experiment import Experiment
from foltr.report.results import load_runs
from foltr.simulation.runs.forgetting import LeavingDocuments
from foltr.simulation.runs.run import Run
from foltr.simulation.runs.unlearn import interval, seed_of, with_sessions
from foltr.simulation.sweeps.file import read_sweep
from foltr.simulation.sweeps.pools import Pool
from foltr.simulation.sweeps.run import sweep
from waiting import wait_until

BASE = Experiment(
    data="Synthetic(queries=40)",
    clients=6,
    rounds=30,
    evaluate_every=7,
    learner="PDGD(sessions=3)",
    history=4,
)
METHODS = {
    "FedEraser": "FedEraser(sessions=2)",
    "Retrain": "Retrain()",
    "FineTune": "FineTune(rounds=8)",
    "GradientAscent": "GradientAscent(rounds=5, radius=0.1, fine_tune=6)",
    "FedRemove": "FedRemove(fine_tune=6)",
}


def bits(result):
    return result.params.tobytes(), result.metrics.csv()


@pytest.fixture(params=METHODS)
def unlearned(request):
    return replace(BASE, unlearning=METHODS[request.param], leaving=((2,),))


class Killed(BaseException):
    pass


def killed_at(t, unlearning=True):
    def watch(progress):
        if progress.t == t and (progress.experiment.unlearning is not None) == unlearning:
            raise Killed

    return watch


def test_a_killed_run_resumes_to_the_same_bits(unlearned, tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(
        foltr.simulation.runs.train, "STRETCH_SECONDS", 0.0
    )  # stretches of one round
    whole = bits(unlearned.run())
    with pytest.raises(Killed):
        unlearned.run(tmp_path, watch=killed_at(20, unlearning=False))
    for t in (1, 5, 6):
        with pytest.raises(Killed):
            unlearned.run(tmp_path, watch=killed_at(t))
    assert bits(unlearned.run(tmp_path)) == whole
    assert len(list(tmp_path.iterdir())) == 2


def test_the_debug_engine_and_threads_agree(unlearned):
    plain, compiled = unlearned.run(engine="debug"), unlearned.run()
    np.testing.assert_allclose(plain.params, compiled.params, atol=2e-4)
    assert bits(unlearned.run(threads=2)) == bits(compiled)


def test_base_is_made_once_and_shared(tmp_path):
    for method in METHODS.values():
        replace(BASE, unlearning=method, leaving=((2,),)).run(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1 + len(METHODS)
    assert BASE.run(tmp_path).found


def test_a_base_that_another_process_makes_is_busy(tmp_path):
    e = replace(BASE, unlearning="Retrain()", leaving=((2,),))
    folder = Run(BASE, tmp_path).folder
    folder.create()
    with Claim(folder.path).held(wait=False), pytest.raises(Busy):
        Run(e, tmp_path, wait=False).result()
    assert [path.name for path in tmp_path.iterdir()] == [folder.path.name]


def test_known_runs_are_looked_for_elsewhere(tmp_path):
    BASE.run(tmp_path / "old")
    e = replace(BASE, unlearning="Retrain()", leaving=((2,),))
    result = Run(e, tmp_path / "new", known=tmp_path / "old").result()
    assert len(list((tmp_path / "new").iterdir())) == len(list((tmp_path / "old").iterdir())) == 1
    assert bits(result) == bits(e.run())


def test_luck_is_of_its_own_and_shared_by_rivals():
    eraser, again = (
        replace(BASE, unlearning=METHODS[name], leaving=((2,),))
        for name in ("FedEraser", "Retrain")
    )
    assert seed_of(eraser) == seed_of(again) != BASE.seed
    assert seed_of(replace(again, unlearning="Retrain(luck=1)")) != seed_of(again)
    assert seed_of(replace(eraser, leaving=((1,), (2,)))) != seed_of(eraser)
    assert not np.array_equal(
        again.run().params, replace(again, unlearning="Retrain(luck=1)").run().params
    )


def test_who_starts_again_writes_a_history_others_add_to_the_old_one(tmp_path):
    for name, method in METHODS.items():
        e = replace(BASE, unlearning=method, leaving=((2,),))
        run = Run(e, tmp_path)
        result = run.result()
        fresh = Run(e, tmp_path)  # as another process would see it
        kept = fresh.stored(fresh.result())
        if name in ("FedEraser", "Retrain"):
            assert (run.folder.path / "history-updates.npy").exists()
            assert not np.isin(2, kept.clients) and set(np.unique(kept.clients)) >= {0, 1, 3, 4, 5}
            assert kept.rounds == result.final["rounds"] and len(kept.clients) == 8
        else:
            base, made = Run(BASE, tmp_path), result.final["rounds"]
            old, stores = base.stored(base.result()), name != "FineTune"
            np.testing.assert_array_equal(kept.updates[: len(old.updates)], old.updates)
            assert len(kept.updates) == len(old.updates) + stores * -(-made // BASE.history)
            assert kept.stand_for.sum() == BASE.rounds + stores * made
            assert (run.folder.path / "history-updates.npy").exists() == stores
    assert interval(BASE, 30) == 4 and interval(BASE, 8) == 1


def test_who_leaves_later_takes_along_what_he_sent_since_training():
    """Nobody but client 0 moves the weight of its mark: with every round stored, nothing of it is
    left."""
    marked = Experiment(
        data="Marked(data=Synthetic(queries=60), users=4)",
        partition="ByUser()",
        clients=4,
        rounds=20,
        learner="PDGD(sessions=5)",
        history=1,
        unlearning="FedRemove(fine_tune=30)",
        leaving=((3,),),
    )
    later = replace(marked, leaving=((3,), (0,)))
    population = Run(later, None).context.population
    leaving = LeavingDocuments.of(population, np.array([0]), np.array([1, 2]))
    marks = [leaving.mark(e.ranker, e.run().params) for e in (marked, later)]
    assert marks[0] > 0.1 and marks[1] < 1e-5


def test_norms_are_those_of_training_after_fed_eraser(tmp_path):
    """Each sends what is as long as what it sent then: so a second group can leave by the same
    norms."""
    e = replace(BASE, unlearning="FedEraser(sessions=2)", leaving=((2,),))
    run = Run(e, tmp_path)
    now, then = (each.stored(each.result()) for each in (run, Run(BASE, tmp_path)))
    others = np.array([0, 1, 3, 4, 5])
    for row in range(8):
        sizes = [np.linalg.norm(history.sent(row, others), axis=1) for history in (now, then)]
        there = sizes[0] > 0.0  # a search without a click sends nothing, of any length
        np.testing.assert_allclose(sizes[0][there], sizes[1][there], rtol=1e-5)


def test_sampled_clients_are_asked_for_what_they_stored(tmp_path):
    part = replace(
        BASE,
        clients=20,
        participation=0.2,
        unlearning="FedEraser(sessions=1)",
        leaving=((1, 7, 11),),
    )
    run = Run(part, tmp_path)
    result = run.result()
    then = run.base[0].stored(run.base[1])
    now = run.stored(result)
    rows = then.with_any(np.setdiff1d(np.arange(20), [1, 7, 11]))
    assert result.final["rounds"] == len(rows)
    for t, row in enumerate(rows):
        asked = np.setdiff1d(then.clients[row], [1, 7, 11])
        assert (
            sorted(client for client in now.clients[t].tolist() if client >= 0) == asked.tolist()
        )
    assert result.final["unlearning"]["messages"]["made"] == sum(
        len(np.setdiff1d(r, [1, 7, 11])) for r in then.clients
    )


def test_sampled_clients_of_retraining_are_some_of_those_who_remain():
    part = replace(
        BASE, clients=20, participation=0.2, unlearning="Retrain()", leaving=((1, 7, 11),)
    )
    result = part.run()
    assert result.final["interactions"] == 30 * 3 * cohort_size(17, 0.2)


def test_volumes_are_scaled_in_proportion():
    volumes = np.array([1, 2, 5, 10])
    population = Run(replace(BASE, clients=4, learner="PDGD(sessions=5)"), None).context.population
    population = replace(population, sessions=volumes)
    assert with_sessions(population, 5, 2).sessions.tolist() == [1, 1, 2, 4]
    assert with_sessions(population, 5, 5).sessions.tolist() == volumes.tolist()


def test_behind_a_secure_sum():
    """Devices scale their own updates before they are summed: nobody must see a norm."""
    plain = replace(BASE, unlearning="FedEraser(sessions=2)", leaving=((2,),))
    summed = replace(plain, channel="SecureSum(masks=False)")
    np.testing.assert_allclose(summed.run().params, plain.run().params, atol=1e-3)


def test_attackers_who_remain_go_on(tmp_path):
    bad = replace(BASE, attack="CompromisedModel()", malicious=2)
    from foltr.experiment.malicious import Malicious

    first, second = Malicious(6, 2, False, bad.seed).members(0).tolist()
    half = replace(bad, unlearning="FedEraser(sessions=2)", leaving=((first,),)).run(tmp_path)
    both = replace(bad, unlearning="FedEraser(sessions=2)", leaving=((first,), (second,))).run(
        tmp_path
    )
    together = replace(bad, unlearning="FedEraser(sessions=2)", leaving="malicious").run(tmp_path)
    # it pulls towards minus twice the model
    assert np.linalg.norm(half.params) < np.linalg.norm(both.params)
    assert np.linalg.norm(half.params) < np.linalg.norm(together.params)


def test_lost_messages_are_lost_here_too():
    """Seen by a method that reads nothing of training, which would be another one anyway."""
    lossy = replace(BASE, dropout=0.5, unlearning="Retrain()", leaving=((2,),))
    assert not np.array_equal(lossy.run().params, replace(lossy, dropout=None).run().params)


def test_the_run_says_what_it_took(tmp_path):
    e = replace(BASE, unlearning="GradientAscent(rounds=5, fine_tune=6)", leaving=((2, 4),))
    result, before = e.run(tmp_path), BASE.run(tmp_path)
    told = json.loads((result.folder / "result.json").read_text())["unlearning"]
    assert told == result.final["unlearning"]
    assert (
        told["from"] == before.folder.name and told["before"]["ndcg@10"] == before.final["ndcg@10"]
    )
    assert told["local_steps"] == {
        "made": (5 * 2 + 6 * 4) * 3,
        "retraining": 30 * 4 * 3,
        "times_fewer": 3.529,
    }
    # and each of the two hands its last update over
    assert told["messages"]["made"] == 5 * 2 + 6 * 4 + 2
    d = len(result.params)
    assert told["bytes"]["retraining"] == 30 * 4 * 4 * d
    assert told["storage"] == {"of": "updates", "per_device": 8 * 4 * d, "in_all": 8 * 6 * 4 * d}
    assert 0.0 < told["own"]["after"] < 1.0


def test_no_round_at_all(tmp_path):
    """FedRemove without fine-tuning: what it starts with is all, and can be read back."""
    e = replace(BASE, unlearning="FedRemove(fine_tune=0)", leaving=((2,),))
    result = e.run(tmp_path)
    assert result.final["rounds"] == 0 and e.run(tmp_path).found
    assert result.final["unlearning"]["local_steps"]["made"] == 0


def test_fed_remove_is_exact_where_nobody_reacts(tmp_path):
    """One round, stored: what is left is the others' part of the mean."""
    one = replace(BASE, rounds=1, history=1)
    run = Run(replace(one, unlearning="FedRemove(fine_tune=0)", leaving=((2,),)), tmp_path)
    params, sent = (
        run.result().params,
        run.base[0].stored(run.base[1]).updates[0].astype(np.float64),
    )
    np.testing.assert_allclose(
        params, np.delete(sent, 2, axis=0).sum(axis=0) / 6, rtol=1e-9, atol=1e-12
    )


def test_a_history_that_is_gone_is_refused(tmp_path):
    folder = BASE.run(tmp_path).folder
    (folder / "history-updates.npy").unlink()
    with pytest.raises(Mistake, match="cannot be read"):
        replace(BASE, unlearning="FedEraser(sessions=2)", leaving=((2,),)).run(tmp_path)


def test_a_sweep_unlearns(tmp_path):
    """Two workers want one base: the one that comes second waits for it; reports know unlearned
    runs as others."""
    file = tmp_path / "grid.toml"
    file.write_text(
        'data = "Synthetic(queries=40)"\nclients = 6\nrounds = 30\nhistory = 4\nlearner ='
        ' "PDGD(sessions=3)"\nattack = "CompromisedModel()"\nmalicious = 1\n[sweep]\nseed = [1,'
        ' 2]\nunlearning = ["FedEraser(sessions=2)", "FedEraser(sessions=1)",'
        ' "Retrain()"]\nleaving = ["malicious"]\n'
    )
    swept = sweep(read_sweep(file).points, tmp_path / "runs", "grid", pool=Pool(2))
    assert not swept.failed and len(swept.made) == 6
    runs = load_runs(swept.record.path)
    assert {
        run.fields["unlearning.sessions"] for run in runs if "unlearning.sessions" in run.fields
    } == {1, 2}
    assert len(load_runs(tmp_path / "runs")) == 8  # and the two that were left


@pytest.mark.skipif(os.name != "posix", reason="not on this system: signals")
def test_killed_for_good_and_resumed(tmp_path):
    e = replace(BASE, rounds=4000, unlearning="Retrain()", leaving=((2,),), history=200)
    whole = bits(e.run())  # it also compiles what the processes need
    code = (
        "import foltr.simulation.runs.train as train; train.CHECKPOINT_SECONDS = 0.0\n"
        "from foltr.experiment import Experiment\n"
        f"Experiment(**{e.config()!r}).run({str(tmp_path)!r})"
    )
    for finished in (0, 1):  # while the run that clients leave is made, and after it
        process = subprocess.Popen([sys.executable, "-c", code])

        def is_under_way(finished=finished):
            runs = len(list(tmp_path.glob("*/result.json")))
            return runs == finished and list(tmp_path.glob("*/checkpoint.npz"))

        wait_until(lambda: is_under_way() or process.poll() is not None, 240.0)  # noqa: B023
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert bits(e.run(tmp_path)) == whole
    left = Run(e.base, tmp_path)
    kept = left.stored(left.result())
    assert (np.asarray(kept.clients) == np.arange(6)).all() and np.asarray(kept.updates).any(
        axis=2
    ).any(axis=1).all()


OTHERS = {
    "a rule with a trusted client": {"aggregator": "FLTrust(queries=5)"},
    "a rule and attackers who remain": {
        "aggregator": "Krum(malicious=1)",
        "attack": "MinMax()",
        "malicious": 2,
    },
    "false clicks": {"attack": "DataPoisoning()", "malicious": 2},
    "roaming attackers": {"attack": "CompromisedModel()", "malicious": 2, "roaming": True},
    "a part of the clients": {"aggregator": "Median()", "clients": 20, "participation": 0.5},
    "other volumes": {"partition": "ByVolume()", "clients": 5},
    "other labels": {"partition": "ByLabel(labels=2)", "clients": 3},
    "a warm-up": {"partition": "Sharing(of=ByLabel(labels=2), warmup=5)", "clients": 3},
    "a server that remembers": {"optimizer": "Adam(lr=0.01)"},
    "a network": {"ranker": "MLP(hidden=4)"},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("method", ["FedEraser(sessions=2)", "Retrain()"])
def test_who_starts_again_does_so_in_any_federation(other, method, tmp_path):
    """They begin with what training began with, a warm-up included."""
    e = replace(BASE, **OTHERS[other])
    result = replace(e, unlearning=method, leaving=((1,),)).run(tmp_path)
    first = {name: values[0] for name, values in e.run(tmp_path).metrics.offline.items()}
    assert {name: values[0] for name, values in result.metrics.offline.items()} == first
    assert result.final["rounds"] == (30 if method == "Retrain()" else 8)
    assert np.isfinite(result.params).all()
