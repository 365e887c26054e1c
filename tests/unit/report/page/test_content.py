"""What the page is made of: commands, curves, numbers, provenance, blocks."""

import json
import math
import shlex
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import grid, made_run, made_runs

from foltr.experiment import Experiment
from foltr.report.captions import caption
from foltr.report.chapters import registry
from foltr.report.chapters.registry import Block, Cell, Chapter
from foltr.report.curves import cell_curve
from foltr.report.matrix import matrix
from foltr.report.page.content import page_content
from foltr.report.page.document import page_parts
from foltr.report.page.html_sections import sections
from foltr.report.page.packed_curves import UNKNOWN, packed_curves
from foltr.report.provenance import command, quoted
from foltr.report.results import Runs, Skipped, load_runs
from foltr.report.statistics import half_width
from foltr.report.study import study
from property_settings import examples

MADE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


# ---- commands


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
def test_a_shell_reads_back_what_was_quoted(text):
    assert shlex.split(quoted(text)) == [text]


def test_bash_reads_it_back_too():
    words = ["Letor(path='/a b/c')", "a\"b'c", "$HOME `id` \\ !x", "", "é ☃", "--x=1"]
    line = "printf '%s\\0' " + " ".join(map(quoted, words))
    assert (
        subprocess.run(["bash", "-c", line], capture_output=True, check=True)
        .stdout.decode()
        .split("\0")[:-1]
        == words
    )


def test_the_command_of_a_run_makes_that_run(tmp_path):
    """Every field explicit: the command finds the finished run, so its identity is the same."""
    experiment = Experiment(
        data="Synthetic(queries=8)", users="Cascade(kind='perfect')", clients=2, rounds=2, seed=7
    )
    experiment.run(tmp_path, engine="debug")
    (run,) = load_runs(tmp_path)
    line = command(run)
    assert "--seed 7" in line and "--engine debug" in line and '--users "Cascade(' in line
    assert {word for word in shlex.split(line) if word.startswith("--")} >= {
        f"--{n}".replace("_", "-") for n in run.config
    }
    again = f"{shlex.quote(sys.executable)} -m {line} --out {shlex.quote(str(tmp_path))} --quiet"
    told = subprocess.run(["bash", "-c", again], capture_output=True, text=True, check=True).stdout
    assert f"finished before, not repeated: {run.path}" in told


def test_a_script_can_put_every_command_together():
    found = study(
        made_runs(
            [*grid(), made_run(clients=100, seed=9, users="Cascade(kind='perfect')", extra="it's")]
        )
    )
    told = page_content(found, MADE)["runs"]
    for i, run in enumerate(found.runs):
        given = {
            name: o["values"][o["of"][i] if isinstance(o["of"], list) else o["of"]]
            for name, o in told["options"].items()
        }
        words = [
            told["command"],
            *(f"{name} {value}" for name, value in given.items() if value is not None),
        ]
        assert " ".join(words) == command(run)


# ---- numbers


def close(number):
    """To twelve digits."""
    return pytest.approx(number, rel=1e-11)


def test_the_numbers_are_those_of_the_matrix():
    found = study(made_runs(grid()))
    exact, told = matrix(found, "ndcg@10"), page_content(found, MADE)["matrices"][0]
    assert told["caption"] == caption(exact) and told["family"] == exact.family == 3
    for (m, c), entry in exact.entries.items():
        shown = told["entries"][f"{m}.{c}"]
        assert (shown["mean"], shown["sd"], shown["n"]) == (
            close(entry.mean),
            close(entry.sd),
            entry.n,
        )
        assert shown.get("best", False) == entry.best and shown.get("mark", "") == entry.mark
        if entry.test:
            assert (shown["test"]["p"], shown["corrected"]) == (
                close(entry.test.p),
                close(entry.corrected),
            )
    assert any("test" in each for each in told["entries"].values())


