"""Paths that users give: the home folder is found, impossible names are told."""

import os

import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.system.files import given_path
from foltr.experiment import Experiment
from foltr.report.results import load_runs
from foltr.simulation.runs.trained import load_ranker
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.run import sweep

SMALL = Experiment(data="Synthetic(queries=30)", clients=2, rounds=2)


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def test_runs_and_rankers_below_the_home_folder(home):
    made = SMALL.run("~/runs")
    assert made.folder.parent == home / "runs" and len(load_runs("~/runs")) == 1
    made.trained.save("~/ranker.json")
    assert (load_ranker("~/ranker.json").params == made.trained.params).all()
    assert foltr.export("~/ranker.json", "json", "~/exported.json") is not None
    load_runs("~/runs").to_csv("~/runs.csv")
    assert sweep([Point(SMALL, None)], "~/runs", "s").found == [made.folder.name]
    names = {"runs", "ranker.json", "exported.json", "runs.csv"}
    assert set(os.listdir(home)) == names and os.listdir() == []


@pytest.mark.parametrize("path", ["x" * 300, "/".join(["y" * 200] * 30), "a\0b", "~nobody-here/x"])
def test_an_impossible_name_is_one_clear_line(path, home):
    for use in (SMALL.run, load_runs, load_ranker, given_path, foltr.use):
        with pytest.raises(Mistake) as caught:
            use(path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert os.listdir() == []


def test_a_path_that_is_not_there_yet_is_fine(tmp_path):
    assert given_path(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    (tmp_path / "file").write_text("")
    assert given_path(tmp_path / "file" / "below") == tmp_path / "file" / "below"
