"""IID against non-IID on the page: who is whose twin, and differences a hand can check."""

import numpy as np
import pytest
from made_runs import made_run, made_runs

from foltr.report.chapters.uneven_data import (
    IidCounterparts,
    iid_against_skewed,
    iid_versions,
    is_iid,
    unwrapped,
)
from foltr.report.statistics import paired_t
from foltr.report.study import study_by_fields

LABEL, LABEL_IID = (f"ByLabel(labels=1, deal='disjoint', iid={iid})" for iid in (False, True))
SHARED = f"Sharing(of={LABEL}, share=0.1, warmup=100)"
PLAIN, PROX = (f"PDGD(lr=0.1, sessions=5, mu={mu})" for mu in (0.0, 0.1))
FEDPER = f"FedPer(learner={PLAIN})"
SEEDS, LUCK = (1, 2, 3), {1: 0.0, 2: 0.01, 3: -0.01}
NONE, MINUS = "\u2013", "\u2212"


def several(value, partition, wiggle=0.0, own=None, personal=None, **config):
    """A run for each seed: value, and what seeds add to it; `wiggle` makes differences differ."""
    for seed in SEEDS:
        final = {"ndcg@10": value + LUCK[seed] + wiggle * seed, "online": 1000.0 * value + seed}
        final |= {"own_ndcg@10": own} if own is not None else {}
        final |= {"personal_own_ndcg@10": personal + wiggle * seed} if personal is not None else {}
        config.setdefault("learner", PLAIN)
        yield made_run(final, partition=partition, seed=seed, **config)


def found(runs):
    return {block.title: block for block in iid_against_skewed(made_runs(runs)) or ()}


def shown(cell):
    return (
        cell
        if isinstance(cell, str)
        else " ".join(p for p in (cell.text + cell.mark, cell.aside, cell.below) if p)
    )


def table(block):
    return {row[0]: [shown(cell) for cell in row[1:]] for row in block.rows[1:]}


# ---- twins


@pytest.mark.parametrize(
    ("partition", "answer"),
    [
        ("IID()", True),
        (LABEL, False),
        (LABEL_IID, True),
        (SHARED, False),
        (SHARED.replace("False", "True"), True),
        ("ByVolume(sessions=(1, 3), of=IID(), iid=False)", False),
        ("ByVolume(sessions=(1, 3), of=IID(), iid=True)", True),
        ("ByVolume(sessions=(1, 3), of=ByIntent(iid=False), iid=True)", False),
        ("ByVolume(sessions=(1, 3), of=ByIntent(iid=True), iid=True)", True),
        ("SomebodysOwn(x=1)", False),
    ],
)
def test_what_is_iid(partition, answer):
    assert is_iid(partition) is answer


def test_twins_the_nearest_first():
    assert iid_versions(LABEL) == [LABEL_IID, LABEL_IID, "IID()"]
    assert iid_versions(SHARED) == [SHARED.replace("False", "True"), LABEL_IID, "IID()"]
    volume = "ByVolume(sessions=(1, 3), of=ByIntent(iid=False), iid=False)"
    assert (
        iid_versions(volume)[0] == volume.replace("False", "True") and unwrapped(volume) == volume
    )
    assert unwrapped(SHARED) == LABEL


def references(runs):
    """Partition and learner of each skewed method -> those of its twin."""
    runs = made_runs(runs)
    methods = IidCounterparts(study_by_fields(runs, list(runs)))

    def named(method):
        return methods.partition(method), methods.study.configs[method]["learner"]

    return {named(method): named(twin) for (method, _), twin in methods.references.items()}


def test_a_run_is_compared_with_its_own_twin():
    runs = [
        *several(0.5, LABEL_IID),
        *several(0.4, LABEL),
        *several(0.5, "IID()"),
        *several(0.3, SHARED),
    ]
    assert references(runs) == {
        (LABEL, PLAIN): (LABEL_IID, PLAIN),
        (SHARED, PLAIN): (LABEL_IID, PLAIN),
    }
    assert references([*several(0.4, LABEL), *several(0.5, "IID()")]) == {
        (LABEL, PLAIN): ("IID()", PLAIN)
    }


