"""Measures that are asked for: recorded, computed for finished runs, and no part of the identity.
Validation queries, and runs that stop early."""

import json
from dataclasses import replace

import numpy as np
import pytest

import foltr
import foltr.simulation.runs.train
from foltr.core.errors import Mistake
from foltr.core.system.process import Threads
from foltr.experiment import Experiment
from foltr.report.measures import column
from foltr.report.results import load_runs
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.setup import validation_of

SMALL = Experiment(
    data="Synthetic(queries=40)",
    clients=6,
    rounds=30,
    evaluate_every=7,
    learner="PDGD(sessions=3)",
)
MORE = "nDCG(k=5), MAP(), Divergence(), BytesSent(), RoundsTo(level=0.1)"
TUNED = replace(SMALL, evaluate_on="validation")


class Killed(BaseException):
    pass


def test_more_columns_and_the_same_bits(tmp_path):
    plain, more = SMALL.run(tmp_path / "a"), SMALL.run(tmp_path / "b", measures=MORE)
    assert plain.folder.name == more.folder.name
    assert plain.params.tobytes() == more.params.tobytes()
    for name in ("ndcg@10", "mrr@10", "expected_maxrr", "online_ndcg@10", "maxrr"):
        assert np.array_equal(plain.curve(name).values, more.curve(name).values)
    assert len(more.curve("ndcg@5").rounds) == len(plain.curve("ndcg@10").rounds)
    assert more.value("ndcg@5") == more.curve("ndcg@5").values[-1]
    assert len(more.curve("divergence").values) == 30
    assert 0.0 < more.value("divergence") < 1.0
    assert more.value("bytes_sent") == 30 * 6 * 4 * len(plain.params)
    assert more.value("rounds_to_0.1") in more.curve("ndcg@10").rounds
    assert "rounds are made one by one, to record divergence, bytes_sent" in more.final["notes"]
    assert {*plain.final} == {*more.final} - {
        "measures", "ndcg@5", "map", "train_ndcg@5", "train_map", "divergence", "bytes_sent"
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["local", "debug"])
def test_a_finished_run_is_measured_from_its_parameters(tmp_path, engine):
    recorded = SMALL.run(tmp_path / "a", engine=engine, measures="nDCG(k=5), MAP()")
    SMALL.run(tmp_path / "b", engine=engine)
    kept = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    found = SMALL.run(tmp_path / "b", engine=engine, measures="nDCG(k=5)")
    assert found.found and found.value("ndcg@5") == recorded.value("ndcg@5")
    with pytest.raises(Mistake, match="ndcg@5 was not recorded while this run was made"):
        found.curve("ndcg@5")
    for path, content in kept.items():  # nothing of the run itself was written
        assert path.read_bytes() == content
    again = SMALL.run(tmp_path / "b", engine=engine, measures="MAP(), Divergence()")
    assert again.value("map") == recorded.value("map") and again.value("ndcg@5") is not None
    assert any("divergence was not recorded" in note for note in again.final["notes"])
    soon = SMALL.run(tmp_path / "b", engine=engine, measures="RoundsTo(level=0.0)")
    assert soon.found and soon.value("rounds_to_0") == 0.0
    (run,) = load_runs(tmp_path / "b")
    assert run.final["ndcg@5"] == recorded.value("ndcg@5")
    assert load_runs(tmp_path / "b")["map"] == [recorded.value("map")]


def test_measures_of_another_run_are_not_taken_for_this_ones(tmp_path):
    SMALL.run(tmp_path)
    found = SMALL.run(tmp_path, measures="nDCG(k=5)")
    kept = found.folder / "measures.json"
    table = json.loads(kept.read_text())
    kept.write_text(json.dumps({**table, "params": "another"}))
    assert "ndcg@5" not in load_runs(tmp_path).recorded[0].final
    kept.write_text("{")
    healed = SMALL.run(tmp_path, measures="nDCG(k=5)")
    assert healed.found and healed.value("ndcg@5") == found.value("ndcg@5")


def test_a_run_that_is_continued_with_another_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)

    def stop(progress):
        if progress.t >= 15:
            raise Killed

    with pytest.raises(Killed):
        SMALL.run(tmp_path, watch=stop, measures="MAP()")
    done = SMALL.run(tmp_path, measures="nDCG(k=5), Divergence()")
    assert done.params.tobytes() == SMALL.run().params.tobytes()
    rounds, values = done.curve("ndcg@5")
    assert len(rounds) == 6 and np.isfinite(values).tolist() == [False] * 3 + [True] * 3
    again = SMALL.run(tmp_path).curve("ndcg@5")  # from the file
    np.testing.assert_array_equal(again.values, values)
    assert "map" not in done.metrics.offline
    late = "recorded only after the run was continued: ndcg@5, divergence"
    assert late in done.final["notes"]
    assert foltr.RoundsTo(level=0.0, of="ndcg@5").of_run(done) is None  # perhaps before
    assert len(done.metrics.online["divergence"]) == 30


