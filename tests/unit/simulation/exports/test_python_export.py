"""The Python file: runs alone, checks itself, and refuses documents that do not fit."""

import ast
import subprocess
import sys

import pytest
from exported_models import RANKERS, made, rankers, raw_documents
from hypothesis import given

from foltr.core.errors import Mistake
from foltr.core.scoring import PerFeature, PerQuery
from foltr.simulation.exports.model import Model
from foltr.simulation.exports.python_file import python_file

KINDS = [None, PerQuery(), PerFeature((1.0,) * 5, (2.0, 0.0, 1.0, 4.0, 1e3))]
# without the environment, site-packages and the folder it is in
ALONE = [sys.executable, "-I", "-S"]


def written(path, trained):
    file = path / "ranker.py"
    file.write_bytes(python_file(Model(trained, "m"), "ranker"))
    return file


def loaded(trained):
    names: dict = {"__name__": "ranker"}
    exec(python_file(Model(trained, "m"), "ranker"), names)
    return names


@pytest.mark.parametrize("normalisation", KINDS)
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_it_needs_nothing_but_python(ranker, normalisation, tmp_path):
    file = written(tmp_path, made(ranker, 5, normalisation))
    done = subprocess.run([*ALONE, str(file)], capture_output=True, text=True)
    assert done.stdout == "3 documents have the scores that foltr gave them\n", done.stderr
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert used <= {"array", "math"}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_the_check_fails_for_another_model(ranker, tmp_path):
    file = written(tmp_path, made(ranker))
    text = file.read_text()
    first = text.index('array("f", [') + len('array("f", [')
    file.write_text(f"{text[:first]}8.5, {text[text.index(', ', first) + 2 :]}")
    done = subprocess.run([*ALONE, str(file)], capture_output=True, text=True)
    assert done.returncode == 1 and "not the scores of foltr" in done.stderr


@given(rankers())
def test_any_names_make_a_valid_file(trained):
    text = python_file(Model(trained, 'quotes " \' and """'), "ranker").decode("ascii")
    names: dict = {"__name__": "ranker"}
    exec(text, names)
    assert names["FEATURES"] == list(Model(trained, "m").names)
    assert names["NAME"] == 'quotes " \' and """'


def test_lines_are_short_enough_to_read():
    for trained in (made(f=200), made("MLP(hidden=20)", 46)):
        lines = python_file(Model(trained, "m"), "ranker").decode().splitlines()
        assert max(map(len, lines)) <= 99


def test_ranks_best_first():
    trained = made(f=1)
    trained.params[:] = -1.0
    assert loaded(trained)["rank"]([[3.0], [1.0], [2.0], [1.0]]) == [1, 3, 2, 0]
    assert loaded(trained)["rank"]([]) == loaded(trained)["scores"]([]) == []
    per_query = loaded(made(f=1, normalisation=PerQuery()))
    assert per_query["scores"]([]) == []


def test_documents_by_name_may_have_other_fields():
    names = loaded(made(f=2, names=("b", "a")))
    document = {"id": "x7", "a": 1.0, "b": 2.0}
    assert names["scores"]([document]) == names["scores"]([[2.0, 1.0]])


@pytest.mark.parametrize("normalisation", [None, PerQuery()])
def test_wrong_documents_are_refused(normalisation):
    scores = loaded(made(f=2, normalisation=normalisation, names=("a", "b")))["scores"]
    for document, said in [
        ([1.0], "needs 2 features, got 1"),
        ([1.0, 2.0, 3.0], "got 3"),
        ({"a": 1.0}, "lacks the feature 'b'"),
        ([1.0, float("nan")], "not finite"),
        ([1.0, 1e39], "not finite in float32"),
    ]:
        with pytest.raises(ValueError, match=said):
            scores([[1.0, 2.0], document])
    with pytest.raises(TypeError):
        scores([["1", "2"]])


def test_scales_that_overflow_are_refused():
    tiny = PerFeature((0.0,), (1e-40,))
    with pytest.raises(Mistake, match="beyond float32"):
        python_file(Model(made(f=1, normalisation=tiny), "m"), "ranker")


def test_scores_are_plain_numbers():
    scores = loaded(made())["scores"](raw_documents().tolist())
    assert len(scores) == 7 and all(type(score) is float for score in scores)
