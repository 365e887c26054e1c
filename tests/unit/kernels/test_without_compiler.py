"""With NUMBA_DISABLE_JIT nothing is compiled: the plain engine works, and the rest says so."""

import json
import os
import subprocess
import sys

import pytest

SMALL = ("run", "--clients", "4", "--rounds", "3", "--data", "Synthetic(queries=30)", "--quiet")


def foltr(*words, compiler=False):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if compiler else "1"}
    command = [sys.executable, "-m", "foltr", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("rule", ["Mean()", "GeometricMedian()"])
def test_the_plain_engine_runs_and_agrees(rule, tmp_path):
    words = (*SMALL, "--engine", "debug", "--json", "--aggregator", rule, "--out")
    plain, usual = foltr(*words, tmp_path / "a"), foltr(*words, tmp_path / "b", compiler=True)
    assert plain.returncode == 0, plain.stderr
    assert json.loads(plain.stdout)["ndcg@10"] == pytest.approx(
        json.loads(usual.stdout)["ndcg@10"], abs=1e-9
    )


def test_the_compiled_engine_names_the_way_out(tmp_path):
    told = foltr(*SMALL, "--out", tmp_path)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    assert told.stderr.startswith("foltr: the local engine needs compiled code")
    assert "unset NUMBA_DISABLE_JIT" in told.stderr and "debug engine" in told.stderr
    assert not list(tmp_path.glob("*/environment.json"))


def test_so_does_the_reader_of_letor_files(tmp_path):
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(f"1 qid:{name} 1:0.5 2:0.25\n0 qid:{name} 1:0.1 2:0.75\n")
    data = f"Letor(path={str(tmp_path)!r})"
    told = foltr("run", "--data", data, "--engine", "debug", "--out", tmp_path / "runs")
    assert told.returncode == 2 and "reading" in told.stderr and "Traceback" not in told.stderr
