"""What the README shows works: its Python, its TOML, its component, its commands."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from unicodedata import normalize

from foltr.core.spec import FAMILIES
from quick_foltr import quick_foltr

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_exactly_two_commands_set_everything_up():
    demo, tests = blocks("sh")
    assert demo.endswith("foltr demo\n") and tests.endswith("pytest -n 2\n")


def test_the_python_snippet_runs_in_a_fresh_interpreter(tmp_path):
    snippet = next(block for block in blocks("python") if "import foltr" in block)
    subprocess.run(
        [sys.executable, "-c", snippet + "\nassert len(best) == 10"], cwd=tmp_path, check=True
    )
    assert (tmp_path / "ranker.json").exists() and (tmp_path / "run.txt").read_text().count(
        "\n"
    ) > 100


def test_the_names_it_mentions_exist():
    names = set(re.findall(r"`foltr\.(\w+)", README)) - {"components"}  # an entry point's name
    code = f"import foltr; print([name for name in {sorted(names)} if not hasattr(foltr, name)])"
    command = [sys.executable, "-c", code]
    missing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert names and missing == "[]\n"


def test_the_component_and_the_file_run(tmp_path):
    (component,) = (block for block in blocks("python") if "@aggregator" in block)
    (tmp_path / "middle_mean.py").write_text(component)
    content, _ = blocks("toml")
    assert tomllib.loads(content)["clients"] == 100
    (tmp_path / "experiment.toml").write_text(content.replace("MSLR", "MQ2008"))
    words = shlex.split(re.search(r"`foltr run (--use middle_mean.py .*?)`", README).group(1))  # type: ignore[union-attr]
    done = subprocess.run(
        [*quick_foltr(), "run", "experiment.toml", *words, "--rounds", "2"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "offline nDCG@10" in done.stdout


def test_the_sweep_and_its_commands_run(tmp_path):
    _, content = blocks("toml")
    small = content.replace("MQ2008()", "Synthetic(queries=30)").replace(
        "rounds = 200", "rounds = 2"
    )
    small = small.replace("data.fold = [1, 2, 3, 4, 5]\n", "").replace("[10, 100, 1000]", "[2, 3]")
    assert small.count("\n") == content.count("\n") - 1
    (tmp_path / "study.toml").write_text(small.replace("seed = [1, 2, 3, 4, 5]", "seed = [1, 2]"))
    sweep, report = re.findall(r"^foltr ((?:sweep|report) .*)$", README, re.MULTILINE)
    for command in (sweep, report):
        words = [*quick_foltr(), *shlex.split(command)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert all((tmp_path / name).exists() for name in ("report.html", "curves.pdf", "table.tex"))


def test_the_citation_file_has_every_paper_that_a_component_refers_to():
    """As far as names, venues with a year, and numbers of preprints tell."""
    cited = unaccented((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    wanted = set()
    for family in FAMILIES:
        for name, cls in family.members().items():
            _, _, told = unaccented(" ".join((cls.__doc__ or "").split())).partition("Reference: ")
            wanted |= {
                (name, f"family-names: {each}")
                for each in re.findall(r"([A-Z]\w+) et al\.|& ([A-Z]\w+)", told)
                for each in filter(None, each)
            }
            wanted |= {
                (name, f"collection-title: {venue}\n")
                for venue in re.findall(r", ((?:USENIX )?[A-Z]\w+ (?:19|20)\d\d)", told)
            }
            wanted |= {(name, f'"{each}"') for each in re.findall(r"arXiv:\d{4}\.\d+", told)}
    assert len(wanted) > 100
    assert not {(name, what) for name, what in wanted if what not in cited}


def unaccented(text):
    return normalize("NFKD", text).encode("ascii", "ignore").decode()
