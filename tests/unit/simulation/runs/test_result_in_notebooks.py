"""How results, runs, comparisons and progress show themselves in a notebook; and components that
are in no file, or in one that has changed."""

import shutil
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.system.terminal import LivePanel, NotebookPanel, as_html
from foltr.experiment import Experiment, user_files
from foltr.report.results import load_runs
from foltr.simulation.runs.execution import RunOptions
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.pools import Pool
from foltr.simulation.sweeps.run import sweep

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=6, evaluate_every=3)
RULE = """
from dataclasses import dataclass
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator

@aggregator
@dataclass(frozen=True)
class Scaled(Memoryless):
    def combine(self, cohort):
        return FACTOR * cohort.updates.mean(axis=0, dtype=float)
"""


@pytest.fixture(autouse=True)
def forgotten():
    yield
    user_files.use_only(())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    experiments = [replace(SMALL, seed=seed, learner=f"PDGD(sessions={n})") for seed in (1, 2)
                   for n in (1, 4)]  # fmt: skip
    sweep([Point(e, None) for e in experiments], out, "s", options=RunOptions(measures="MAP()"))
    return out


def test_a_result_is_a_table_of_its_measures(tmp_path):
    result = SMALL.run(tmp_path, measures="nDCG(k=5), RoundsTo(level=0.1)")
    html = result._repr_html_()
    for text in ("ndcg@10", f"{result.final['ndcg@10']:.4f}", "offline nDCG@5", "RoundsTo"):
        assert (text in html) == (text != "RoundsTo"), text
    assert repr(result.final["ndcg@10"]) not in html and len(html) < 5000
    assert str(result.folder) in html and "not repeated" not in html
    assert "(finished before, not repeated)" in SMALL.run(tmp_path)._repr_html_()
    assert "not kept: run(out=...)" in SMALL.run()._repr_html_()
    assert f"ndcg@10={round(result.final['ndcg@10'], 4)}, " in repr(result)
    baseline = replace(SMALL, baseline="LeastSquares()").run()._repr_html_()
    assert "LeastSquares()" in baseline and "PDGD" not in baseline and "online" not in baseline


def test_what_a_user_wrote_cannot_become_html(tmp_path):
    result = SMALL.run(tmp_path)
    noted = replace(result, final={**result.final, "notes": ["<img src=x>"]})
    assert "<img" not in noted._repr_html_() and "&lt;img src=x&gt;" in noted._repr_html_()
    runs = load_runs(tmp_path)
    named = replace(runs, recorded=tuple(replace(run, method="<b>mine</b>") for run in runs))
    assert "<b>" not in named._repr_html_() and "&lt;b&gt;mine" in named._repr_html_()


def test_runs_show_what_they_differ_in(made):
    runs = load_runs(made)
    assert runs.headings == ["learner.sessions", "seed", "ndcg@10", "mrr@10", "online", "map"]
    html = runs._repr_html_()
    assert "4 finished runs, 0 unfinished" in html and html.count("<tr>") == 5
    one = runs.where(seed=1, **{"learner.sessions": 1})
    assert one.headings[0] == "run" and repr(one) == "<1 finished run, 0 unfinished>"
    mixed = replace(runs, recorded=(*runs, replace(runs.recorded[0], config={
        **runs.recorded[0].config, "learner": "ES(sessions=4)"})))  # fmt: skip
    assert mixed.headings[:2] == ["learner", "seed"]  # of different classes: as a whole
    assert "0 finished runs" in runs.where(lambda run: False)._repr_html_()


def test_runs_say_what_was_skipped(made, tmp_path):
    copy = shutil.copytree(made, tmp_path / "copy")
    for run in load_runs(copy).recorded[:4]:
        (run.path / "params.npy").write_bytes(b"damaged")
    html = load_runs(copy)._repr_html_()
    assert html.count("<p>skipped: ") == 3 and "and 1 more skipped" in html


def test_a_comparison_has_a_table_per_measure():
    table = foltr.compare(
        [SMALL, replace(SMALL, learner="PDGD(sessions=1)")],
        names=["a<b", "c"], seeds=(1, 2), users=["Cascade()", "Cascade(kind='informational')"],
        quiet=True,
    )  # fmt: skip
    html = table._repr_html_()
    assert html.count("<table>") == 2 and "a&lt;b (b)" in html and "informational" in html
    for found in table.matrices:
        for entry in found.entries.values():
            assert f"{entry.mean:.{found.decimals}f}" in html
    assert "Two-tailed paired t-tests against the baseline" in html


