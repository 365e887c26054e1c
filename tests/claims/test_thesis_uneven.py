"""Chapter 4 of the thesis in kind, on MQ2008, the MSLR sample and WebTrack-intents, from the files
in reproduce/: which differences between clients hurt, and what helps. Levels are means of five
repetitions of final offline nDCG@10; what hurts must do so significantly (paired t-test over the
repetitions, p < .05), what does not may differ by a little."""

import numpy as np
import pytest

from foltr.core.spec import opened
from foltr.report.statistics import paired_t

pytestmark = pytest.mark.claims
KINDS = ("perfect", "navigational", "informational")
LINEAR, NETWORK = "Linear", "MLP"
LITTLE = 0.012


class Studied:
    """Runs by partition, ranker, learner and kind of clicks; of each the repetitions by seed."""

    def __init__(self, runs, repetitions=5):
        self.cells, self.seeds = {}, list(range(1, repetitions + 1))
        for run in runs:
            users, learner = opened(run.config["users"]), opened(run.config["learner"])
            inner = opened(learner.fields["learner"]) if "learner" in learner.fields else learner
            where = (
                run.config["partition"],
                run.config["clients"],
                opened(run.config["ranker"]).name,
                (learner.name, learner.fields.get("pull"), inner.fields["mu"]),
                users.fields.get("kind"),
            )
            self.cells.setdefault(where, {})[run.config["seed"]] = run.final

    def values(
        self,
        partition,
        clients,
        ranker=LINEAR,
        kind="perfect",
        learner="PDGD",
        pull=None,
        mu=0.0,
        of="ndcg@10",
    ):
        cell = self.cells[spelled(partition), clients, ranker, (learner, pull, mu), kind]
        assert sorted(cell) == self.seeds
        return np.array([cell[seed][of] for seed in sorted(cell)])

    def level(self, *where, **more):
        return float(self.values(*where, **more).mean())

    def cost(self, partition, twin, clients, ranker, kind, of="ndcg@10"):
        """How much lower than its twin, and p."""
        own, even = (self.values(each, clients, ranker, kind, of=of) for each in (partition, twin))
        test = paired_t(even, own)
        return test.difference, test.p


def spelled(partition):
    """As runs tell it: with every field."""
    from foltr.core.spec import partitions

    return repr(partitions.build(partition))


@pytest.fixture(scope="module")
def mq2008(made):
    return Studied(made("thesis-4-mq2008"))


@pytest.fixture(scope="module")
def mslr(made):
    return Studied(made("thesis-4-mslr"))


@pytest.fixture(scope="module")
def intents(made):
    return Studied(made("thesis-4-type1"))


@pytest.mark.parametrize("ranker", [LINEAR, NETWORK])
@pytest.mark.parametrize("kind", KINDS)
def test_one_label_each_hurts_and_two_do_not(mq2008, kind, ranker):
    cost, p = mq2008.cost("ByLabel(labels=1)", "ByLabel(labels=1, iid=True)", 3, ranker, kind)
    assert cost > 0.05 and p < 0.05
    cost, _ = mq2008.cost("ByLabel(labels=2)", "ByLabel(labels=2, iid=True)", 3, ranker, kind)
    assert abs(cost) < LITTLE


def test_what_one_label_costs_is_no_luck(made):
    """Fifteen repetitions, and Bonferroni's correction for the twelve comparisons of type 2."""
    studied = Studied(made("thesis-4-type2"), repetitions=15)
    for kind in KINDS:
        for ranker in (LINEAR, NETWORK):
            cost, p = studied.cost(
                "ByLabel(labels=1)", "ByLabel(labels=1, iid=True)", 3, ranker, kind
            )
            assert cost > 0.1 and 12 * p < 0.001
            cost, p = studied.cost(
                "ByLabel(labels=2)", "ByLabel(labels=2, iid=True)", 3, ranker, kind
            )
            assert abs(cost) < 0.006 and 12 * p > 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_online_performance_of_one_label_is_what_arithmetic_says(mq2008, kind):
    """Two of three clients see only ideal lists, and the third nothing relevant: 2/3 of the sum of
    .9995^t."""
    for ranker in (LINEAR, NETWORK):
        values = mq2008.values("ByLabel(labels=1)", 3, ranker, kind, of="online")
        assert values == pytest.approx(np.full(5, 1324.3606), abs=5e-5)


