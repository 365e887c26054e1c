"""A trained ranker outside its run: ranks, is saved and loaded, exported for other tools."""

import json
from dataclasses import replace

import ir_measures
import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.scoring import PerFeature, PerQuery
from foltr.simulation.runs.trained import TrainedRanker, load_ranker, qrels

LINEAR = TrainedRanker(foltr.Linear(), np.array([1.0, -2.0], np.float32), 2)


def test_ranks_new_documents():
    docs = np.array([[0.0, 1.0], [3.0, 0.0], [1.0, 0.0]])
    assert foltr.rank(LINEAR, docs).tolist() == [1, 2, 0]
    assert foltr.rank(LINEAR, docs, k=2).tolist() == [1, 2]
    assert foltr.rank(LINEAR, docs, k=9).tolist() == [1, 2, 0]


def test_ties_are_broken_by_address_not_by_place():
    tied = [int(LINEAR.rank(np.zeros((5, 2)), seed=s)[0]) for s in range(60)]
    assert set(tied) == set(range(5))
    assert tied == [int(LINEAR.rank(np.zeros((5, 2)), seed=s)[0]) for s in range(60)]


@pytest.mark.parametrize("spec", ["Linear()", "MLP(hidden=3)"])
def test_save_and_load(spec, tmp_path):
    e = foltr.Experiment(data="Synthetic(queries=20)", ranker=spec, clients=3, rounds=3)
    trained = e.run().trained
    trained.save(tmp_path / "ranker.json")
    again = load_ranker(tmp_path / "ranker.json")
    assert again.ranker == trained.ranker and again.features == 46
    np.testing.assert_array_equal(again.params, trained.params)


SHORT = '{"foltr-ranker": 1, "ranker": "Linear()", "features": 3, "params": [1]}'


@pytest.mark.parametrize("content", ["", "{}", "[1]", SHORT])
def test_what_is_no_ranker_is_refused(content, tmp_path):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(Mistake, match=r"r\.json"):
        load_ranker(tmp_path / "r.json")


def test_names_and_normalisation_are_saved(tmp_path):
    fixed = PerFeature((1.0, 0.5), (2.0, 0.0))
    for normalisation in (None, PerQuery(), fixed):
        for names in (None, ("bm25", "größe")):
            made = replace(LINEAR, names=names, normalisation=normalisation)
            made.save(tmp_path / "r.json")
            again = load_ranker(tmp_path / "r.json")
            assert (again.names, again.normalisation) == (names, normalisation)


def test_a_ranker_without_them_is_saved_as_before(tmp_path):
    LINEAR.save(tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == (
        '{"foltr-ranker": 1, "ranker": "Linear()", "features": 2, "params": [1.0, -2.0]}\n'
    )


@pytest.mark.parametrize(
    "more",
    [
        {"names": ["a"]},
        {"names": ["a", "a"]},
        {"names": "ab"},
        {"names": [1, 2]},
        {"normalisation": "query"},
        {"normalisation": {"kind": "shift and scale", "shift": [1.0], "scale": [1.0]}},
        {"names_sha256": "00"},
        {"layers": []},
    ],
)
def test_what_does_not_fit_the_ranker_is_refused(more, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({**LINEAR.plain(), **more}))
    with pytest.raises(Mistake, match=r"r\.json: "):
        load_ranker(tmp_path / "r.json")


def test_raw_features_are_normalised_and_others_are_not():
    docs = np.array([[0.0, 40.0], [8.0, 20.0], [2.0, 20.0]])
    scaled = replace(LINEAR, normalisation=PerQuery())
    assert LINEAR.scores(docs, raw=True).tolist() == LINEAR.scores(docs).tolist()
    assert scaled.scores(docs).tolist() == [-80.0, -32.0, -38.0]
    assert scaled.scores(docs, raw=True).tolist() == [-2.0, 1.0, 0.25]
    assert scaled.rank(docs).tolist() == [1, 2, 0] == foltr.rank(scaled, docs).tolist()
    docs[1, 1] = 100.0
    assert scaled.rank(docs, raw=True).tolist() == foltr.rank(scaled, docs, raw=True).tolist()
    assert foltr.rank(scaled, docs, raw=True).tolist() == [2, 0, 1]
    overflowing = replace(LINEAR, normalisation=PerFeature((0.0, 0.0), (1e-40, 1.0)))
    with pytest.raises(Mistake, match="beyond float32"):
        overflowing.scores(docs, raw=True)


def test_documents_of_another_shape_are_refused():
    with pytest.raises(Mistake, match="2"):
        LINEAR.rank(np.zeros((3, 4)))
    with pytest.raises(Mistake, match="finite"):
        LINEAR.rank(np.array([[np.nan, 1.0]]))


def test_ir_measures_computes_our_ndcg_from_our_run_and_qrels(tmp_path):
    """Another tool, fed our run and qrels, computes our nDCG."""
    e = foltr.Experiment(data="Synthetic(queries=90)", clients=10, rounds=20)
    result, data = e.run(), e.data.load("test")
    run, judged = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("\n".join(result.trained.trec_run(data)) + "\n")
    judged.write_text("\n".join(qrels(data)) + "\n")
    measure = ir_measures.nDCG(gains={0: 0, 1: 1, 2: 3}) @ 10
    values = {
        m.query_id: m.value
        for m in ir_measures.iter_calc(
            [measure],
            list(ir_measures.read_trec_qrels(str(judged))),
            list(ir_measures.read_trec_run(str(run))),
        )
    }
    relevant = [
        q
        for i, q in enumerate(data.query_ids)
        if data.labels[0, data.offsets[i] : data.offsets[i + 1]].any()
    ]
    assert np.mean([values[q.decode()] for q in relevant]) == pytest.approx(
        result.final["ndcg@10"], abs=1e-9
    )
