"""The chapters are on the page, whichever module is imported first."""

import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import made_run, made_runs

from foltr.core.errors import Mistake
from foltr.experiment.user_files import use
from foltr.report.chapters import registry
from foltr.report.chapters.registry import blocks, chapters
from foltr.report.page.html_sections import block_html

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
print(sorted({block.chapter for block in blocks}))
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
    """A module that defines a chapter, or blocks without one, is among the chapters."""
    folder = Path(registry.__file__).parent
    modules = {each.function.__module__.rpartition(".")[2] for each in chapters()}
    for file in folder.glob("*.py"):
        if "Runs) -> " in file.read_text() and "Block" in file.read_text():
            assert file.stem in {*modules, "registry"}
    assert [each.name for each in chapters() if each.is_ours] == [
        "chosen_settings",
        "recorded_notes",
        "runs_left_out",
        "privacy_guarantees",
        "privacy_remarks",
        "unlearning",
        "attacks_and_defences",
        "iid_against_skewed",
    ]


HEAD = """from foltr.report.chapters.registry import Block, Cell
from foltr.report.chapters.registry import chapter

"""


@pytest.fixture
def told(tmp_path):
    """What the chapter of a user's file adds to the page."""

    def load(code):
        file = tmp_path / "mine.py"
        file.write_text(HEAD + code)
        use(file)
        found = blocks(made_runs([made_run(), made_run(seed=2)]))
        return [block for block in found if block.chapter == "Mine"]

    return load


def test_a_chapter_is_one_file_of_the_user(told):
    block = 'return Block("Runs", f"{len(runs)} <b>", (("a",), ("b",)), "Mine")'
    [found] = told(f"@chapter\ndef mine(runs):\n    {block}\n")
    assert found.text == "2 <b>" and found.rows == (("a",), ("b",))
    assert block_html(found).count("2 &lt;b&gt;") == 1
    assert chapters()[-1].name == "mine" and not chapters()[-1].is_ours
    told(f"@chapter(place=1)\ndef mine(runs):\n    {block}\n")  # the file has changed
    assert chapters()[0].name == "mine" and len(chapters()) == 9


def test_a_chapter_that_is_gone_from_its_file_is_gone_from_the_page(told):
    ours = [each.name for each in chapters()]
    told("@chapter\ndef mine(runs): pass\n@chapter\ndef other(runs): pass\n")
    assert [each.name for each in chapters()] == [*ours, "mine", "other"]
    told("@chapter\ndef mine(runs): pass\n")
    assert [each.name for each in chapters()] == [*ours, "mine"]


def test_ours_are_all_there_whoever_imported_some_of_them_before():
    """What the first import of a module registered was lost with the registry: the page then had
    six of its chapters."""
    code = (
        "import foltr.report.chapters.attacks\n"
        "from foltr.report.chapters import registry\n"
        "first = [each.name for each in registry.chapters()]\n"
        "registry._of_users.clear()\n"
        "assert first == [each.name for each in registry.chapters()] and len(first) == 8, first"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("return 1 / 0", r"the chapter mine failed \(mine.py, line 6\): ZeroDivisionError"),
        ("return 'text'", "must return a Block, a list of them or None, got 'text'"),
        ("return [Block('a', 'b'), 1]", "must return a Block"),
        ("return Block('a', 7)", "the text of a Block is text"),
        ("return Block('a', 'b', 'rows')", "the rows of a Block are a tuple of rows"),
        ("return Block('a', 'b', (('x',), (0.5,)))", "a cell is text, got 0.5: write f"),
        ("return Block('a', 'b', (('x',), (Cell(0.5),)))", "a cell is text"),
        ("return Block('a', 'b', (('x',), ('1', '2')))", "as many cells as the first"),
        ("return Block('a', 'b', ((Cell('x'),), ('1',)))", "the first row names the columns"),
        ("return Block('a', 'b', (('x',), (Cell('1', mark='!'),)))", "a mark is one of ▲ ▼ △ ▽"),
        ("return Block('a', 'b', (('x',), (Cell('1', shade='2 id=x'),)))", "a shade is 0 .. 4"),
    ],
)
def test_a_chapter_that_is_wrong_is_named(told, code, message):
    with pytest.raises(Mistake, match=message):
        told(f"@chapter\ndef mine(runs):\n    {code}\n")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("@chapter\ndef mine():\n    pass\n", r"mine: .*: write def my_chapter\(runs\):"),
        ("@chapter\nclass Mine:\n    pass\n", "is no function: @chapter is for a function"),
        ("@chapter(place='first')\ndef mine(runs):\n    pass\n", "the place is a number, got"),
    ],
)
def test_only_a_function_of_the_runs_is_a_chapter(told, code, message):
    with pytest.raises(Mistake, match=message):
        told(code)