def test_a_remedy_that_was_not_tried_on_iid_data_is_compared_with_the_only_one_that_was():
    remedy = list(several(0.4, LABEL, learner=PROX))
    assert references([*several(0.5, LABEL_IID), *remedy]) == {(LABEL, PROX): (LABEL_IID, PLAIN)}
    both = [*several(0.5, LABEL_IID), *several(0.5, LABEL_IID, learner=PROX)]
    assert references([*both, *remedy]) == {(LABEL, PROX): (LABEL_IID, PROX)}
    two = [*several(0.5, LABEL_IID), *several(0.5, LABEL_IID, learner="ES()")]
    assert references([*two, *remedy]) == {}  # which of them?
    assert references([*several(0.5, LABEL_IID, ranker="MLP(hidden=8)"), *remedy]) == {}
    assert references([*several(0.5, LABEL_IID, clients=9), *remedy]) == {}


# ---- blocks


def test_differences_and_their_tests():
    runs = [*several(0.5, LABEL_IID), *several(0.4, LABEL, 0.01)]
    (block,) = found(runs).values()
    iid = np.array([0.5, 0.51, 0.49])
    skewed = np.array([0.41, 0.43, 0.42])
    test = paired_t(skewed, iid)
    assert block.rows[0] == (
        "method",
        "nDCG@10: IID",
        "skewed",
        "difference",
        "online: IID",
        "skewed",
        "difference",
    )
    row = table(block)["ByLabel"]
    # -0.09, -0.08, -0.07
    assert row[:2] == ["0.500", "0.420"] and test.difference == pytest.approx(-0.08)
    # one comparison: nothing to correct
    assert test.p < 0.05 and row[2] == f"{MINUS}0.080▼ p = {test.p:.2g}"
    assert row[3:] == ["502.0", "402.0", f"{MINUS}100.0▼ p < 0.001"]  # equal differences
    assert "over 3 pairs" in block.text and "(1)" in block.text


def test_p_is_corrected_for_all_comparisons_of_a_measure():
    runs = []
    for kind in ("perfect", "informational"):
        users = {"users": f"Cascade(kind='{kind}')"}
        runs += [*several(0.5, LABEL_IID, **users), *several(0.4, LABEL, 0.01, **users)]
        runs += [*several(0.45, LABEL.replace("1", "2"), 0.01, **users)]
        runs += [*several(0.5, LABEL_IID.replace("1", "2"), **users)]
    blocks = found(runs)
    assert list(blocks) == ["Loss from skewed data", "perfect", "informational"]
    # two methods in two conditions
    p = 4 * paired_t(np.array([0.41, 0.43, 0.42]), np.array([0.5, 0.51, 0.49])).p
    costs = table(blocks["Loss from skewed data"])
    assert list(costs) == ["ByLabel(labels=1)", "ByLabel(labels=2)"]
    assert p < 0.05 and costs["ByLabel(labels=1)"][0] == f"{MINUS}0.080▼ p = {p:.2g}"
    assert blocks["Loss from skewed data"].rows[0][1:3] == ("perfect: nDCG@10", "perfect: online")


