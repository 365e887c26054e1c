"""Every file in examples/ works: scripts run, TOML files are swept and reported, components are
those of the pages (and so pass the contracts: test_docs.py). A new file is found by itself."""

import os
import subprocess
from pathlib import Path

import pytest

from quick_foltr import python_file, quick_foltr

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
SWEEPS = sorted(EXAMPLES.glob("*.toml"))
COMPONENTS = sorted((EXAMPLES / "components").glob("*.py"))


def done(folder, *command):
    env = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    made = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert made.returncode == 0, made.stdout
    return made.stdout


def named(file):
    return file.name


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_script_runs_and_writes_only_into_its_own_folder(script, tmp_path):
    assert done(tmp_path, *python_file(), script).strip()
    assert [path.name for path in tmp_path.iterdir()] == [script.stem.replace("_", "-")]


@pytest.mark.parametrize("file", SWEEPS, ids=named)
def test_a_sweep_becomes_a_report(file, tmp_path):
    assert "0 failed" in done(
        tmp_path, *quick_foltr(), "sweep", file, "--jobs", "2", "--out", "runs"
    )
    record = f"runs/{file.stem}.sweep.json"
    outs = ["report.html", "curves.pdf", "table.tex", "table.csv", "runs.parquet"]
    done(
        tmp_path, *quick_foltr(), "report", record, *(word for out in outs for word in ("-o", out))
    )
    assert all((tmp_path / out).stat().st_size > 500 for out in outs)


@pytest.mark.parametrize("file", COMPONENTS, ids=named)
def test_a_component_is_the_one_that_the_pages_explain(file):
    pages = "\n".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "howto").glob("*.md")
    )
    # all but the first line
    assert file.read_text(encoding="utf-8").partition('"""\n\n')[2] in pages


def test_the_list_of_examples_is_complete():
    told = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for file in (*SCRIPTS, *SWEEPS, *COMPONENTS):
        assert f"`{file.relative_to(EXAMPLES).as_posix()}`" in told
