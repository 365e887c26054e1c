"""A small study whose table can be worked by hand, as it is printed in a paper."""

from pathlib import Path

import pytest

from foltr.report.matrix import matrix
from foltr.report.results import Recorded, Runs
from foltr.report.study import study
from foltr.report.tables.latex_table import latex_tables
from foltr.simulation.runs.columns import Metrics

TABLE = Path(__file__).with_name("table.tex")
VALUES = {  # nDCG@10 of seeds 1, 2, 3
    "PDGD": {"perfect": (0.40, 0.41, 0.42), "informational": (0.30, 0.32, 0.31)},
    "FPDGD_100": {"perfect": (0.50, 0.52, 0.51), "informational": (0.31, 0.30, 0.32)},
    "50% noise": {"perfect": (0.30, 0.31, 0.33), "informational": (0.25, 0.26)},
}


def runs():
    for number, (method, conditions) in enumerate(VALUES.items()):
        for kind, values in conditions.items():
            for seed, value in enumerate(values, 1):
                config = {
                    "data": "MQ2008(fold=1)",
                    "users": f"Cascade(kind='{kind}')",
                    "clients": number,
                    "seed": seed,
                }
                final = {"ndcg@10": value, "queries": 156, "empty": "skip"}
                yield Recorded(
                    Path(f"{number}-{kind}-{seed}"), config, final, {}, Metrics(), method
                )


@pytest.fixture
def found():
    return matrix(study(Runs(tuple(runs()), title="A study")), "ndcg@10")


def test_numbers(found):
    """FPDGD_100, perfect: differences .10, .11, .09 have mean .1 and sd .01, so t = .1 / (.01 /
    sqrt(3)) = 17.32; with two degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(300 / 302) =
    .003317, times four .01327."""
    better = found.entries[1, 0]
    assert better.test.t == pytest.approx(300**0.5)
    assert better.test.p == pytest.approx(1 - (300 / 302) ** 0.5)
    assert better.corrected == pytest.approx(0.013267, abs=5e-7) and better.mark == "▲"
    # differences -.10, -.10, -.09: mean -.29 / 3, sd .01 / sqrt(3), so t = -29
    worse = found.entries[2, 0]
    assert worse.test.t == pytest.approx(-29.0)
    assert worse.corrected == pytest.approx(4 * (1 - 29 / 843**0.5)) and worse.mark == "▼"
    same = found.entries[1, 1]  # differences .01, -.02, .01: mean 0
    assert same.test.p == pytest.approx(1.0) and same.mark == ""
    assert found.entries[2, 1].refused == "not paired: 50% noise lacks seed=3"
    assert found.family == 4


def test_table(found):
    assert latex_tables(found) == TABLE.read_text(encoding="utf-8")