def test_progress_elsewhere_than_in_a_notebook_is_a_line_and_watch_is_called_too(capsys):
    seen = []
    result = SMALL.run(progress=True, watch=seen.append)
    assert seen[-1].t == 6 and result.final["rounds"] == 6
    assert "note" not in capsys.readouterr().err


class Place:
    """What IPython's `display` returns."""

    def __init__(self):
        self.shown = []

    def __call__(self, data, raw, display_id):
        assert raw and display_id
        self.shown.append(data)
        return self

    def update(self, data, raw):
        assert raw and self.shown
        self.shown.append(data)


@pytest.fixture
def place(monkeypatch):
    place = Place()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=place))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return place


def test_a_notebook_keeps_the_last_state_of_the_bar(place, monkeypatch):
    SMALL.run(progress=True)
    last = place.shown[-1]
    assert "round 6 of 6" in last["text/html"] and last["text/plain"].startswith("round 6/6  ")
    assert "<pre" in last["text/html"] and "color" not in last["text/html"]
    before = len(place.shown)
    SMALL.run()
    foltr.compare([SMALL, replace(SMALL, clients=3)], seeds=(1,), quiet=True)
    assert len(place.shown) == before  # nobody asked
    foltr.compare([SMALL, replace(SMALL, clients=3)], seeds=(1,))
    assert "2 of 2 done" in place.shown[-1]["text/html"]


def test_a_quiet_panel_shows_nothing_in_a_notebook(place):
    with LivePanel(True, 0.0, 0.0) as panel:
        panel.keep(lambda: "panel", lambda: "line")
    assert not place.shown
    empty = NotebookPanel()
    empty.close()
    assert "a &lt; b" in as_html("a < b")


def loaded(folder, factor):
    file = folder / "scaled.py"
    file.write_text(RULE.replace("FACTOR", factor))
    foltr.use(file)
    return replace(SMALL, aggregator="Scaled()")


def test_a_file_that_has_changed_is_told(tmp_path, monkeypatch):
    e = loaded(tmp_path, "1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = e.run(tmp_path / "runs")
    (tmp_path / "scaled.py").write_text(RULE.replace("FACTOR", "0.1"))
    with pytest.warns(
        UserWarning, match=r"scaled.py has changed since it was loaded: this run is"
    ):
        assert e.run(tmp_path / "runs").final == first.final
    monkeypatch.setitem(sys.modules, "IPython.extensions.autoreload", SimpleNamespace())
    with pytest.raises(Mistake, match=r"foltr.use\('scaled.py'\) loads it again"):
        e.run(tmp_path / "runs")


def test_other_processes_would_load_another_version(tmp_path):
    e = loaded(tmp_path, "1.0")
    (tmp_path / "scaled.py").write_text(RULE.replace("FACTOR", "0.1"))
    with pytest.raises(Mistake, match=r"scaled.py has changed .* make the experiment again"):
        sweep([Point(e, None)], tmp_path / "runs", "s", pool=Pool(2))
    (tmp_path / "scaled.py").unlink()
    with pytest.raises(Mistake, match=r"scaled.py has changed"):
        sweep([Point(e, None)], tmp_path / "runs", "s", pool=Pool(2))
    assert not (tmp_path / "runs").exists()


def test_an_experiment_of_before_is_not_taken_for_one_of_the_new_code(tmp_path):
    """Its class is the old one, and the file's hash is the new one's."""
    old = loaded(tmp_path, "1.0")
    new = loaded(tmp_path, "0.1")
    with pytest.raises(Mistake, match=r"this Scaled is of scaled.py as it was before"):
        old.run(tmp_path / "runs")
    assert new.run(tmp_path / "runs").final != old.run().final


def test_a_class_of_a_script_needs_a_file_of_its_own_for_other_processes(tmp_path, monkeypatch):
    e = loaded(tmp_path, "1.0")
    cls = type(e.aggregator)
    script = SimpleNamespace(__file__=str(tmp_path / "scaled.py"))
    monkeypatch.setitem(sys.modules, "my_script", script)
    monkeypatch.setattr(cls, "__module__", "my_script")
    told = r"Scaled is in scaled.py, which other processes do not load. .* \(jobs=1\)"
    with pytest.raises(Mistake, match=told):
        sweep([Point(e, None)], tmp_path / "runs", "s", pool=Pool(2))
    script.__file__ = None
    with pytest.raises(Mistake, match=r"Scaled is in no file .* %%writefile scaled.py"):
        sweep([Point(e, None)], tmp_path / "runs", "s")