@pytest.mark.parametrize("ranker", [LINEAR, NETWORK])
@pytest.mark.parametrize(("models", "clients"), [("cascades", 3), ("positions", 5)])
def test_other_clicks_do_not_hurt(mq2008, models, clients, ranker):
    cost, _ = mq2008.cost(
        f"ByClicks(models={models!r})",
        f"ByClicks(models={models!r}, iid=True)",
        clients,
        ranker,
        "perfect",
    )
    assert abs(cost) < LITTLE


@pytest.mark.parametrize("kind", KINDS)
def test_other_volumes_do_not_hurt_unless_labels_differ_too(mq2008, kind):
    cost, _ = mq2008.cost("ByVolume()", "ByVolume(iid=True)", 5, LINEAR, kind)
    assert abs(cost) < LITTLE
    mixed, twin = (
        "ByVolume(sessions=(1, 5, 9), of=ByLabel(labels=1{}){})",
        (", iid=True", ", iid=True"),
    )
    cost, _ = mq2008.cost(mixed.format("", ""), mixed.format(*twin), 3, LINEAR, kind)
    assert cost > 0.05


@pytest.mark.parametrize("ranker", [LINEAR, NETWORK])
@pytest.mark.parametrize("kind", KINDS)
def test_sharing_closes_most_of_the_gap_and_fed_prox_and_fed_per_do_not(mq2008, kind, ranker):
    even, skewed = (
        mq2008.level(f"ByLabel(labels=1, iid={iid})", 3, ranker, kind) for iid in (True, False)
    )

    def left(level):
        return (even - level) / (even - skewed)

    assert left(mq2008.level("Sharing(of=ByLabel(labels=1), share=0.1)", 3, ranker, kind)) < 0.25
    for mu in (0.001, 0.01, 0.1, 1.0, 10.0):
        assert mq2008.level("ByLabel(labels=1)", 3, ranker, kind, mu=mu) < even - 0.1
    if ranker == NETWORK:
        assert mq2008.level("ByLabel(labels=1)", 3, ranker, kind, learner="FedPer") < even - 0.1


@pytest.mark.parametrize("ranker", [LINEAR, NETWORK])
@pytest.mark.parametrize("kind", KINDS)
def test_who_wants_other_documents_learns_another_ranker_not_a_worse_one(intents, kind, ranker):
    """Each ranker is better by the labels that it learned from. The published comparison, of one
    ranker by merged labels with the other by single intents, mostly compares labels."""
    merged, p = intents.cost(
        "ByIntent()", "ByIntent(iid=True)", 4, ranker, kind, of="merged_ndcg@10"
    )
    single, _ = intents.cost("ByIntent()", "ByIntent(iid=True)", 4, ranker, kind)
    assert merged > 0.04 and p < 0.05 and single < -0.02
    even = intents.level("ByIntent(iid=True)", 4, ranker, kind, of="merged_ndcg@10")
    assert even - intents.level("ByIntent()", 4, ranker, kind) > 1.5 * merged


