"""Published figures on real data (MQ2008, five folds). Heavy: `pytest -m claims`, with FOLTR_DATA
set.

Batched centralised PDGD, 2 M interactions, offline nDCG@10 (mean of the last 5 % of the
evaluations, mean of five folds): the ECIR 2021 reproducibility study of Wang, Zhuang & Zuccon.
FPDGD beside centralised PDGD: thesis 3.2.3."""

import numpy as np
import pytest

from foltr.experiment import Experiment

pytestmark = [pytest.mark.claims, pytest.mark.usefixtures("with_real_data")]

KINDS = ("perfect", "navigational", "informational")
FOLDS = range(1, 6)


def last_values(kind, fold, evaluations=100, **fields):
    """The mean of the last 5 % of a run's offline nDCG@10."""
    e = Experiment(
        data=f"MQ2008(fold={fold})", users=f"Cascade(kind={kind!r})",
        evaluate_every=max(1, fields["rounds"] // evaluations), **fields,
    )  # fmt: skip
    values = e.run(threads=2).curve("ndcg@10").values
    return float(values[-max(1, evaluations // 20) :].mean())


PUBLISHED = {200: (0.702, 0.695, 0.694), 8000: (0.675, 0.682, 0.686)}
WITHIN = {200: 0.012, 8000: 0.015}


@pytest.mark.parametrize("batch", PUBLISHED)
@pytest.mark.parametrize("kind", KINDS)
def test_batched_centralised_pdgd_is_as_published(kind, batch):
    fields = {
        "learner": "PDGD(sessions=1)", "clients": batch, "optimizer": f"SGD(lr={float(batch)})",
        "rounds": 2_000_000 // batch,
    }  # fmt: skip
    ours = np.mean([last_values(kind, fold, **fields) for fold in FOLDS])
    published = PUBLISHED[batch][KINDS.index(kind)]
    print(f"batch {batch}, {kind}: {ours:.4f}, published {published}")
    assert abs(ours - published) <= WITHIN[batch]


@pytest.mark.parametrize("kind", KINDS)
def test_federation_beats_equal_updates_and_stays_close_at_equal_interactions(kind):
    """1000 clients x 4 sessions x 250 rounds, beside one client with 250 single sessions, and with
    as many sessions (an update after each: 4,000 sessions in each of 250 rounds is the same
    learner, recorded 250 times)."""
    federated, few, equal = (
        np.mean([last_values(kind, fold, rounds=250, **fields) for fold in FOLDS])
        for fields in (
            {"learner": "PDGD(sessions=4)", "clients": 1000},
            {"learner": "PDGD(sessions=1)", "clients": 1},
            {"learner": "PDGD(sessions=4000)", "clients": 1},
        )
    )
    print(
        f"{kind}: FPDGD {federated:.4f}, PDGD at 250 updates {few:.4f}, at equal interactions"
        f" {equal:.4f}"
    )
    assert federated > few
    assert abs(federated - equal) <= 0.01