@examples(40)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_values_it_is_json(values):
    runs = [
        made_run(value, clients=10 * (1 + i % 2), seed=i // 2) for i, value in enumerate(values)
    ]
    text = json.dumps(page_content(study(made_runs(runs)), MADE), allow_nan=False)
    assert len(json.loads(text)["runs"]["names"]) == len(values)


def test_differences_that_cannot_be_finite_are_shown():
    """Equal differences have no spread: t is infinite, p is 0."""
    runs = [
        made_run(0.5 + 0.25 * (c == 10), clients=c, seed=s) for c in (100, 10) for s in (1, 2, 3)
    ]
    entry = page_content(study(made_runs(runs)), MADE)["matrices"][0]["entries"]["1.0"]
    assert entry["test"]["t"] == "∞" and entry["test"]["p"] == 0.0 and entry["mark"] == "▲"


def test_the_second_test_is_shown_too():
    runs = [
        made_run(
            0.5 + (0.01 * f + 0.001 * (-1) ** s) * (c == 10),
            clients=c,
            data=f"MQ2008(fold={f})",
            seed=s,
        )
        for c in (100, 10)
        for f in (1, 2, 3)
        for s in range(4)
    ]
    found = study(made_runs(runs))
    entry, exact = (
        page_content(found, MADE)["matrices"][0]["entries"]["1.0"],
        matrix(found, "ndcg@10").entries[1, 0],
    )
    assert (entry["mark"], entry["over_data"]["n"], entry["over_data"]["p"]) == (
        "△",
        3,
        close(exact.over_data.p),
    )
    assert entry["corrected_data"] == close(exact.corrected_data)


def test_numbers_are_rounded_once():
    """0.41249996 has six digits 0.412500, which would be shown as 0.413 instead of 0.412."""
    found = study(made_runs([made_run(0.41249996)]))
    assert "<span>0.412</span>" in sections(page_content(found, MADE))["matrix"]


def test_key_numbers_do_not_hide_gaps():
    whole = grid()
    assert "3 runs in each cell" in sections(page_content(study(made_runs(whole)), MADE))["glance"]
    gone = [
        run
        for run in whole
        if run.config["clients"] == 100 or "perfect" not in run.config["users"]
    ]
    assert (
        "3 runs in a cell, 1 of 6 cells empty"
        in sections(page_content(study(made_runs(gone)), MADE))["glance"]
    )


def test_what_was_chosen_is_in_the_head():
    runs = made_runs(grid()).where(seed=1)
    assert "only runs with seed = 1" in sections(page_content(study(runs), MADE))["head"]


def test_refusals_are_kept_with_their_reason():
    runs = [made_run(0.5, seed=s) for s in (1, 2)] + [
        made_run(0.6, seed=s, clients=10) for s in (1, 3)
    ]
    told = page_content(study(made_runs(runs)), MADE)["matrices"][0]
    assert "lacks seed=3" in told["refusals"][told["entries"]["1.0"]["refused"]]


def test_what_differs_from_the_baseline():
    runs = [
        made_run(seed=s, ranker=r, clients=c)
        for s in (1, 2)
        for r, c in (("Linear()", 100), ("MLP(hidden=8)", 10))
    ]
    told = page_content(study(made_runs(runs)), MADE)["methods"]
    assert told[0]["differs"] == []
    expected = [
        ["ranker", "Linear", "MLP"],
        ["clients", "100", "10"],
        ["ranker.hidden", "none", "8"],
    ]
    assert sorted(told[1]["differs"]) == sorted(expected)


def test_methods_look_different():
    for n in (3, 8, 12, 30):
        found = page_content(
            study(made_runs([made_run(clients=c) for c in range(1, n + 1)])), MADE
        )
        assert len({tuple(method["style"]) for method in found["methods"]}) == n


# ---- curves


def decoded(table, cell):
    """As the script of the page does it."""
    codes = np.frombuffer(b64decode(cell["data"]), "<u2").astype(float)
    parts = codes.reshape(-1, len(table["grids"][cell["grid"]]))
    known = np.where(parts == UNKNOWN, np.nan, parts) / (UNKNOWN - 1)
    spread = len(parts) > len(table["windows"])
    means = table["low"] + (table["high"] - table["low"]) * (known[::2] if spread else known)
    return means, table["spread"] * known[1::2] if spread else None


def wavy(c, k, s):
    return lambda t: 0.5 - math.exp(-t / 20) + 0.05 * math.sin(t * (1 + s)) + 0.0001 * c


def curved(rounds=200, seeds=(1, 2, 3), clients=(100, 10), kinds=("perfect",)):
    return study(
        made_runs(
            made_run(
                clients=c, users=f"Cascade(kind='{k}')", seed=s, rounds=rounds, curve=wavy(c, k, s)
            )
            for c in clients
            for k in kinds
            for s in seeds
        )
    )


@pytest.mark.parametrize("budget", [10**9, 3000, 0])
def test_every_point_of_the_page_is_one_of_the_curve(budget):
    found = curved()
    for table in packed_curves(found, budget):
        for cell in table["cells"]:
            runs = list(found.cell(*cell["at"]).values())
            rounds = table["grids"][cell["grid"]]
            means, sds = decoded(table, cell)
            for i, window in enumerate(table["windows"]):
                exact = cell_curve(runs, table["id"], smooth=window)
                at = np.searchsorted(exact.rounds, rounds)
                assert (
                    exact.rounds[at].tolist() == rounds
                    and rounds[0] == exact.rounds[0]
                    and rounds[-1] == exact.rounds[-1]
                )
                assert means[i] == pytest.approx(
                    exact.mean[at], abs=(table["high"] - table["low"]) / UNKNOWN + 1e-12
                )
                assert sds[i] == pytest.approx(exact.sd[at], abs=table["spread"] / UNKNOWN + 1e-12)
            assert (
                cell["spent"] == 4 * dict(found.methods[cell["at"][0]].key)["clients"]
                and cell["n"] == 3
            )


def test_thinner_where_there_is_less_room():
    sizes = {}
    for budget in (10**9, 40_000, 10_000):
        tables = packed_curves(curved(rounds=1000, clients=range(1, 9)), budget)
        sizes[budget] = sum(len(cell["data"]) for table in tables for cell in table["cells"])
        assert all(table["windows"][0] == 1 for table in tables)
    assert sizes[10**9] > 40_000 >= sizes[40_000] > 10_000 >= sizes[10_000] / 2


def test_one_run_has_no_band_and_none_costs_room():
    table, *_ = packed_curves(curved(seeds=(1,)))
    means, sds = decoded(table, table["cells"][0])
    assert sds is None and len(means) == 1 and table["cells"][0]["half"] is None


def test_a_point_of_one_run_takes_no_band_away_from_others():
    runs = [made_run(seed=s, rounds=4, every=1, curve=lambda t, s=s: s * t) for s in (1, 2, 3)]
    for run, unknown in zip(runs, ([], [1, 2], [1]), strict=True):
        for t in unknown:
            run.metrics.offline["ndcg@10"][t] = math.nan
    table, *_ = packed_curves(study(made_runs(runs)))
    _, (sd,) = decoded(table, table["cells"][0])
    assert np.isnan(sd).tolist() == [False, True, False, False, False]
    halves = [half_width(1.0, n) if n > 1 else None for n in (3, 1, 2, 3, 3)]
    assert table["cells"][0]["half"] == halves and table["cells"][0]["n"] == 3


def test_a_thinned_curve_says_of_how_many_rounds():
    table, *_ = packed_curves(curved(rounds=1000), 3000)
    assert table["cells"][0]["of"] == 101 > len(table["grids"][0])
    table, *_ = packed_curves(curved(rounds=100))
    assert table["cells"][0]["of"] == 11 == len(table["grids"][0])


def test_evaluated_curves_are_not_smoothed_online_ones_are():
    windows = {table["id"]: table["windows"] for table in packed_curves(curved(rounds=1000))}
    assert windows["ndcg@10"] == [1] and windows["online_ndcg@10"] == [1, 10, 25, 50, 100, 250]


def test_unknown_rounds_stay_unknown():
    """What real clients never tell is NaN online."""
    run = made_run(rounds=8)
    run.metrics.online["online_ndcg@10"] = [math.nan] * 8
    run.metrics.online["maxrr"] = [math.nan, *[0.5] * 7]
    tables = {table["id"]: table for table in packed_curves(study(made_runs([run])))}
    assert "online_ndcg@10" not in tables and tables["maxrr"]["grids"] == [[2, 3, 4, 5, 6, 7, 8]]


def test_methods_of_other_lengths_have_their_own_rounds():
    runs = [made_run(clients=c, rounds=r, seed=s) for c, r in ((10, 40), (100, 8)) for s in (1, 2)]
    table, *_ = packed_curves(study(made_runs(runs)))
    assert table["grids"] == [[0, 10, 20, 30, 40], [0, 8]] and [
        cell["grid"] for cell in table["cells"]
    ] == [0, 1]


def test_interactions_that_grow_unevenly_are_listed_one_by_one():
    run = made_run(rounds=20, every=10)
    run.metrics.online["interactions"] = [float(t) for t in range(1, 21)]
    table, *_ = packed_curves(study(made_runs([run])))
    assert table["cells"][0]["spent"] == [0, 55, 210]


# ---- provenance and blocks


def provenance_of(runs):
    return {label: list(lines) for label, lines in page_content(study(runs), MADE)["provenance"]}


def test_provenance_counts_what_differs():
    old = {
        "foltr": "0.0.9",
        "results": 1,
        "commit": "abc+",
        "python": "3.11.1",
        "packages": {"numpy": "1.26"},
        "cores": 4,
    }
    runs = [
        made_run(seed=1, environment=old),
        *(made_run(seed=s, environment={**old, "foltr": "0.1.0"}) for s in (2, 3)),
    ]
    told = provenance_of(
        Runs(
            tuple(runs),
            planned=5,
            unfinished=(Path("u"),),
            skipped=(Skipped(Path("s"), "it is damaged"),),
        )
    )
    assert told["runs made by"] == [
        "foltr 0.1.0, commit abc, with changes (2 runs)",
        "foltr 0.0.9, commit abc, with changes (1 run)",
    ]
    assert told["runs"] == ["3 runs of 5 planned, 1 unfinished, 1 skipped"]
    assert told["Python"] == ["3.11.1, numpy 1.26"] and told["repetitions"] == ["seed: 1, 2, 3"]
    assert told["page made"][0].startswith("2026-01-02 03:04 UTC")
    assert told["data"] == ["MQ2008(fold=1)"] and "156 in a run" in told["held-out queries"][0]
    assert any("are skipped" in line for line in told["conventions"])


def test_what_is_equal_stays_named_where_one_field_of_a_component_varies():
    learner = "PDGD(lr={}, sessions=4)"
    runs = [made_run(learner=learner.format(lr), seed=s) for lr in (0.1, 0.2) for s in (1, 2)]
    [line] = provenance_of(made_runs(runs))["equal in all runs"]
    assert "learner=PDGD, learner.sessions=4" in line and "learner.lr" not in line
    assert "data=MQ2008(fold=1), " in line and "ranker=Linear()" in line and "seed" not in line
    runs = [
        made_run(data=f"MQ2008(fold={fold})", ranker=r) for fold in (1, 2) for r in ("A()", "B()")
    ]
    told = provenance_of(made_runs(runs))
    [line] = told["equal in all runs"]
    assert "data=MQ2008, " in line and "ranker" not in line
    assert told["data"] == ["MQ2008"] and told["repetitions"] == ["data.fold: 1, 2"]


def test_provenance_of_almost_nothing():
    told = provenance_of(made_runs([made_run(environment={})]))
    assert told["runs made by"] == ["foltr of an unknown version"] and "machine" not in told


def test_notes_are_grouped_and_counted():
    runs = [made_run(seed=s) for s in (1, 2, 3)]
    runs = [
        replace(run, final={**run.final, "notes": ["a", "b"][: 1 + (i == 0)]})
        for i, run in enumerate(runs)
    ]
    (block,) = page_content(study(made_runs(runs)), MADE)["blocks"]
    assert block.rows == (("note", "runs"), ("a", "3 of 3"), ("b", "1 of 3"))


def test_what_does_not_count_is_named():
    runs = Runs(
        (made_run(),),
        skipped=(Skipped(Path("runs/x"), "broken"),),
        unfinished=tuple(Path(f"u{i}") for i in range(60)),
    )
    (block,) = page_content(study(runs), MADE)["blocks"]
    assert block.rows[1] == ("x", "broken") and len(block.rows) == 52
    assert (
        block.text
        == "1 skipped and 60 unfinished. No number on this page includes them. 10 more are not"
        " listed here."
    )


def test_a_component_can_contribute_a_block(monkeypatch):
    def ledger(runs):
        return Block(
            "Privacy", f"of {len(runs)} runs", (("mechanism", "epsilon"), ("none", "inf"))
        )

    def silent(runs):
        return None

    monkeypatch.setattr(registry, "chapters", lambda: [Chapter(ledger), Chapter(silent)])

    assert page_content(study(made_runs([made_run()])), MADE)["blocks"] == [
        Block("Privacy", "of 1 runs", (("mechanism", "epsilon"), ("none", "inf")))
    ]


def test_several_blocks_of_a_chapter_stand_before_the_notes(monkeypatch):
    def results(runs):
        cell = Cell("0.5", "(<b>)", "m & m", mark="▼", best=True, shade=3)
        one = Block(
            "One", "open", (("rule", "value"), ("Krum(malicious=2)", cell)), chapter="Attacks <1>"
        )
        return [one, replace(one, title="Two", folded=True)]

    def note(runs):
        return Block("Three", "a note", (("a", "b"), ("c", "d")))

    def nothing(runs):
        return []

    found = [Chapter(function) for function in (results, note, nothing)]
    monkeypatch.setattr(registry, "chapters", lambda: found)

    told = page_content(study(made_runs([made_run()])), MADE)
    assert [(each.title, each.chapter, each.folded) for each in told["blocks"]] == [
        ("One", "Attacks <1>", False),
        ("Two", "Attacks <1>", True),
        ("Three", "", False),
    ]
    _, parts, data = page_parts(told)
    json.dumps(data, allow_nan=False)
    assert parts["notes"].count("<h3>") == 1 and "<table class=plain>" in parts["notes"]
    assert parts["results"].count("<h2") == 1 and "Attacks &lt;1&gt;</h2>" in parts["results"]
    assert '<details class=block id="fold-0.1"><summary><h3>Two</h3></summary>' in parts["results"]
    entry = (
        '<td class=h3><b>0.5</b><span class=down role=img aria-label="significantly worse"'
        ' title="significantly worse">▼</span> <small>(&lt;b&gt;)</small> <small class=below>m'
        " &amp; m</small></td>"
    )
    assert f"<tr><th scope=row>Krum(<wbr>malicious=2)</th>{entry}</tr>" in parts["results"]
    # wide tables scroll in their own box
    assert parts["results"].count("<div class=scroll role=region") == 2


def test_no_chapter_no_heading():
    assert sections(page_content(study(made_runs(grid())), MADE))["results"] == ""
