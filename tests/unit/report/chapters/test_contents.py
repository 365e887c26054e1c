"""The chapters are on the page, whichever module is imported first."""

import subprocess
import sys
from pathlib import Path

from foltr.report.chapters import contents

CODE = """
import sys
sys.path.append(sys.argv[1])
from made_runs import made_run, made_runs
from foltr.report.page.content import page_content
from foltr.report.study import study
rules, attacks = ("Mean()", "Median()"), ("DataPoisoning()", "LittleIsEnough()")
runs = [made_run(0.5, aggregator=rule) for rule in rules]
runs += [made_run(0.4, aggregator=r, attack=a, malicious=1) for r in rules for a in attacks]
runs += [made_run(0.3, aggregator="Mean()", partition="ByLabel(iid=False)")]
runs += [made_run(0.4, aggregator="Mean()", unlearning="Retrain(luck=0)", leaving=[[3]])]
blocks = page_content(study(made_runs(runs)))["blocks"]
print(sorted({block.get("chapter", "") for block in blocks}))
"""


def test_the_page_has_every_chapter():
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['Attacks and defences', 'IID against non-IID', 'Unlearning']"


def test_every_module_of_chapters_contributes():
    """A module that defines a chapter, or blocks without one, is among the contents."""
    folder = Path(contents.__file__).parent
    modules = {each.__module__.rpartition(".")[2] for each in contents.CONTRIBUTIONS}
    for file in folder.glob("*.py"):
        if "Runs) -> " in file.read_text() and "Block" in file.read_text():
            assert file.stem in {*modules, "contents"}
