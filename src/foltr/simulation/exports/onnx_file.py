"""ONNX: a graph from documents (m, f) float32 to scores (m,) float32.

Normalisation is part of the graph. Where it is per query, the documents are all documents of one
query. The graph computes in float64, so that large raw features and sums keep their precision.
Normalised features are rounded to float32, as in training. The operators are of opset 13, which
onnxruntime has had since version 1.6 (2020).

Reference: https://onnx.ai/onnx/operators/"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.scoring import Activation, PerFeature
from foltr.simulation.exports.model import Model

OPSET, IR = 13, 7  # the version of the file format that belongs to this opset
LARGEST = 2**31 - 2**20  # bytes of a file: protobuf cannot read more than 2 GiB
OPERATORS: dict[Activation, str] = {"sigmoid": "Sigmoid", "relu": "Relu", "tanh": "Tanh"}


def onnx_file(model: Model) -> bytes:
    try:
        import onnx
    except ImportError as error:
        install = "pip install 'foltr[export]'"
        raise Mistake(f"ONNX files need the package onnx: {install} ({error})") from None
    numbers = sum(layer.weights.size + layer.bias.size for layer in model.layers)
    large = f"{numbers:,} parameters do not fit into one ONNX file, which has at most 2 GiB"
    require(4 * numbers < LARGEST, f"{large}: use fewer hidden units, or --to json")
    graph = _Graph(onnx)
    values = _normalised(graph, model)
    for layer in model.layers:
        weights = graph.cast(graph.constant(np.ascontiguousarray(layer.weights.T)), np.float64)
        bias = graph.cast(graph.constant(layer.bias), np.float64)
        values = graph.add("Add", graph.add("MatMul", values, weights), bias)
        if layer.activation in OPERATORS:
            values = graph.add(OPERATORS[layer.activation], values)
    flat = graph.add("Reshape", values, graph.constant(np.array([-1])))
    graph.cast(flat, np.float32, "scores")
    return _written(onnx, graph, model)


def _normalised(graph: _Graph, model: Model) -> str:
    """The documents as the ranker was trained on them, in float64."""
    docs = graph.cast("documents", np.float64)
    if model.per_query:
        extremes = (
            graph.add(kind, "documents", axes=[0], keepdims=1)
            for kind in ("ReduceMin", "ReduceMax")
        )
        low, high = (graph.cast(each, np.float64) for each in extremes)
        span = graph.add("Sub", high, low)
        varies = graph.add("Greater", span, graph.constant(np.zeros(1)))
        # constant features: 0 / 1
        scale = graph.add("Where", varies, span, graph.constant(np.ones(1)))
        shifted = graph.add("Sub", docs, low)
    elif isinstance(model.normalisation, PerFeature):
        scales = np.array(model.normalisation.scale)
        shifted = graph.add("Sub", docs, graph.constant(np.array(model.normalisation.shift)))
        scale = graph.constant(np.where(scales > 0.0, scales, np.inf))
    else:
        return docs
    return graph.cast(graph.cast(graph.add("Div", shifted, scale), np.float32), np.float64)


@dataclass
class _Graph:
    """A graph under construction. A value is known by its name."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The output of one more operator."""
        name = str(attributes.pop("output", f"{operator.lower()}_{len(self.nodes)}"))
        node = self.onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def cast(self, value: str, kind: type[np.generic], output: str | None = None) -> str:
        to = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self.add("Cast", value, to=to, **({"output": output} if output else {}))

    def constant(self, array: Array) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name


def _written(onnx: Any, graph: _Graph, model: Model) -> bytes:
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "ranker",
            [helper.make_tensor_value_info("documents", single, ["documents", model.features])],
            [helper.make_tensor_value_info("scores", single, ["documents"])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="foltr",
        producer_version=model.maker.removeprefix("foltr "),
        doc_string=f"Scores of documents. It takes {model.takes}.",
    )
    normalisation = None if model.normalisation is None else model.normalisation.plain()
    about = {
        "name": model.name,
        "ranker": repr(model.trained.ranker),
        "names": json.dumps(model.names),
        "names_sha256": model.names_sha256,
        "normalisation": json.dumps(normalisation),
    }
    helper.set_model_props(made, about)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString(deterministic=True))
