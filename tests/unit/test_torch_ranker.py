"""The PyTorch ranker of examples/components keeps the contracts, gives the same bits again, and is
told of tensors. It needs torch (`pip install torch`), which is no dependency of foltr."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import rankers
from foltr.experiment.user_files import use_only

pytestmark = pytest.mark.tools
ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "components" / "torch_ranker.py"
SMALL = {"data": "Synthetic(queries=30)", "clients": 3, "rounds": 3}


@pytest.fixture(autouse=True)
def used():
    foltr.use(FILE)
    yield
    use_only([])
    rankers.forget(__name__)


def test_it_keeps_the_contracts():
    code = (
        f"import foltr, pytest; foltr.use({str(FILE)!r}); raise SystemExit(pytest.main("
        "['tests/contracts', '-v', '-k', 'TorchRanker', '-p', 'no:cacheprovider']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, env=os.environ
    )
    assert done.returncode == 0, done.stdout
    assert len(re.findall(r"TorchRanker\] PASSED", done.stdout)) >= 3


def test_the_same_run_has_the_same_bits_and_learns():
    e = foltr.Experiment(ranker="TorchRanker(hidden=(8,))", **SMALL)
    first, again = e.run(), e.run(engine="debug")
    assert first.params.tobytes() == again.params.tobytes()
    assert not np.array_equal(first.params, e.ranker.init(46, stream(e.seed, "init")))


def test_a_hidden_layer_is_the_network_of_foltr():
    """Score and gradient of one hidden layer agree with MLP, whose parameters are [W | b | v]
    too."""
    theirs, ours = (
        foltr.MLP(hidden=8, activation="relu"),
        rankers.build("TorchRanker(hidden=(8,))"),
    )
    params, docs = theirs.init(5, stream(1)), stream(2).normals(60).reshape(12, 5)
    docs, dscores = docs.astype(np.float32), stream(3).normals(12).astype(np.float32)
    np.testing.assert_allclose(
        ours.scores(params, docs), theirs.scores(params, docs), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        ours.pullback(params, docs, dscores),
        theirs.pullback(params, docs, dscores),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("grown", [False, True], ids=["plain", "with a gradient"])
def test_a_tensor_is_told(grown):
    @dataclass(frozen=True)
    class Tensors:
        head = 0

        def init(self, features, rng):
            return np.zeros(features, np.float32)

        def scores(self, params, docs):
            import torch

            return torch.tensor(docs) @ torch.tensor(params, requires_grad=grown)

        def pullback(self, params, docs, dscores):
            return dscores @ docs

    rankers.register(Tensors)
    with pytest.raises(
        Mistake, match=r"Tensors.scores gave, .* documents, a Tensor of shape .*detach\(\).numpy"
    ):
        foltr.Experiment(ranker=Tensors(), **SMALL).run()  # type: ignore[arg-type]
