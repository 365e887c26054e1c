"""What an editor and a type checker know of foltr: the types of `foltr.PDGD` and all other names
that are imported when they are first used."""

import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import foltr
from foltr.core import spec

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "foltr"
CHECKED = """
import foltr

e = foltr.Experiment(data="Synthetic()", learner=foltr.PDGD(lr=0.1, sessions=5), attack=None)
reveal_type(e)
reveal_type(foltr.MQ2008(fold=1).load("train"))
reveal_type(e.run(threads=2).trained)
reveal_type(foltr.load_runs("runs"))
reveal_type(foltr.compare([e, e]))
foltr.PDGD(sessions="many")
foltr.Experiment(learner=foltr.Mean())
foltr.Krumm
"""
REPORTED = [
    'Revealed type is "foltr.experiment.Experiment"',
    'Revealed type is "foltr.core.world.dataset.Dataset"',
    'Revealed type is "foltr.simulation.runs.trained.TrainedRanker"',
    'Revealed type is "foltr.report.results.Runs"',
    'Revealed type is "foltr.report.comparison.Comparison"',
    'Argument "sessions" to "PDGD" has incompatible type "str"; expected "int"',
    'Argument "learner" to "Experiment" has incompatible type "Mean"; expected "Learner | str"',
    'Module has no attribute "Krumm"; maybe "Krum"?',
]


def test_the_stub_is_what_the_registries_hold():
    made = runpy.run_path(str(ROOT / "docs" / "stub.py"))["stub"]()
    written = (SOURCE / "__init__.pyi").read_text(encoding="utf-8")
    assert written == made, "run: python docs/stub.py"


def test_the_stub_holds_every_public_name_and_nothing_else():
    written = (SOURCE / "__init__.pyi").read_text(encoding="utf-8")
    names = {name for _, name in re.findall(r"^from (\S+) import (\w+) as \2$", written, re.M)}
    own = {
        name
        for family in spec.FAMILIES
        for name, cls in family.members().items()
        if cls.__module__.startswith("foltr.")
    }
    modules = {file.stem for file in SOURCE.glob("*.py") if not file.stem.startswith("_")}
    assert names == own | modules | set(foltr._HOMES)
    assert all(getattr(foltr, name) is not None for name in names)
    assert (SOURCE / "py.typed").is_file()


def test_an_experiment_takes_the_spec_of_every_part_that_it_has():
    """Fields whose type is a family are written as `Part[...]`, which takes text, too."""
    protocols = {family.protocol for family in spec.FAMILIES}
    hints = spec.hints_of(foltr.Experiment)
    parts = {name for name, hint in hints.items() if protocols & {hint, *get_args(hint)}}
    written = {field.name: field.type for field in fields(foltr.Experiment)}
    assert parts == {name for name, text in written.items() if re.fullmatch(r"Part\[.*\]", text)}
    assert len(parts) == len(spec.FAMILIES) - 1  # no measure


@pytest.mark.slow
def test_mypy_knows_them(tmp_path):
    (tmp_path / "mine.py").write_text(CHECKED)
    readme = re.findall(
        r"```python\n(import foltr\n.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    (tmp_path / "readme.py").write_text(readme[0])
    command = [
        "-m",
        "mypy",
        "--cache-dir",
        "cache",
        "--check-untyped-defs",
        "mine.py",
        "readme.py",
    ]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if ".py:" in line]
    assert len(lines) == len(REPORTED), done.stdout + done.stderr
    for line, said in zip(lines, REPORTED, strict=True):
        assert line.startswith("mine.py:") and said in line


def test_to_import_foltr_loads_none_of_what_the_stub_names():
    code = "import sys, foltr; print(sorted(m for m in sys.modules if m.startswith('foltr.')))"
    heavy = "; print([m for m in ('numpy', 'numba', 'scipy', 'importlib.metadata') if m in"
    code = f"{code}{heavy} sys.modules])"
    # without the site's own start-up files, which may import what they like
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["[]", "[]"]


def test_the_version_stands_in_one_place_and_its_copies_agree():
    """The package's metadata are made of it; what is cited and what is told must follow."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day = re.findall(r"^## ([\d.]+) - (\d{4}-\d\d-\d\d)$", changes, re.M)[0]
    assert version == foltr.__version__
    assert f"\nversion: {version}\n" in cited and f'\ndate-released: "{day}"\n' in cited
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
