"""Reports tell which code made their runs, and mark studies that mix it."""

import csv
import io
from datetime import datetime

import pytest
from made_runs import made_run, made_runs

from foltr.report.captions import caption
from foltr.report.matrix import matrix
from foltr.report.provenance import mixed_code, provenance
from foltr.report.study import study
from foltr.report.tables.csv_table import csv_table
from foltr.report.tables.latex_table import latex_tables
from foltr.report.tables.screen_table import terminal_table

OLD = {"numba": "0.60.0", "llvmlite": "0.43.0", "cpu": "znver3", "cpu_features": "avx"}
NEW = {"numba": "0.61.2", "llvmlite": "0.44.0", "cpu": "znver4", "cpu_features": "avx"}


def run(code, seed=1, engine="local", **more):
    environment = {"results": 1, **({} if code == "unknown" else {"compiled": code})}
    final = {"ndcg@10": 0.5 + seed / 100, "online": 5.0, "engine": engine}
    return made_run(final, environment=environment, seed=seed, **more)


def runs_of(*codes):
    return made_runs([run(code, seed) for seed, code in enumerate(codes, 1)])


@pytest.mark.parametrize(
    "codes", [(NEW, NEW), (NEW, "unknown"), (NEW, {"numba": "0.61.2"}), (None, None)]
)
def test_one_kind_of_code_is_not_marked(codes):
    assert mixed_code(runs_of(*codes)) == ""


def test_a_mix_is_marked_wherever_a_table_is_shown():
    found = matrix(study(runs_of(OLD, NEW, NEW)), "ndcg@10")
    told = "Made by different code (numba 0.60.0, llvmlite 0.43.0, CPU znver3; numba 0.61.2,"
    assert told in caption(found) and told in latex_tables(found)
    assert told in " ".join(terminal_table(found).split())
    (row,) = csv.DictReader(io.StringIO(csv_table(found)))
    assert row["code"].split("; ") == [
        "numba 0.60.0, llvmlite 0.43.0, CPU znver3",
        "numba 0.61.2, llvmlite 0.44.0, CPU znver4",
    ]
    rows = dict(provenance(found.study, datetime(2026, 1, 1)))
    assert rows["compiled code"][0] == "numba 0.61.2, llvmlite 0.44.0, CPU znver4 (2 runs)"
    assert told in rows["compiled code"][-1]


def test_instruction_sets_alone_make_a_mix():
    other = {**NEW, "cpu_features": "avx avx512f"}
    assert "2 kinds of CPU or settings" in mixed_code(runs_of(NEW, other))


def test_the_plain_engine_beside_the_compiled_one_is_a_mix():
    both = [run(NEW), run(None, 2, engine="debug")]
    assert "the debug engine" in mixed_code(made_runs(both))
    of_before = [run(NEW), run("unknown", 2, engine="debug")]
    assert "the debug engine" in mixed_code(made_runs(of_before))


def test_a_baseline_is_no_part_of_a_mix():
    runs = made_runs([run(NEW), run(None, 2, engine="debug", baseline="LambdaMART()")])
    assert mixed_code(runs) == ""