HITS = '''
from dataclasses import dataclass
from foltr.core.world.measures import OfflineMeasure
from foltr.core.spec import measure

@measure
@dataclass(frozen=True)
class Hits(OfflineMeasure):
    """Return 1 if any of the first k documents is relevant."""

    k: int = 3

    @property
    def depth(self):
        return self.k

    def of_list(self, grades, best):
        return float(grades[: self.k].any()) if best.any() else float("nan")
'''


def test_a_measure_of_a_users_file(tmp_path):
    (tmp_path / "hits.py").write_text(HITS)
    foltr.use(tmp_path / "hits.py")
    done = SMALL.run(tmp_path / "runs", measures="Hits(k=2)")
    assert done.folder.name == SMALL.run(tmp_path / "plain").folder.name
    assert 0.0 < done.value("hits@2") <= 1.0
    assert SMALL.run(measures="P(k=1), Hits(k=1)").value("hits@1") == pytest.approx(
        SMALL.run(measures="P(k=1)").value("p@1")
    )
    runs = load_runs(tmp_path / "runs")
    assert column(runs, "hits@2").label == "offline Hits@2"
    foltr.core.spec.measures.forget(type(foltr.core.spec.measures.build("Hits()")).__module__)
    with pytest.raises(Mistake, match=r"hits@2 is Hits\(k=2\): load the file of Hits with --use"):
        column(load_runs(tmp_path / "runs"), "hits@2")


def test_a_measure_whose_file_has_changed_is_computed_anew(tmp_path):
    file = tmp_path / "hits.py"
    file.write_text(HITS)
    foltr.use(file)
    recorded = SMALL.run(tmp_path / "recorded", measures="Hits(k=2)")
    SMALL.run(tmp_path / "later")
    first = SMALL.run(tmp_path / "later", measures="Hits(k=2)")
    assert first.value("hits@2") == recorded.value("hits@2")
    file.write_text(HITS.replace("float(grades[: self.k].any())", "0.25"))
    foltr.use(file)
    for out in ("recorded", "later"):
        changed = SMALL.run(tmp_path / out, measures="Hits(k=2)")
        assert changed.found and changed.value("hits@2") == 0.25
        assert load_runs(tmp_path / out)["hits@2"] == [0.25]
        note = "hits@2 in each round was recorded by another version of its file"
        assert any(note in each for each in changed.final["notes"])


def test_what_a_measure_gives_is_checked():
    class Odd(foltr.nDCG):
        def of_lists(self, lists):
            return [1.0]

    with pytest.raises(Mistake, match="not a measure"):
        SMALL.run(measures=[Odd(k=3)])


def test_validation_queries_are_measured_beside_the_test_queries(tmp_path):
    plain, tuned = SMALL.run(), TUNED.run(tmp_path, measures="nDCG(k=5)")
    assert plain.params.tobytes() == tuned.params.tobytes()
    assert np.array_equal(plain.curve("ndcg@10").values, tuned.curve("ndcg@10").values)
    rounds, values = tuned.curve("validation_ndcg@10")
    assert np.array_equal(rounds, tuned.curve("ndcg@10").rounds)
    assert not np.array_equal(values, tuned.curve("ndcg@10").values)
    # the same ranker on data whose test queries are those
    vali, params = SMALL.data.load("vali"), tuned.params.astype(np.float32)
    scores = vali.features @ params[: vali.width]
    from foltr.components.measures.of_lists import nDCG

    evaluate = Evaluator(
        SMALL.ranker, vali, (), "skip", SMALL.seed, Threads(1), True, (nDCG(k=5),)
    )
    assert evaluate(tuned.params)["ndcg@10"] == pytest.approx(values[-1], rel=1e-6)
    assert evaluate.means(scores.astype(np.float32))["ndcg@5"] == pytest.approx(
        tuned.value("validation_ndcg@5"), rel=1e-6
    )
    # a finished run, asked for more
    again = TUNED.run(tmp_path, measures="P(k=3)")
    assert again.found and again.final["validation_p@3"] is not None