def test_that_is_no_luck(made):
    """Fifteen repetitions, and Bonferroni's correction for three kinds of clicks and two
    labellings."""
    studied = Studied(made("thesis-4-intents"), repetitions=15)
    for kind in KINDS:
        cost, p = studied.cost(
            "ByIntent()", "ByIntent(iid=True)", 4, LINEAR, kind, of="merged_ndcg@10"
        )
        assert cost > 0.05 and 6 * p < 0.001
        cost, p = studied.cost("ByIntent()", "ByIntent(iid=True)", 4, LINEAR, kind)
        assert cost < -0.015 and 6 * p < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_fed_prox_and_fed_per_do_not_bring_merged_labels_back(intents, kind):
    def lost(ranker, **more):
        return intents.level(
            "ByIntent(iid=True)", 4, ranker, kind, of="merged_ndcg@10"
        ) - intents.level("ByIntent()", 4, ranker, kind, of="merged_ndcg@10", **more)

    assert min(lost(LINEAR, mu=mu) for mu in (0.001, 0.01, 0.1, 1.0, 10.0)) > 0.04
    assert (
        min(lost(NETWORK, mu=0.01), lost(NETWORK, mu=1.0), lost(NETWORK, learner="FedPer")) > 0.02
    )


def test_personal_rankers_serve_their_own_clients_better_where_clicks_are_clear(intents):
    """By .02 to .05 under perfect clicks; with noisy ones by nothing that five repetitions
    show."""

    def gained(partition, ranker, kind="perfect", **learner):
        own = intents.values(partition, 4, ranker, kind, of="own_ndcg@10")
        test = paired_t(
            intents.values(partition, 4, ranker, kind, of="personal_own_ndcg@10", **learner), own
        )
        print(partition, ranker, kind, learner, round(test.difference, 4), round(test.p, 4))
        return test.difference

    personal = {"learner": "Personal", "pull": 0.001}
    for partition in ("ByIntent()", "ByIntent(dealt='for good')"):
        assert gained(partition, LINEAR, **personal) > 0.01
    assert gained("ByIntent()", NETWORK, learner="FedPer") > 0.02
    for kind in KINDS[1:]:
        assert gained("ByIntent()", LINEAR, kind, **personal) > -0.03


@pytest.mark.parametrize("kind", KINDS)
def test_on_mslr_one_label_each_hurts_and_nothing_else(mslr, kind):
    for clients, ranker in ((5, LINEAR), (10, LINEAR), (5, NETWORK)):
        cost, p = mslr.cost(
            "ByLabel(labels=1)", "ByLabel(labels=1, iid=True)", clients, ranker, kind
        )
        assert cost > 0.1 and p < 0.05
    assert (
        mslr.cost("ByLabel(labels=2)", "ByLabel(labels=2, iid=True)", 10, LINEAR, kind)[0] < LITTLE
    )
    assert abs(mslr.cost("ByVolume()", "ByVolume(iid=True)", 5, LINEAR, kind)[0]) < LITTLE
    for models, clients in (("cascades", 3), ("positions", 5)):
        skewed = f"ByClicks(models={models!r})"
        assert (
            abs(mslr.cost(skewed, skewed[:-1] + ", iid=True)", clients, LINEAR, "perfect")[0])
            < LITTLE
        )


@pytest.mark.parametrize("kind", KINDS)
def test_on_mslr_sharing_helps_and_fed_prox_and_fed_per_do_not(mslr, kind):
    for ranker in (LINEAR, NETWORK):
        even, skewed = (
            mslr.level(f"ByLabel(labels=1, iid={iid})", 5, ranker, kind) for iid in (True, False)
        )
        shared = mslr.level("Sharing(of=ByLabel(labels=1), share=0.1)", 5, ranker, kind)
        assert even - shared < 0.55 * (even - skewed)
    even = mslr.level("ByLabel(labels=1, iid=True)", 5, LINEAR, kind)
    for mu in (0.001, 0.01, 0.1, 1.0, 10.0):
        assert mslr.level("ByLabel(labels=1)", 5, LINEAR, kind, mu=mu) < even - 0.08
    even = mslr.level("ByLabel(labels=1, iid=True)", 5, NETWORK, kind)
    assert mslr.level("ByLabel(labels=1)", 5, NETWORK, kind, learner="FedPer") < even - 0.08
