"""`Experiment.run(engine="debug")` computes by definitions alone: it works where numba is not even
there, and agrees with the kernels."""

import json
import subprocess
import sys

import pytest

from foltr import Experiment
from foltr.core.spec import aggregators, attacks

SMALL = {"data": "Synthetic(queries=40)", "clients": 12, "rounds": 4, "evaluate_every": 2}


def names_in(family):
    """The components of foltr in a family."""
    return [n for n, cls in family.members().items() if cls.__module__.startswith("foltr.")]


RULES = {
    "Bucketing": "Bucketing(rule=Krum(malicious=2))",
    "NNM": "NNM(rule=Median(), malicious=2)",
}
EXPERIMENTS = [
    {"learner": "ES()", "privacy": "RandomizedReward(p=0.9)"},
    {"ranker": "MLP(hidden=4)", "evaluate_on": "validation"},
    {"learner": "FedPer()", "ranker": "MLP(hidden=4)"},
    {"learner": "Personal()", "partition": "ByVolume()"},
    {"privacy": "Laplace(epsilon=9.0, clip=1.0)", "participation": 0.5},
    {"privacy": "Gaussian(clip=1.0, noise=0.5)"},
    {"privacy": "GammaShares(epsilon=9.0, sensitivity=1.0)", "channel": "SecureSum()"},
    {"partition": "ByLabel()", "optimizer": "Adam()"},
    {"history": 1, "unlearning": "FedEraser()", "leaving": [[3]]},
    {"baseline": "LeastSquares()"},
    {"attack": "Tailored(rule=Median())", "malicious": 2},
    {"attack": "Disguised(attack=FangKrum())", "malicious": 3, "aggregator": "Krum(malicious=3)"},
    *({"aggregator": RULES.get(name, f"{name}()")} for name in names_in(aggregators)),
    *(
        {"attack": f"{name}()", "malicious": 2, "aggregator": "Gated(fallback=Krum(malicious=2))"}
        for name in names_in(attacks)
        if name not in ("Disguised", "Tailored")
    ),
]
NAMES = [" ".join(map(str, fields.values())) for fields in EXPERIMENTS]
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing either is an error
import json, foltr
for fields in json.load(sys.stdin):
    how = {"engine": "debug", "threads": 2, "measures": "nDCG(k=5), MAP()", "per_query": True}
    print(json.dumps(foltr.Experiment(**fields).run(sys.argv[1], **how).final))
"""


@pytest.fixture(scope="module")
def plainly(tmp_path_factory):
    """The results of all experiments in the debug engine, in a process without numba."""
    given = json.dumps([{**SMALL, **fields} for fields in EXPERIMENTS])
    command = [sys.executable, "-c", WITHOUT_NUMBA, str(tmp_path_factory.mktemp("runs"))]
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "i", range(len(EXPERIMENTS)), ids=lambda i: " ".join(map(str, EXPERIMENTS[i].values()))
)
def test_no_kernel_runs_in_the_debug_engine(plainly, i):
    e = Experiment(**{**SMALL, **EXPERIMENTS[i]})
    compiled = e.run(measures="nDCG(k=5), MAP()").final
    for name in ("ndcg@10", "mrr@10", "expected_maxrr", "ndcg@5", "map", "train_ndcg@10"):
        assert plainly[i][name] == pytest.approx(compiled[name], rel=1e-6), name
