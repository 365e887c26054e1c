"""Unlearning on the page: what is compared with what, and means a hand can check."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_runs import made_run, made_runs

from foltr.report.chapters.unlearning import unlearning
from foltr.report.statistics import paired_t

ATTACK = {"attack": "CompromisedModel(z=2.0)", "malicious": 1, "roaming": False}
GONE = {**ATTACK, "leaving": "malicious", "history": 5}
SEEDS, LUCK = (1, 2, 3), {1: 0.0, 2: 0.01, 3: -0.01}
NONE, MINUS = "\u2013", "\u2212"


def several(value, wiggle=0.0, told=None, **config):
    for seed in SEEDS:
        final = {"ndcg@10": value + LUCK[seed] + wiggle * seed, "online": 1.0}
        yield made_run(
            final | ({"unlearning": told} if told else {}), seed=seed, clients=10, **config
        )


def eraser(sessions, value, history=5, wiggle=0.001, **config):
    steps = {"made": 100 * sessions, "retraining": 10_000, "times_fewer": 100 / sessions}
    sent = {"made": 2000, "retraining": 10_000, "times_fewer": 5.0}
    own = {"before": 0.25, "after": 0.35}
    storage = {"of": "norms", "per_device": 8000 // history, "in_all": 80_000 // history}
    told = {"own": own, "local_steps": steps, "messages": sent, "bytes": sent, "storage": storage}
    given = {**GONE, "history": history, "unlearning": f"FedEraser(sessions={sessions})"}
    return several(value, wiggle, told, **given, **config)


def table3():
    yield from several(0.50, malicious=0, roaming=False)  # 10H-0M
    yield from several(0.40, **ATTACK, history=5)  # 9H-1M
    yield from several(0.50, unlearning="Retrain(luck=0)", **GONE)  # 9H-0M
    yield from eraser(4, 0.49)
    yield from eraser(1, 0.45)
    yield from eraser(4, 0.47, history=20)


def found(runs):
    return {block.title: block for block in unlearning(made_runs(runs)) or ()}


def shown(cell):
    return (
        cell
        if isinstance(cell, str)
        else " ".join(p for p in (cell.text + cell.mark, cell.aside) if p)
    )


def table(block):
    return {row[0]: [shown(cell) for cell in row[1:]] for row in block.rows[1:]}


def test_table_3():
    block = found(table3())["nDCG@10 after unlearning"]
    assert block.rows[0] == (
        "method",
        "nDCG@10",
        "difference from retrained",
        "difference from before",
    )
    rows = table(block)
    assert list(rows) == [
        "nobody leaves or attacks",
        "nobody leaves, CompromisedModel, malicious=1",
        "Retrain",
        "FedEraser(sessions=4), history=5",
        "FedEraser(sessions=1), history=5",
        "FedEraser(sessions=4), history=20",
    ]
    assert rows["nobody leaves or attacks"] == ["0.500", "0.000 p = 1", NONE]
    assert rows["nobody leaves, CompromisedModel, malicious=1"] == [
        "0.400",
        f"{MINUS}0.100▼ p < 0.001",
        NONE,
    ]
    assert rows["Retrain"] == ["0.500", NONE, "+0.100▲ p < 0.001"]
    again = paired_t(np.array([0.491, 0.492, 0.493]), np.full(3, 0.5))  # luck is in both
    # five are compared with retraining
    assert again.difference == pytest.approx(-0.008) and 5 * again.p < 0.05
    assert rows["FedEraser(sessions=4), history=5"][:2] == [
        "0.492",
        f"{MINUS}0.008▼ p = {5 * again.p:.2g}",
    ]
    before = paired_t(np.array([0.491, 0.492, 0.493]), np.full(3, 0.4))
    assert (
        4 * before.p < 0.001 and rows["FedEraser(sessions=4), history=5"][2] == "+0.092▲ p < 0.001"
    )
    # before: stored with another interval
    assert rows["FedEraser(sessions=4), history=20"][2].startswith("+0.072▲")


def test_costs():
    block = found(table3())["Cost of unlearning"]
    assert block.rows[0] == (
        "method",
        "local steps",
        "messages to server",
        "bytes to server",
        "stored on a device",
        "stored on all devices",
    )
    # what retraining takes was not told
    assert table(block) == {
        f"FedEraser(sessions={n}), history={h}": [
            f"{100 * n} ({100 / n:.1f} times)",
            "2,000 (5.0 times)",
            "2,000 (5.0 times)",
            f"{8000 // h:,} bytes",
            f"{80_000 // h:,} bytes",
        ]
        for n, h in ((4, 5), (1, 5), (4, 20))
    }


def test_what_is_left(tmp_path):
    """Parameters (3, 4) beside retrained (3, 0): 4 apart, at a cosine of 0.6."""
    runs = []
    for run in table3():
        folder = tmp_path / run.name
        folder.mkdir()
        retrained = "Retrain" in run.config.get("unlearning", "")
        np.save(folder / "params.npy", np.array([3.0, 0.0] if retrained else [3.0, 4.0]))
        if run.config.get("unlearning") == "FedEraser(sessions=1)":
            (folder / "unlearning.json").write_text(json.dumps({"influence": {"left": 0.5}}))
        runs.append(replace(run, path=folder))
    block = found(runs)["Influence of the clients who left"]
    assert [str(name) for name in block.rows[0][1:]] == [
        "L2 to retrained",
        "cosine to retrained",
        "nDCG@10 on their data, before",
        "nDCG@10 on their data, after",
        "influence left",
    ]
    rows = table(block)
    assert (
        rows["nobody leaves or attacks"] == ["4.000", "0.600", NONE, NONE, NONE]
        and "Retrain" not in rows
    )
    assert rows["FedEraser(sessions=4), history=5"] == ["4.000", "0.600", "0.250", "0.350", NONE]
    assert rows["FedEraser(sessions=1), history=5"] == [
        "4.000",
        "0.600",
        "0.250",
        "0.350",
        "0.500",
    ]


@pytest.mark.parametrize(
    "odd", [None, 3, [], {}, {"own": 7, "local_steps": {"made": None}, "storage": {"in_all": "x"}}]
)
def test_whatever_a_run_says_of_it(odd):
    runs = list(table3())
    for run in runs:
        if "unlearning" in run.final:
            run.final["unlearning"] = odd
    assert list(found(runs)) == ["nDCG@10 after unlearning"]


def test_only_the_same_leavers_are_compared():
    runs = [
        *several(0.5, history=5),
        *several(0.5, unlearning="Retrain(luck=0)", leaving=[[3, 7]], history=5),
    ]
    runs += [*several(0.5, 0.001, unlearning="Retrain(luck=1)", leaving=[[3, 7]], history=5)]
    for leaving, value in (([[3], [7]], 0.48), ([[3]], 0.47)):
        runs += several(value, unlearning="FedEraser(sessions=3)", leaving=leaving, history=5)
    rows = table(found(runs)["nDCG@10 after unlearning"])
    against = {label: row[1] for label, row in rows.items()}
    assert list(against) == [
        "nobody leaves",
        "Retrain(luck=0), leaving=[[3, 7]]",
        "Retrain(luck=1), leaving=[[3, 7]]",
        "FedEraser, leaving=[[3], [7]]",
        "FedEraser, leaving=[[3]]",
    ]
    assert against["FedEraser, leaving=[[3], [7]]"].startswith(f"{MINUS}0.020")
    assert (
        against["FedEraser, leaving=[[3]]"] == NONE == against["Retrain(luck=0), leaving=[[3, 7]]"]
    )
    assert against["Retrain(luck=1), leaving=[[3, 7]]"].startswith("+0.002")  # how far luck goes


def test_conditions_stand_side_by_side_in_parts():
    kinds = ("perfect", "navigational", "informational", "poison")
    runs = [
        run
        for kind in kinds
        for run in several(
            0.5, unlearning="Retrain(luck=0)", **GONE, users=f"Cascade(kind='{kind}')"
        )
    ]
    blocks = found(runs)
    assert list(blocks) == [f"nDCG@10 after unlearning ({i} of 2)" for i in (1, 2)]
    heads = [head for block in blocks.values() for head in block.rows[0] if "nDCG@10" in head]
    assert heads == [f"{kind}: nDCG@10" for kind in kinds]


def test_runs_of_another_kind_are_none_of_it():
    assert unlearning(made_runs([*several(0.5), *several(0.4, **ATTACK)])) is None