def test_remedies_are_compared_with_doing_nothing():
    runs = [
        *several(0.5, LABEL_IID),
        *several(0.4, LABEL, own=0.7),
        *several(0.42, LABEL, 0.001, 0.7, learner=PROX),
    ]
    runs += [
        *several(0.48, SHARED, own=0.7),
        *several(0.41, LABEL, learner=FEDPER, own=0.6, personal=0.8),
    ]
    blocks = found(runs)
    assert list(blocks) == ["Gains from remedies", "IID and skewed data", "clients' own data"]
    rows = table(blocks["Gains from remedies"])
    assert list(rows) == [
        "ByLabel, PDGD(mu=0.1)",
        "Sharing(ByLabel), PDGD(mu=0.0)",
        "ByLabel, FedPer(PDGD)",
    ]
    # of 0.1; wiggle adds 0.002 to the first
    assert [row[1] for row in rows.values()] == ["22%", "80%", "10%"]
    own = [row[2].split()[0] for row in rows.values()]
    # who shares holds more; of personal rankers where there are any
    assert own == ["0.000", NONE, "+0.100▲"]
    prox = paired_t(np.array([0.421, 0.422, 0.423]), np.array([0.4, 0.4, 0.4]))
    assert rows["ByLabel, PDGD(mu=0.1)"][0] == f"+0.022▲ p = {3 * prox.p:.2g}"  # three remedies
    shown = table(blocks["IID and skewed data"])  # and whose twin is not their own
    assert (
        shown["ByLabel, PDGD(mu=0.1)"][0] == "0.500 PDGD(mu=0.0)"
        and shown["ByLabel, FedPer(PDGD)"][0] == "0.500 PDGD"
    )
    assert (
        shown["ByLabel, PDGD(mu=0.0)"][0] == shown["Sharing(ByLabel), PDGD(mu=0.0)"][0] == "0.500"
    )
    assert table(blocks["clients' own data"])["ByLabel, FedPer(PDGD)"] == [
        NONE,
        "0.600",
        NONE,
        "0.800",
    ]


def test_a_cost_that_is_not_significant_cannot_be_brought_back():
    runs = [
        *several(0.5, LABEL_IID),
        *several(0.4999, LABEL, 0.0002),
        *several(0.51, LABEL, learner=PROX),
    ]
    ((_, closed, *_),) = table(found(runs)["Gains from remedies"]).values()
    assert closed == NONE


def test_what_has_no_twin_is_counted():
    runs = [*several(0.5, LABEL_IID), *several(0.4, LABEL), *several(0.4, LABEL, clients=6)]
    (block,) = found(runs).values()
    assert "1 skewed method has no run with IID data" in block.text and list(table(block)) == [
        "ByLabel"
    ]


def test_both_rankers_on_both_labellings():
    runs = []
    for iid, each, merged in ((True, 0.4, 0.6), (False, 0.42, 0.5)):
        for seed in SEEDS:
            final = {
                "ndcg@10": each + LUCK[seed],
                "merged_ndcg@10": merged + LUCK[seed],
                "online": 1.0,
            }
            runs.append(made_run(final, partition=f"ByIntent(iid={iid})", seed=seed))
    (block,) = found(runs).values()
    row = table(block)["ByIntent"]
    assert (
        block.rows[0][4] == "nDCG@10, merged labels: IID" and "mean over labellings" in block.text
    )
    assert (row[0], row[1], row[3], row[4]) == ("0.400", "0.420", "0.600", "0.500")
    assert row[2].startswith("+0.020▲") and row[5].startswith(f"{MINUS}0.100▼")


def test_what_cannot_be_paired_is_not_compared():
    runs = [*several(0.5, LABEL_IID), *list(several(0.4, LABEL))[:2]]
    (block,) = found(runs).values()
    assert table(block)["ByLabel"][:3] == ["0.500", "0.405", f"{NONE} not paired"]
    one = [next(several(0.5, LABEL_IID)), next(several(0.4, LABEL))]
    (block,) = found(one).values()
    assert (
        table(block)["ByLabel"][2] == f"{MINUS}0.100 one pair only"
        and "Nothing could be tested" in block.text
    )


def test_folds_make_a_second_test():
    runs = []
    for fold, cost in ((1, 0.01), (2, 0.1), (3, 0.04)):
        data = f"MQ2008(fold={fold})"
        runs += [*several(0.5, LABEL_IID, data=data), *several(0.5 - cost, LABEL, data=data)]
    (block,) = found(runs).values()
    assert "▽" in table(block)["ByLabel"][2] and "the means of each fold" in block.text


def test_runs_of_another_kind_are_none_of_it():
    assert iid_against_skewed(made_runs(several(0.5, "IID()"))) is None
    assert iid_against_skewed(made_runs(several(0.5, LABEL))) is None
    # of before there were partitions
    assert iid_against_skewed(made_runs([made_run(), made_run(clients=5)])) is None
    apart = [*several(0.5, LABEL_IID, clients=3), *several(0.4, LABEL, clients=6)]
    assert iid_against_skewed(made_runs(apart)) is None