def test_the_validation_queries_are_part_of_the_identity(tmp_path):
    for name in ("train.txt", "test.txt", "vali.txt"):
        lines = [f"{d % 2} qid:{q} 1:{d / 4} 2:{q}" for q in range(6) for d in range(4)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    e = replace(SMALL, data=f"Letor(path={str(tmp_path)!r})", clients=2, rounds=4)
    seen = e.run(tmp_path / "runs").folder.name
    tuned = replace(e, evaluate_on="validation")
    before = tuned.run(tmp_path / "runs").folder.name
    (tmp_path / "vali.txt").write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:1\n")
    assert e.run(tmp_path / "runs").folder.name == seen
    assert tuned.run(tmp_path / "runs").folder.name not in (seen, before)
    (tmp_path / "vali.txt").unlink()
    with pytest.raises(Mistake, match="vali"):
        tuned.run(tmp_path / "runs")


def test_data_without_validation_queries(tmp_path):
    class Source(type(SMALL.data)):
        splits = ("train", "test")

    e = replace(TUNED)
    object.__setattr__(e, "data", Source())
    told = r"evaluate_on='validation': Source has no validation queries \(vali\), only train, test"
    with pytest.raises(Mistake, match=told):
        validation_of(e, SMALL.data.load("train"))


def test_a_run_stops_early_and_is_whole(tmp_path):
    patient = replace(TUNED, patience=2, rounds=400, evaluate_every=5)
    done = patient.run(tmp_path)
    rounds, values = done.curve("validation_ndcg@10")
    made = done.final["rounds"]
    assert made < 400 and rounds[-1] == made == len(done.metrics.online["interactions"])
    best = int(values.argmax())
    assert len(values) - 1 - best == 2  # two evaluations after the best one
    # it is the run that has so many rounds
    short = replace(TUNED, rounds=made, evaluate_every=5).run()
    assert short.params.tobytes() == done.params.tobytes()
    assert any(note.startswith("stopped early: no higher nDCG") for note in done.final["notes"])
    assert patient.run(tmp_path).found
    assert load_runs(tmp_path)["rounds"] == [400]  # the field of the experiment
    (run,) = load_runs(tmp_path)
    assert run.final["rounds"] == made
    for engine, threads in (("debug", 1), ("local", 2)):
        assert patient.run(engine=engine, threads=threads).final["rounds"] == made


def test_an_early_stop_does_not_depend_on_interruptions(tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)
    patient = replace(TUNED, patience=2, rounds=400, evaluate_every=5)
    whole = patient.run()
    for at in (4, 10, whole.final["rounds"]):

        def stop(progress, at=at):
            if progress.t >= at and progress.t > progress.began:
                raise Killed

        with pytest.raises(Killed):
            patient.run(tmp_path / str(at), watch=stop)
        done = patient.run(tmp_path / str(at))
        assert done.params.tobytes() == whole.params.tobytes()
        assert done.metrics.csv() == whole.metrics.csv()


def test_patience_that_is_never_lost():
    patient = replace(TUNED, patience=1000)
    done = patient.run()
    assert done.final["rounds"] == 30 and not any("early" in n for n in done.final["notes"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"patience": 2}, "patience=2 would stop by the test queries: set evaluate_on"),
        ({"patience": 0, "evaluate_on": "validation"}, "patience must be >= 1 evaluations, got 0"),
        ({"evaluate_on": "vali"}, "'vali' is none of 'validation'"),
        ({"patience": 2, "evaluate_on": "validation", "history": 5}, "leave out patience"),
        (
            {"patience": 2, "evaluate_on": "validation", "baseline": "LeastSquares()"},
            "LeastSquares learns from labels and sends nothing: leave out patience",
        ),
    ],
)
def test_settings_that_do_not_fit(changes, told):
    with pytest.raises(Mistake, match=told):
        replace(SMALL, **changes)


def test_new_fields_stay_out_of_configs_and_reprs():
    assert not {"evaluate_on", "patience"} & SMALL.config().keys()
    assert "patience" not in repr(SMALL) and "evaluate_on='validation'" in repr(TUNED)


def test_a_baseline_is_measured_on_validation_queries_as_well():
    done = replace(TUNED, baseline="LeastSquares()").run(measures="MAP()")
    assert done.value("map") != done.value("validation_map") is not None
    assert done.final["validation_ndcg@10"] > 0.0


def test_a_finished_baseline_is_measured_if_it_is_a_linear_ranker(tmp_path):
    linear = replace(SMALL, baseline="LeastSquares()")
    recorded = linear.run(tmp_path / "a", measures="MAP(), BytesSent()")
    assert recorded.value("bytes_sent") is None  # it sends nothing
    linear.run(tmp_path / "b")
    found = linear.run(tmp_path / "b", measures="MAP()")
    assert found.found and found.value("map") == pytest.approx(recorded.value("map"))


def test_a_measure_that_is_asked_for_when_all_rounds_are_made(tmp_path, monkeypatch):
    """A run that lost its patience just before it was killed."""
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)
    patient = replace(TUNED, patience=2, rounds=400, evaluate_every=5)
    whole = patient.run(measures="MAP()")

    def killed(*_):
        raise Killed

    monkeypatch.setattr(foltr.simulation.runs.train, "concluded", killed)
    with pytest.raises(Killed):
        patient.run(tmp_path)
    monkeypatch.undo()
    done = patient.run(tmp_path, measures="MAP()")
    assert done.value("map") == whole.value("map")
    assert done.value("validation_map") == whole.value("validation_map")


def test_patience_needs_relevant_validation_queries(tmp_path):
    for name, label in (("train", 1), ("test", 1), ("vali", 0)):
        lines = [f"{label * (d % 2)} qid:{q} 1:{d / 4} 2:{q}" for q in range(6) for d in range(4)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    data = f"Letor(path={str(tmp_path)!r})"
    assert replace(TUNED, data=data, clients=2, rounds=4).run().final["validation_ndcg@10"] is None
    with pytest.raises(Mistake, match="no validation query of Letor has a relevant document"):
        replace(TUNED, data=data, patience=2).run()
