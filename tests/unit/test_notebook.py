"""The example notebook runs, and what it stores is what it shows now. What pages say of components
in cells holds in a real kernel."""

import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
NUMBER = re.compile(r"[-+]?\d[\d,.:]*|nan")


@pytest.fixture(scope="module")
def stored():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def code_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


class Words(HTMLParser):
    """The text of HTML without numbers, sparklines, and marks that depend on numbers."""

    def __init__(self, html):
        super().__init__()
        self.words = []
        self.feed(html)

    def handle_data(self, data):
        text = re.sub(r"[▁-█▲▼△▽]+|Synthetic-\S+", "", NUMBER.sub("", data))
        self.words += text.split()


def shown(cell):
    """The kinds of what a cell shows, and the words of its tables."""
    found = []
    for output in cell["outputs"]:
        assert output["output_type"] in ("display_data", "execute_result"), output
        html = "".join(output["data"].get("text/html", ""))
        found.append((sorted(output["data"]), Words(html).words))
    return found


def executed(cells, folder):
    """Cells in a real kernel: a notebook with their outputs."""
    import nbformat
    from nbclient import NotebookClient

    made = [nbformat.v4.new_code_cell("".join(source)) for source in cells]
    notebook = nbformat.v4.new_notebook(cells=made)
    paths = os.pathsep.join(filter(None, map(str, sys.path)))
    env = {**os.environ, "PYTHONPATH": paths, "JUPYTER_PLATFORM_DIRS": "1"}
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=120, allow_errors=True, resources=resources)
    client.create_kernel_manager()
    client.km.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client.execute(env=env)
    return notebook


def test_the_notebook_is_small_and_stores_its_outputs(stored):
    assert NOTEBOOK.stat().st_size < 200_000
    for cell in code_of(stored)[1:]:
        assert cell["outputs"], "run: jupyter nbconvert --execute --inplace"
        assert shown(cell)
    assert not re.search(r"(?<![\w.])/(home|tmp|work|usr)/", NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_notebook_runs(stored, tmp_path):
    cells = code_of(stored)
    # matplotlib before 3.9 shows nothing in a kernel of today without being asked
    sources = [["%matplotlib inline"], *(cell["source"] for cell in cells)]
    _, *made = code_of(executed(sources, tmp_path))
    for before, now in zip(cells, made, strict=True):
        assert shown(now) == shown(before)


COMPONENT = """
from dataclasses import dataclass
from foltr.core.cohorts import weighted_mean
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator

@aggregator
@dataclass(frozen=True)
class Half(Memoryless):
    def combine(self, cohort):
        return 0.5 * weighted_mean(cohort.updates, cohort.weights)
"""
CELLS = [
    "%load_ext autoreload\n%autoreload 2\nimport foltr\n"
    "SMALL = dict(data='Synthetic(queries=40)', clients=4, rounds=6)\n"
    "def both():\n"
    "    return [foltr.Experiment(aggregator=a, **SMALL) for a in ('Mean()', 'Half()')]",
    COMPONENT,
    "foltr.compare(both(), seeds=(1, 2), quiet=True, jobs=2)",
    f"%%writefile half.py{COMPONENT}",
    "foltr.core.spec.aggregators.forget('__main__')\nfoltr.use('half.py')\nsome = both()\n"
    "first = foltr.compare(some, seeds=(1, 2), quiet=True, jobs=2).runs['ndcg@10']",
    f"%%writefile half.py{COMPONENT.replace('0.5', '0.05')}",
    "some[1].run(out='runs')",
    "foltr.compare(some, seeds=(1, 2), quiet=True, jobs=2)",
    "foltr.use('half.py')\nsome[1].run(out='runs')",
    "second = foltr.compare(both(), seeds=(1, 2), quiet=True, jobs=2).runs['ndcg@10']\n"
    "[a == b for a, b in zip(first, second)]",
]
TOLD = {
    2: "Half is in no file (a notebook's cell, a prompt): no other process can load it",
    6: "half.py has changed since it was loaded: foltr.use('half.py') loads it again",
    7: "half.py has changed since it was loaded: foltr.use('half.py') loads it again",
    8: "this Half is of half.py as it was before it was loaded again: make the experiment again",
}


@pytest.mark.slow
def test_a_component_of_a_cell_says_how_to_keep_it_and_that_works(tmp_path):
    cells = executed(CELLS, tmp_path).cells
    errors = {
        i: output.evalue
        for i, cell in enumerate(cells)
        for output in cell.outputs
        if output.output_type == "error"
    }
    assert errors.keys() == TOLD.keys(), errors
    for i, said in TOLD.items():
        assert errors[i].startswith(said)
    (same,) = (output.data["text/plain"] for output in cells[-1].outputs)
    assert same == "[True, False, True, False]"  # Mean as before, Half by the new code
    assert not (tmp_path / "runs").exists()
