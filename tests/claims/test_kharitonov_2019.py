"""FOLtR-ES as published: Table 3 and Figures 1 and 3 of Kharitonov (WSDM 2019), and the study of
Wang, Zhuang & Zuccon (ECIR 2021), on MQ2008, from the files in reproduce/; the figures are means
of five folds."""

import numpy as np
import pytest

pytestmark = pytest.mark.claims
KINDS = ("navigational", "informational", "perfect")
TABLE_3 = {  # of MQ2008: train, test
    "least squares": ((0.457, 0.730, 0.408), (0.450, 0.726, 0.400)),
    "RankingSVM": ((0.471, 0.736, 0.424), (0.470, 0.735, 0.422)),
    "linear": ((0.469, 0.720, 0.415), (0.458, 0.715, 0.401)),
    "two-layer": ((0.481, 0.734, 0.430), (0.464, 0.731, 0.414)),
}
ECIR_21 = {  # online MaxRR, mean of the last 5 % of rounds, 2000 clients: p -> ranker -> KINDS
    0.9: {"linear": (0.4641, 0.7219, 0.4142), "two-layer": (0.4713, 0.7298, 0.4239)},
    1.0: {"linear": (0.4642, 0.7199, 0.4136), "two-layer": (0.4701, 0.7322, 0.4215)},
}


def late(run, measure):
    values = run.curve(measure).values
    return float(values[-max(1, round(len(values) / 20)) :].mean())


def mean_of_folds(runs, told, **conditions):
    chosen = runs.where(**conditions)
    assert len(chosen) == 5
    return float(np.mean([told(run) for run in chosen]))


@pytest.fixture(scope="module")
def table(made):
    return made("kharitonov-2019-table3")


def expected(table, method, kind, train, p=0.9):
    measure = "train_expected_maxrr" if train else "expected_maxrr"
    fields = {"method": method, "users.kind": kind}
    if method.startswith("ES"):
        fields["privacy.p"] = p
    return mean_of_folds(table, lambda run: run.final[measure], **fields)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("train", [True, False], ids=["train", "test"])
def test_table_3(table, kind, train):
    def printed(method):
        return TABLE_3[method][0 if train else 1][KINDS.index(kind)]

    found = {
        method: expected(table, method, kind, train)
        for method in (
            "least squares", "RankingSVM", "ES linear, independent", "ES linear, as published",
            "ES two-layer, independent", "ES two-layer, as published",
        )
    }  # fmt: skip
    print(
        kind,
        "train" if train else "test",
        {method: round(value, 4) for method, value in found.items()},
    )
    assert abs(found["least squares"] - printed("least squares")) <= 0.015
    assert abs(found["RankingSVM"] - printed("RankingSVM")) <= 0.015
    assert abs(found["ES two-layer, independent"] - printed("two-layer")) <= 0.012
    assert found["ES linear, independent"] >= printed("linear") - 0.012
    assert abs(found["ES linear, as published"] - printed("linear")) <= 0.012
    # as published the two-layer ranker is above the linear one; with independent draws it is not
    assert found["ES two-layer, as published"] > found["ES linear, as published"]
    assert found["ES two-layer, independent"] < found["ES linear, independent"] + 0.005


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", ECIR_21)
def test_online_maxrr_of_the_reproducibility_study(table, kind, p):
    fields = {"users.kind": kind, "privacy.p": p}
    for ranker, methods in {
        "linear": ("ES linear, as published",),
        "two-layer": ("ES two-layer, independent", "ES two-layer, as published"),
    }.items():
        printed = ECIR_21[p][ranker][KINDS.index(kind)]
        for method in methods:
            found = mean_of_folds(table, lambda run: late(run, "maxrr"), method=method, **fields)
            print(f"p {p} {kind} {method}: {found:.4f}, published {printed}")
            assert abs(found - printed) <= 0.008
    independent, shared = (
        mean_of_folds(table, lambda run: late(run, "maxrr"), method=f"ES linear, {how}", **fields)
        for how in ("independent", "as published")
    )
    assert independent > shared  # the published seeding lowers it


@pytest.fixture(scope="module")
def figures(made):
    wanted = ("B = 4, p = 1", "without antithetic variates", "p = 0.5", "p = 0.15")
    return made("kharitonov-2019-figures", lambda point: point.method in wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_figures_1_and_3_in_kind(figures, kind):
    def level(method, told):
        return mean_of_folds(figures, told, method=method, **{"users.kind": kind})

    def area(run):
        return float(run.curve("maxrr").values.mean())

    found = {
        method: level(method, area)
        for method in ("B = 4, p = 1", "without antithetic variates", "p = 0.5")
    }
    print(
        kind, "mean over the curve", {method: round(value, 4) for method, value in found.items()}
    )
    assert found["B = 4, p = 1"] > found["without antithetic variates"]  # Figure 1: they help
    full, half, least = (
        level(m, lambda run: late(run, "maxrr")) for m in ("B = 4, p = 1", "p = 0.5", "p = 0.15")
    )
    start = level("p = 0.15", lambda run: float(run.curve("maxrr").values[0]))
    print(
        kind, f"in the end p = 1: {full:.4f}, 0.5: {half:.4f}, 0.15: {least:.4f} from {start:.4f}"
    )
    assert full - half < 0.012  # Figure 3: very little difference
    assert least > start + 0.02 * (kind != "informational")  # and 0.15 still learns
    assert least > start
