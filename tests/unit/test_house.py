"""The rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from foltr import spec

SOURCE = Path(__file__).resolve().parents[2] / "src" / "foltr"
FILES = sorted(SOURCE.rglob("*.py"))
FAMILIES = {registry.folder for registry in spec.FAMILIES}

# The floor plan: a module may import what stands in its own line (without a cycle) or above it.
# Imports inside functions and for types count as well.
LAYERS = (
    {"errors", "seeds", "system"},
    {
        "core",
        "spec",
        "events",
        "world",
        "metrics",
        "ranking",
        "cohorts",
        "noise",
        "guards",
        "web",
        "kernels",
    },
    {"kinds", "data", "privacy", "secure_sum"},
    {"components"},
    {"federation", "simulation", "engines"},
    {"compatibility", "experiment"},
    {"runs"},
    {"sweeps", "audits"},
    {"results", "report"},
    {"comparison"},
    {"cli"},
    {"__main__"},
)
# An experiment runs itself: the one import upwards (the registry also finds components by name).
SANCTIONED = {("experiment", "runs")}


def name_of(file: Path, source: Path = SOURCE) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "foltr"


def imports_of(file: Path, modules: set[str]) -> Iterator[tuple[str, bool]]:
    """Every module of foltr that a file imports, anywhere in it, and whether inside a function."""

    def walk(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("foltr"):
                home = child.module.removeprefix("foltr").lstrip(".")
                for alias in child.names:
                    below = f"{home}.{alias.name}".lstrip(".")
                    yield below if below in modules else home or "foltr", inside
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.partition(".")[0] == "foltr":
                        yield alias.name.removeprefix("foltr").lstrip(".") or "foltr", inside
            yield from walk(child, inside)

    yield from walk(ast.parse(file.read_text()), False)


def graph(source: Path = SOURCE) -> dict[str, set[str]]:
    files = {name_of(file, source): file for file in source.rglob("*.py")}
    return {
        name: {other for other, _ in imports_of(file, set(files))} - {name}
        for name, file in files.items()
    }


def layer(module: str) -> int:
    top = module.partition(".")[0]
    (found,) = [i for i, names in enumerate(LAYERS) if top in names]
    return found


def upward(found: dict[str, set[str]]) -> list[str]:
    """Imports that go up."""
    return [
        f"{module} imports {other}"
        for module, others in found.items()
        for other in others - {"foltr"}
        if module != "foltr"
        and layer(other) > layer(module)
        and (module.partition(".")[0], other.partition(".")[0]) not in SANCTIONED
    ]


def cycle(found: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, without those that are sanctioned."""
    plain = {
        module: {
            other
            for other in others - {"foltr"}
            if (module.partition(".")[0], other.partition(".")[0]) not in SANCTIONED
        }
        for module, others in found.items()
        if module != "foltr"
    }
    try:
        TopologicalSorter(plain).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_has_a_place_in_the_floor_plan():
    flat = {file.stem for file in SOURCE.glob("*.py")}
    folders = {file.name for file in SOURCE.iterdir() if (file / "__init__.py").is_file()}
    assert (flat - {"__init__"}) | folders == set.union(*LAYERS)
    assert len(flat) <= 20


def test_imports_go_downwards_and_in_no_circle():
    assert upward(graph()) == []
    assert cycle(graph()) == []


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("seeds.py", "from foltr.core import Array", "seeds imports core"),
        ("kinds.py", "def late():\n    from foltr.runs import run", "kinds imports runs.run"),
        (
            "metrics.py",
            "if TYPE_CHECKING:\n    from foltr.experiment import Experiment",
            "metrics imports experiment",
        ),
    ],
)
def test_a_planted_import_upwards_is_found(tmp_path, file, line, told):
    copy = planted(tmp_path, file, line)
    assert told in upward(graph(copy))


def test_a_planted_circle_is_found(tmp_path):
    assert cycle(graph(planted(tmp_path, "ranking.py", "import foltr.metrics")))


def planted(tmp_path: Path, file: str, line: str) -> Path:
    copy = tmp_path / "foltr"
    for each in FILES:
        there = copy / each.relative_to(SOURCE)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(each.read_text())
    (copy / file).write_text(f"{(copy / file).read_text()}\n\n{line}\n")
    return copy


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_never_import_each_other(family):
    for module, others in graph().items():
        if module.startswith(f"components.{family}."):
            assert not {
                other
                for other in others
                if other.startswith("components.") and other.split(".")[1] != family
            }, module


def test_kernels_are_loaded_when_they_are_needed():
    """Outside `kernels` and `engines`, a module imports a kernel inside a function or not at
    all."""
    modules = {name_of(file) for file in FILES}
    for file in FILES:
        if file.relative_to(SOURCE).parts[0] not in ("kernels", "engines"):
            eager = {name for name, lazy in imports_of(file, modules) if not lazy}
            assert not {name for name in eager if name.partition(".")[0] == "kernels"}, file


def test_compiled_code_depends_only_on_what_its_cache_is_named_by():
    from foltr.kernels import CONSTANTS

    known = {"kernels", *(name.removesuffix(".py") for name in CONSTANTS)}
    for module, others in graph().items():
        if module.startswith("kernels."):  # the package itself compiles nothing
            assert {other.partition(".")[0] for other in others} <= known, module


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_nothing_banned(file):
    text = file.read_text()
    if file.name != "_published_draws.py":  # which repeats NumPy's own
        assert not re.search(r"\bnp\.random\.|^\s*import random\b", text, re.MULTILINE)
    assert not re.search(r"\bhasattr\(", text)
    clockless = {"components", "kernels", "engines", "federation.py", "world", "simulation"}
    if file.relative_to(SOURCE).parts[0] in clockless:
        assert not re.search(r"\bimport (time|datetime)\b", text)  # results know no clock
    assert len(text.splitlines()) <= 400
    if file.relative_to(SOURCE).parts[0] != "cli":
        assert not re.search(r"^\s*(import|from) typer\b", text, re.MULTILINE)


ASKED = ("compatibility.py", "runs", "audits", "report")


def members() -> set[str]:
    return {name for registry in spec.FAMILIES for name in registry.members()}


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.relative_to(SOURCE).parts[0] in ASKED],
    ids=lambda f: str(f.relative_to(SOURCE)),
)
def test_components_are_asked_and_never_recognised(file):
    """No `isinstance(x, PDGD)`, `type(x) is Mean` or `getattr(x, "lr")`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            names = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            assert not names & members(), ast.unparse(node)
        if isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            compared = {ast.unparse(each) for each in node.comparators}
            assert not compared & members(), ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            given = ast.unparse(node.args[0])
            assert not re.search(r"(learner|optimizer|aggregator|privacy|attack)$", given), given


def test_an_engine_is_what_knows_kernels():
    """`import foltr` and every component load neither numba nor scipy."""
    code = (
        "import sys, foltr\nfrom foltr.spec import FAMILIES\n"
        "[family.members() for family in FAMILIES]\nimport foltr.experiment\n"
        "heavy = ('numba', 'scipy', 'sklearn', 'cryptography', 'dp_accounting', 'lightgbm')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_unit_tests_mirror_the_source():
    """Tests of a module are where somebody who changed the module looks for them."""
    unit = Path(__file__).parent
    folders = {file.parent.relative_to(unit) for file in unit.rglob("*.py")}
    assert [str(folder) for folder in folders if not (SOURCE / folder).is_dir()] == []
