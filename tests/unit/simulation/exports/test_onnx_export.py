"""The ONNX file: its interface, what it says of itself, and how old a runtime may be."""

import json
import sys
from hashlib import sha256

import numpy as np
import onnx
import onnxruntime
import pytest
from exported_models import made, raw_documents

from foltr import __version__
from foltr.core.errors import Mistake
from foltr.core.scoring import PerQuery
from foltr.simulation.exports import onnx_file as module
from foltr.simulation.exports.model import Model
from foltr.simulation.exports.onnx_file import onnx_file

NAMES = ("bm25", "größe", "age in days")


def test_what_the_file_says_of_itself():
    trained = made("MLP(hidden=2)", 3, PerQuery(), NAMES)
    read = onnx.load_from_string(onnx_file(Model(trained, "shop")))
    about = {entry.key: entry.value for entry in read.metadata_props}
    assert json.loads(about["names"]) == list(NAMES)
    assert about["names_sha256"] == sha256(json.dumps(NAMES).encode()).hexdigest()
    assert json.loads(about["normalisation"]) == {"kind": "min-max per query"}
    assert about["name"] == "shop" and about["ranker"] == repr(trained.ranker)
    assert (read.producer_name, read.producer_version) == ("foltr", __version__)
    assert "one query" in read.doc_string


def test_runtimes_of_2020_read_it():
    read = onnx.load_from_string(onnx_file(Model(made(), "m")))
    assert [(each.domain, each.version) for each in read.opset_import] == [("", 13)]
    assert read.ir_version == 7


@pytest.mark.parametrize("normalisation", [None, PerQuery()])
def test_documents_in_scores_out(normalisation):

    content = onnx_file(Model(made(f=5, normalisation=normalisation), "m"))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (given,), (got,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == (
        "documents",
        "tensor(float)",
        ["documents", 5],
    )
    assert (got.name, got.type, got.shape) == ("scores", "tensor(float)", ["documents"])
    for m in (1, 2, 50):
        docs = raw_documents(m).astype(np.float32)
        assert session.run(None, {"documents": docs})[0].shape == (m,)
    with pytest.raises(Exception, match="invalid dimensions"):
        session.run(None, {"documents": np.zeros((3, 4), np.float32)})


def test_the_reference_implementation_agrees():
    """onnx's own evaluator, in NumPy, beside onnxruntime."""
    from onnx.reference import ReferenceEvaluator

    trained, docs = made("MLP(hidden=4)", 6, PerQuery()), raw_documents(9, 6).astype(np.float32)
    read = onnx.load_from_string(onnx_file(Model(trained, "m")))
    (scores,) = ReferenceEvaluator(read).run(None, {"documents": docs})
    own = trained.scores(docs, raw=True)
    np.testing.assert_allclose(scores, own, 0, 1e-6 * np.abs(own).max())


def test_equal_models_are_equal_bytes():
    assert onnx_file(Model(made(), "m")) == onnx_file(Model(made(), "m"))


def test_a_model_beyond_2_gib_is_refused(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 20)
    with pytest.raises(Mistake, match="6 parameters do not fit"):
        onnx_file(Model(made(f=5), "m"))
    assert onnx_file(Model(made(f=3), "m"))


def test_without_the_package_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(Mistake, match=r"pip install 'foltr\[export\]'"):
        onnx_file(Model(made(), "m"))
