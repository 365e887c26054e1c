"""The scikit-learn estimator: scikit-learn's own checks, pipelines, clones, pickles, queries."""

import io
import pickle
from collections import defaultdict

import joblib
import numpy as np
import pandas as pd
import pytest
from exported_models import made, raw_documents
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

import foltr
from foltr.core.errors import Mistake
from foltr.core.scoring import PerQuery
from foltr.simulation.exports.estimator import RankerEstimator

# It is fitted from the start, and so it has n_features_in_ before `fit`.
EXPECTED = {"check_n_features_in"}


def test_the_checks_of_scikit_learn():
    """Checks bring data of their own, and the ranker takes one number of features only: each check
    must pass for the number that it brings."""
    passed, skipped = defaultdict(bool), set()
    for width in (1, 2, 3, 4, 5, 10):
        for each in check_estimator(RankerEstimator(made(f=width)), on_fail=None, on_skip=None):
            passed[each["check_name"]] |= each["status"] == "passed"
            skipped |= {each["check_name"]} if each["status"] == "skipped" else set()
    assert len(passed) > 30
    assert {name for name, ok in passed.items() if not ok} - skipped == EXPECTED


def test_a_clone_and_a_pickle_give_the_same_scores():
    estimator, docs = RankerEstimator(made(normalisation=PerQuery())), raw_documents()
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    again = [clone(estimator), pickle.loads(pickle.dumps(estimator)), joblib.load(buffer)]
    for other in again:
        np.testing.assert_array_equal(other.predict(docs), estimator.predict(docs))
    assert estimator.get_params() == {"ranker": estimator.ranker}


def test_the_last_step_of_a_pipeline():
    estimator, docs = RankerEstimator(made(normalisation=PerQuery())), raw_documents()
    halved = make_pipeline(FunctionTransformer(lambda X: X / 2.0), estimator)
    np.testing.assert_allclose(halved.predict(docs), estimator.predict(docs), rtol=1e-6)
    np.testing.assert_allclose(halved.fit(docs).predict(docs), estimator.predict(docs), rtol=1e-6)
    groups = [0, 0, 0, 1, 1, 1, 1]
    np.testing.assert_allclose(
        halved.predict(docs, groups=groups), estimator.predict(docs, groups), rtol=1e-6
    )


def test_fit_learns_nothing():
    estimator, docs = RankerEstimator(made()), raw_documents()
    before = estimator.ranker.params.copy()
    assert estimator.fit(docs, np.arange(7)) is estimator
    np.testing.assert_array_equal(estimator.ranker.params, before)
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        pytest.fail("it is fitted from the start")


def test_groups_are_normalised_apart():
    trained = made(normalisation=PerQuery())
    estimator, docs = RankerEstimator(trained), raw_documents(9)
    groups = np.array(["b", "a", "b", "c", "a", "a", "b", "c", "b"])
    found = estimator.predict(docs, groups=groups)
    for query in "abc":
        rows = groups == query
        np.testing.assert_array_equal(found[rows], estimator.predict(docs[rows]))
    assert not np.allclose(found, estimator.predict(docs))
    with pytest.raises(Mistake, match="one query for each of 9 rows"):
        estimator.predict(docs, groups=groups[:-1])


def test_groups_do_not_matter_without_normalisation_per_query():
    estimator, docs = RankerEstimator(made()), raw_documents(4)
    np.testing.assert_array_equal(estimator.predict(docs, [1, 1, 2, 2]), estimator.predict(docs))


def test_data_frames_must_have_the_names_of_the_features():
    names = ("a", "b", "c")
    estimator, docs = RankerEstimator(made(f=3, names=names)), raw_documents(4, 3)
    assert estimator.feature_names_in_.tolist() == list(names) and estimator.n_features_in_ == 3
    frame = pd.DataFrame(docs, columns=names)
    np.testing.assert_array_equal(estimator.predict(frame), estimator.predict(docs))
    for columns in (["a", "c", "b"], ["a", "b", "d"], ["a", "b"]):
        with pytest.raises(ValueError, match="feature names should match"):
            estimator.predict(pd.DataFrame(docs[:, : len(columns)], columns=columns))
    numbered = pd.DataFrame(docs)  # its columns have no names
    np.testing.assert_array_equal(estimator.predict(numbered), estimator.predict(docs))
    unnamed = RankerEstimator(made(f=3))
    np.testing.assert_array_equal(unnamed.predict(frame), unnamed.predict(docs))
    with pytest.raises(AttributeError):
        _ = unnamed.feature_names_in_


@pytest.mark.parametrize(
    "X", [[[1.0, 2.0]], [[1.0, 2.0, np.nan]], [[1.0, 2.0, np.inf]], [1.0, 2.0, 3.0], [["a"] * 3]]
)
def test_wrong_input_is_a_value_error(X):
    with pytest.raises(ValueError):
        RankerEstimator(made(f=3)).predict(X)


def test_loads_what_the_exports_write(tmp_path):
    trained, docs = made("MLP(hidden=3)", 5, PerQuery()), raw_documents()
    foltr.export(trained, "sklearn", tmp_path / "one.json")
    trained.save(tmp_path / "two.json")
    for file in ("one.json", "two.json"):
        found = foltr.load_estimator(tmp_path / file).predict(docs)
        np.testing.assert_array_equal(found, RankerEstimator(trained).predict(docs))


def test_without_scikit_learn(tmp_path, monkeypatch):
    import sys

    made().save(tmp_path / "ranker.json")
    monkeypatch.delitem(sys.modules, "foltr.simulation.exports.estimator")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(Mistake, match=r"scikit-learn: pip install 'foltr\[export\]'"):
        foltr.load_estimator(tmp_path / "ranker.json")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_a_query_is_refused(missing):
    estimator = RankerEstimator(made(normalisation=PerQuery()))
    docs = raw_documents(4)
    with pytest.raises(Mistake, match=r"groups must have a query for each row, got .* for row 2"):
        estimator.predict(docs, groups=np.array(["a", "a", missing, "b"], object))


def test_queries_may_be_of_any_kind():
    estimator = RankerEstimator(made(normalisation=PerQuery()))
    docs = raw_documents(4)
    expected = estimator.predict(docs, groups=[1, 1, 2, 2])
    found = estimator.predict(docs, groups=np.array(["a", "a", 7, 7], object))
    assert found.tolist() == expected.tolist()
