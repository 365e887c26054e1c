"""Results as data: one tidy table of what is finished; what is damaged or foreign is named, and
never counted."""

import csv
import io
import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foltr
import foltr.simulation.runs.train
from foltr.core.errors import Mistake
from foltr.core.spec import opened
from foltr.core.system.tables import Tidy
from foltr.experiment import Experiment
from foltr.report.provenance import command
from foltr.report.results import Loader, load_runs
from foltr.simulation.runs.execution import RunOptions
from foltr.simulation.runs.folder import Folder
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.run import sweep
from property_settings import examples

SMALL = {"data": "Synthetic(queries=40)", "clients": 4, "rounds": 6, "evaluate_every": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    points = [
        Point(
            Experiment(**SMALL, seed=seed, users=f"Cascade(kind={kind!r})", ranker=ranker), method
        )
        for seed in (1, 2)
        for kind in ("informational", "perfect")
        for ranker, method in (("Linear()", "line"), ("MLP(hidden=4)", None))
    ]
    sweep(points, out, "s", "A title", RunOptions(per_query=True))
    return out


def sign(folder):
    """Make the sums of a folder agree with its files again."""
    final = json.loads((folder / "result.json").read_text())
    final.pop("sums")
    metrics, params = Folder(folder).metrics(), np.load(folder / "params.npy")
    Folder(folder).finish(params, metrics, final)


@pytest.fixture
def runs(made, tmp_path):
    return shutil.copytree(made, tmp_path / "runs")


def test_a_row_per_run_in_the_order_of_the_sweep(made):
    runs = load_runs(made / "s.sweep.json")
    assert len(runs) == len(runs.table) == runs.planned == 8 and runs.title == "A title"
    assert runs["seed"] == [1] * 4 + [2] * 4
    assert (
        runs["users.kind"]
        == ["informational"] * 2 + ["perfect"] * 2 + ["informational"] * 2 + ["perfect"] * 2
    )
    assert runs["ranker.hidden"] == [None, 4] * 4 and runs["method"] == ["line", None] * 4
    assert runs["ndcg@10"] == [run.final["ndcg@10"] for run in runs]
    assert load_runs(made)["run"] == runs["run"]  # a folder knows its sweeps
    with pytest.raises(Mistake, match="no column is called 'ndcg': did you mean 'ndcg@10'"):
        runs["ndcg"]


def test_without_a_sweep_rows_are_sorted_by_field(runs):
    (runs / "s.sweep.json").unlink()
    found = load_runs(runs)
    assert (
        found["users.kind"] == ["perfect"] * 4 + ["informational"] * 4
        and found["method"] == [None] * 8
    )
    assert len(load_runs(next(found.__iter__()).path)) == 1  # one run's own folder


def test_selecting(made):
    runs = load_runs(made)
    assert len(runs.where(ranker="Linear()", seed=1)) == 2
    assert len(runs.where(lambda run: run.final["rounds"] == 6)) == 8
    assert len(runs.where(**{"users.kind": "perfect"})) == 4
    with pytest.raises(Mistake, match=r"no run has a field .* did you mean 'users.kind'"):
        runs.where(**{"users.knd": "perfect"})


def test_rounds_and_queries_are_tidy(made):
    runs = load_runs(made)
    rounds = runs.rounds("ndcg@10", "online_ndcg@10")
    assert len(rounds) == 8 * 7
    first = [row for row in rounds.rows() if row["run"] == runs["run"][0]]
    assert [row["round"] for row in first] == list(range(7))
    assert [row["round"] for row in first if row["ndcg@10"] is not None] == [0, 3, 6]
    assert first[0]["online_ndcg@10"] is None and first[-1]["ndcg@10"] == runs["ndcg@10"][0]
    queries = runs.queries()
    one = [
        row["ndcg@10"]
        for row in queries.rows()
        if row["run"] == runs["run"][0] and row["ndcg@10"] is not None
    ]
    assert sum(one) / len(one) == pytest.approx(runs["ndcg@10"][0], rel=1e-12)
    assert len(queries) == 8 * runs["queries"][0]


def test_per_query_results_can_be_asked_for_later(tmp_path):
    e = Experiment(**SMALL)
    e.run(tmp_path)
    assert not load_runs(tmp_path).queries().columns
    with pytest.raises(Mistake, match="give out"):
        e.run(per_query=True)
    again = e.run(tmp_path, per_query=True)
    assert again.found
    first = (again.folder / "queries.csv").read_bytes()
    shutil.rmtree(again.folder)
    e.run(tmp_path, per_query=True)
    assert (again.folder / "queries.csv").read_bytes() == first
    (again.folder / "queries.csv").write_text("query,ndcg@10\n1,2,3\n")
    with pytest.raises(Mistake, match="cannot be read"):
        load_runs(tmp_path).queries()


def test_csv_pandas_and_parquet_say_the_same(made, tmp_path):
    runs = load_runs(made)
    runs.to_csv(tmp_path / "runs.csv")
    with open(tmp_path / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ndcg@10"]) for row in rows] == runs["ndcg@10"] and len(rows) == 8
    import pandas

    frame = runs.to_pandas()
    assert frame["ndcg@10"].tolist() == runs["ndcg@10"] and frame["seed"].tolist() == runs["seed"]
    runs.to_parquet(tmp_path / "runs.parquet")
    back = pandas.read_parquet(tmp_path / "runs.parquet")
    assert back["ndcg@10"].tolist() == runs["ndcg@10"] and back["run"].tolist() == runs["run"]


def damage(folder, kind):
    if kind == "truncated metrics":
        (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text()[:-60])
    elif kind == "no metrics":
        (folder / "metrics.csv").unlink()
    elif kind == "binary result":
        (folder / "result.json").write_bytes(b"\x00\xff\xfe")
    elif kind == "result of another shape":
        (folder / "result.json").write_text("[]")
    elif kind == "empty params":
        (folder / "params.npy").write_bytes(b"")
    elif kind == "no config":
        (folder / "config.toml").unlink()
    elif kind == "config cut":
        (folder / "config.toml").write_text("data = 'Syn")
    elif kind == "environment is a list":
        (folder / "environment.json").write_text("[1]")


@pytest.mark.parametrize(
    "kind",
    [
        "truncated metrics",
        "no metrics",
        "binary result",
        "result of another shape",
        "empty params",
        "no config",
        "config cut",
        "environment is a list",
    ],
)
def test_damaged_runs_are_named_skipped_and_counted(runs, kind):
    name = load_runs(runs)["run"][3]
    damage(runs / name, kind)
    for found in (load_runs(runs), load_runs(runs / "s.sweep.json")):
        assert len(found) == 7 and [skipped.path.name for skipped in found.skipped] == [name]
        assert "cannot be read" in found.skipped[0].why
        assert "7 finished runs, 1 skipped" in repr(found)


@pytest.mark.parametrize(
    "name", ["metrics.csv", "config.toml", "environment.json", "params.npy", "result.json"]
)
def test_any_flipped_digit_is_noticed(runs, name):
    run = load_runs(runs)["run"][1]
    content = bytearray((runs / run / name).read_bytes())
    digits = [i for i, byte in enumerate(content) if 48 <= byte <= 56]  # 0 .. 8
    for at in digits[:: max(1, len(digits) // 7)]:
        content[at] += 1
        (runs / run / name).write_bytes(content)
        found = load_runs(runs)
        assert len(found) == 7 and found.skipped[0].path.name == run
        content[at] -= 1
    (runs / run / name).write_bytes(content)
    assert len(load_runs(runs)) == 8


def test_a_copy_of_a_run_counts_once(runs):
    name = load_runs(runs)["run"][1]
    shutil.copytree(runs / name, runs / "copy")
    found = load_runs(runs)
    assert len(found) == 8 and "the same run as" in found.skipped[0].why


def test_a_run_that_two_sweeps_name_has_both_names(runs):
    record = json.loads((runs / "s.sweep.json").read_text())
    for run in record["runs"]:
        run["method"] = "mine"
    (runs / "t.sweep.json").write_text(json.dumps(record))
    assert load_runs(runs)["method"] == ["line / mine", "mine"] * 4
    assert load_runs(runs / "s.sweep.json")["method"] == ["line", None] * 4


@pytest.mark.parametrize("name", ["../x", "/etc", "", ".", "..", 3, None])
def test_a_record_names_folders_beside_it_only(runs, name):
    (runs / "t.sweep.json").write_text(
        json.dumps({"title": "t", "runs": [{"run": name, "method": None}]})
    )
    with pytest.raises(Mistake, match="is not the name of a run folder"):
        load_runs(runs / "t.sweep.json")


def test_a_selection_is_remembered(made):
    runs = load_runs(made / "s.sweep.json").where(seed=1).where(lambda run: True)
    assert runs.selection == "seed = 1, a test of its own" and runs.planned is None


def test_runs_of_another_version_are_named_and_can_be_read(runs):
    name = load_runs(runs)["run"][0]
    file = runs / name / "environment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "results": 0, "foltr": "0.0.1"}))
    sign(runs / name)
    found = load_runs(runs)
    assert len(found) == 7
    assert (
        "made by foltr 0.0.1, whose results differ (results version 0, here 1)"
        in found.skipped[0].why
    )
    assert len(load_runs(runs, any_version=True)) == 8
    # whatever they look like: they are not called damaged
    (runs / name / "result.json").write_text("{}")
    assert "made by foltr 0.0.1" in load_runs(runs).skipped[0].why


def test_unknown_components_and_fields_of_another_version_can_be_read(runs):
    """A spec is only text here: nothing is built."""
    folder = runs / load_runs(runs)["run"][0]
    text = (folder / "config.toml").read_text().replace(
        "Mean()", "Median(of=Means(3), trim=2)"
    ) + "novelty = 3\n"
    (folder / "config.toml").write_text(text)
    sign(folder)
    found = load_runs(runs).where(lambda run: run.path == folder)
    assert found["aggregator.trim"] == [2] and found["novelty"] == [3]


@pytest.mark.parametrize(
    "line",
    [f"novelty = 0x{'f' * 5000}", f"novelty = {10**400}", f"[{'a.' * 200}b]", "use = 3"],
    ids=["hexadecimal", "decimal", "deep", "use"],
)
def test_a_config_that_nobody_means_is_skipped(runs, line):
    name = load_runs(runs)["run"][0]
    with open(runs / name / "config.toml", "a") as file:
        file.write(f"{line}\n")
    sign(runs / name)
    found = load_runs(runs)
    assert len(found) == 7 and "cannot be read" in found.skipped[0].why
    assert len(found["seed"]) == 7


def test_a_measure_that_no_float_holds_is_skipped(runs):
    name = load_runs(runs)["run"][0]
    result = json.loads((runs / name / "result.json").read_text())
    (runs / name / "result.json").write_text(json.dumps({**result, "ndcg@10": 10**400}))
    sign(runs / name)
    assert "more than 1000 bits" in load_runs(runs).skipped[0].why


def test_unfinished_runs_are_counted_apart(runs):
    name = load_runs(runs)["run"][0]
    (runs / name / "result.json").unlink()
    found = load_runs(runs / "s.sweep.json")
    assert (
        len(found) == 7
        and [path.name for path in found.unfinished] == [name]
        and not found.skipped
    )


def test_what_was_read_before_is_not_read_again(runs, monkeypatch):
    loader, sweep_loader = Loader(runs), Loader(runs / "s.sweep.json")
    first = loader.load()
    sweep_loader.load()
    reads = []
    final = Folder.final
    monkeypatch.setattr(
        Folder, "final", lambda folder: reads.append(folder.path.name) or final(folder)
    )
    assert loader.load().recorded == first.recorded and not reads
    name = first["run"][2]
    # written anew
    (runs / name / "result.json").write_text((runs / name / "result.json").read_text())
    os.utime(runs / name / "result.json", ns=(1, 1))
    assert sweep_loader.load()["run"] == first["run"] and reads == [name]


def test_the_files_behind_a_run_belong_to_its_command(runs):
    name = load_runs(runs)["run"][0]
    with open(runs / name / "config.toml", "a") as file:
        file.write("use = ['my rule.py', 'b.py']\n")
    sign(runs / name)
    run = next(iter(load_runs(runs)))
    assert run.use == ("my rule.py", "b.py") and "use" not in run.fields
    assert "--use 'my rule.py' --use b.py" in command(run)


def test_nothing_there(tmp_path):
    with pytest.raises(Mistake, match=r"no runs at .*nowhere"):
        load_runs(tmp_path / "nowhere")
    assert len(load_runs(tmp_path)) == 0
    (tmp_path / "x.sweep.json").write_text('{"title": "x"}')
    with pytest.raises(Mistake, match="cannot be read"):
        load_runs(tmp_path / "x.sweep.json")


texts = st.text(st.characters(exclude_characters="\r", codec="utf-8"), min_size=1)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts


@examples(50)
@given(st.lists(st.dictionaries(texts, values, min_size=1), min_size=1))
def test_any_table_goes_through_csv(rows):
    table = Tidy.of(rows)
    assert len(table) == len(rows)
    assert [
        {k: v for k, v in row.items() if k in given}
        for row, given in zip(table.rows(), rows, strict=True)
    ] == rows
    back = list(csv.reader(io.StringIO(table.csv(), newline="")))
    assert back[0] == list(table.columns) and len(back) == len(rows) + 1


@given(st.text())
def test_any_text_can_be_opened(text):
    name, fields = opened(text)
    assert isinstance(name, str) and isinstance(fields, dict)


def test_opening_a_spec_needs_no_component():
    assert opened("Gated(fallback=Median(), after=3)") == (
        "Gated",
        {"fallback": "Median()", "after": 3},
    )
    assert opened(3) == ("3", {}) and opened("skip") == ("skip", {}) and opened("f(") == ("f(", {})
    assert foltr.load_runs is load_runs


def test_failed_runs_are_named_with_their_error(runs):
    name = load_runs(runs)["run"][0]
    (runs / name / "result.json").unlink()
    Folder(runs / name).fail("no luck", "...")
    found = load_runs(runs)
    assert len(found) == 7 and not found.unfinished and found.skipped[0].why == "failed: no luck"


def test_methods_can_be_selected_and_reprs_are_short(made):
    runs = load_runs(made)
    assert len(runs.where(method="line")) == 4 and len(runs.where(run=runs["run"][0])) == 1
    assert (
        len(repr(runs)) < 80 and len(repr(runs.recorded[0])) < 80 and len(repr(runs.table)) < 2000
    )


def test_query_ids_may_hold_anything(tmp_path):
    folder = Folder(tmp_path / "run")
    folder.create()
    folder.keep_queries(
        ["new,york", 'a "b"', "3"], ("ndcg@10",), np.array([[0.1 + 0.2], [np.nan], [1.0]])
    )
    rows = folder.queries()
    assert [row["query"] for row in rows] == ["new,york", 'a "b"', "3"]
    assert [row["ndcg@10"] for row in rows] == [0.1 + 0.2, None, 1.0]


def test_a_result_without_sums_is_of_an_earlier_foltr_not_damaged(runs):
    name = load_runs(runs)["run"][0]
    file = runs / name / "result.json"
    final = json.loads(file.read_text())
    del final["sums"]
    file.write_text(json.dumps(final))
    assert "was made by an earlier foltr" in load_runs(runs).skipped[0].why
    file.write_text(json.dumps({**final, "sums": {}}))
    assert "sums are missing" in load_runs(runs).skipped[0].why
