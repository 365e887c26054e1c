"""The privacy ledger on the page of a report."""

import pytest
from made_ledgers import recorded

from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.laplace import Laplace
from foltr.report.chapters.privacy import privacy_guarantees, privacy_remarks
from foltr.report.chapters.registry import blocks
from foltr.report.results import Runs


def test_a_page_shows_what_its_runs_guarantee():
    runs = [
        recorded(GammaShares(1.2, 3.0)),
        recorded(GammaShares(1.2, 3.0)),
        recorded(Laplace(1.0, 0.1)),
        recorded(None),
    ]
    found = privacy_guarantees(Runs(tuple(runs)))
    assert found.rows[0] == (
        "privatizer",
        "observer",
        "epsilon of each protected unit",
        "assumes",
        "runs",
    )
    shares = "GammaShares(epsilon=1.2, sensitivity=3.0)"
    nothing = "one client-round: no limit; one client, 100 rounds: no limit"
    assert (shares, "the server", nothing, "-", "2 of 4") in found.rows
    told = "one client-round: 5.84 (delta 1e-05); one client, 100 rounds: 128 (delta 1e-05)"
    assert (shares, "observers of models", told, "the server, for the sum", "2 of 4") in found.rows
    assert ("none", "the server", nothing, "-", "1 of 4") in found.rows
    said = privacy_remarks(Runs(tuple(runs)))
    assert any("carry no noise at all" in remark for _, remark in said.rows) and len(
        set(said.rows)
    ) == len(said.rows)


def test_a_page_of_runs_without_privatizers_says_that_in_a_sentence():
    found = privacy_guarantees(Runs((recorded(None),)))
    assert "nothing is guaranteed" in found.text and not found.rows
    assert privacy_remarks(Runs((recorded(None),))) is None


@pytest.mark.parametrize(
    "damaged", [None, "text", {}, {"views": None}, {"views": [{}]}, {"views": [3]}, []]
)
def test_runs_that_recorded_no_ledger_or_another_are_passed_over(damaged):
    run = recorded(None)
    run.final["privacy"] = damaged
    assert privacy_guarantees(Runs((run,))) is None
    blocks(Runs((run,)))
