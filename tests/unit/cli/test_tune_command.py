"""`foltr tune`: a sweep, a choice by the validation queries, and one look at the test queries."""

import re

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.report.results import load_runs

FILE = """
data = "Synthetic(queries=30)"
clients = 4
rounds = 6
evaluate_every = 3
[sweep]
title = "A study"
learner.lr = [0.01, 0.1]
users.kind = ["perfect", "informational"]
seed = [1, 2]
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(FILE)

    def called(*words):
        return CliRunner().invoke(app, ["tune", "study.toml", "--quiet", "--jobs", "1", *words])

    return called


def test_it_chooses_by_validation_and_reports_the_test_queries_once(call, tmp_path):
    done = call()
    assert done.exit_code == 0, done.output
    assert "8 runs made" in done.stdout
    rows = re.findall(
        r"^(perfect|informational) +(0\.01|0\.1) +2 +2 +(\S+) +(\S+)$", done.stdout, re.M
    )
    assert len(rows) == 2
    everything = load_runs(tmp_path / "runs/study.tuning.sweep.json")
    assert set(everything["evaluate_on"]) == {"validation"}
    for kind, rate, validation, test in rows:
        means = {}
        for lr in (0.01, 0.1):
            runs = everything.where(**{"users.kind": kind, "learner.lr": lr})
            means[lr] = [sum(runs[n]) / 2 for n in ("validation_ndcg@10", "ndcg@10")]
        best = max(means, key=lambda lr: means[lr][0])
        assert (float(rate), float(validation)) == (best, round(means[best][0], 4))
        assert float(test) == round(means[best][1], 4)
    assert "chosen among 2 by nDCG@10 on the validation queries" in " ".join(done.stdout.split())
    report = CliRunner().invoke(
        app, ["report", "runs/study.tuned.sweep.json", "-o", "page.html", "-o", "table.tex"]
    )
    assert report.exit_code == 0
    for file in ("page.html", "table.tex"):
        text = " ".join((tmp_path / file).read_text().split())
        assert "chosen among 2 by nDCG@10 on the validation queries" in text
    assert "8 found" in call().stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--by", "mapp"], "no measure of the validation queries is called 'mapp'"),
        (["--by", "maxrr"], "no measure of the validation queries is called 'maxrr'"),
        (["--over", "learner.rl"], "no run has a field 'learner.rl' to tune: did you mean"),
        (["--over", "users.kind"], "users.kind is not tuned"),
        (["--measures", "MAPP()"], "no measure is called 'MAPP'"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_before_anything_runs(call, tmp_path, words, told):
    done = call(*words)
    assert done.exit_code == 2 and told in done.output
    assert not (tmp_path / "runs").exists()


def test_a_measure_that_was_asked_for_decides(call):
    done = call("--measures", "MAP()", "--by", "map", "--over", "learner.lr")
    assert done.exit_code == 0 and "validation_map" in done.stdout, done.output
