"""`foltr report` that is interrupted, and that is given a file of chapters."""

import pytest
from typer.testing import CliRunner

import foltr
from foltr.cli import report as command
from foltr.cli.app import app

CHAPTER = """
from foltr.report.chapters.registry import Block
from foltr.report.chapters.registry import chapter


@chapter
def counted(runs):
    return Block("Counted", f"{len(runs)} runs & more", chapter="My own")
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    foltr.Experiment(data="Synthetic(queries=20)", clients=2, rounds=2).run(folder)
    return folder


def test_an_interrupted_report_says_once_what_is_not_written(tmp_path, runs, monkeypatch):
    write, made = command._write, []

    def interrupted(compared, out, *more):
        if made:
            raise KeyboardInterrupt
        made.append(out)
        write(compared, out, *more)

    monkeypatch.setattr(command, "_write", interrupted)
    outs = [tmp_path / name for name in ("a.csv", "b.tex", "c.html")]
    words = [word for out in outs for word in ("-o", str(out))]
    result = CliRunner().invoke(app, ["report", str(runs), *words])
    assert result.exit_code == 130
    told = f"foltr: stopped: {outs[1]} and {outs[2]} are not written"
    assert result.output.split("\n") == [f"{outs[0]}: 1 runs", "", told, ""]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]


def test_a_report_that_is_interrupted_while_it_reads_writes_nothing(tmp_path, runs, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("foltr.report.results.load_runs", stopped)
    out = tmp_path / "a.html"
    result = CliRunner().invoke(app, ["report", str(runs), "-o", str(out)])
    assert result.output == f"\nfoltr: stopped: {out} is not written\n"
    assert result.exit_code == 130 and not list(tmp_path.iterdir())


def test_a_chapter_in_a_file_of_the_user(tmp_path, runs):
    file, out = tmp_path / "mine.py", tmp_path / "a.html"
    file.write_text(CHAPTER)
    result = CliRunner().invoke(app, ["report", str(runs), "-o", str(out), "--use", str(file)])
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert ">My own</h2>" in page and "<p>1 runs &amp; more</p>" in page


def test_a_chapter_that_fails_leaves_no_page(tmp_path, runs):
    file, out = tmp_path / "wrong.py", tmp_path / "a.html"
    file.write_text(CHAPTER.replace("len(runs)", "runs.number"))
    result = CliRunner().invoke(app, ["report", str(runs), "-o", str(out), "--use", str(file)])
    assert result.exit_code == 2 and not out.exists()
    assert "foltr: the chapter counted failed (wrong.py, line 8): AttributeError" in result.output
