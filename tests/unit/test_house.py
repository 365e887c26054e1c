"""The rules of the house that a machine can check."""

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import foltr
from foltr.core import spec

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "foltr"
FILES = sorted(SOURCE.rglob("*.py"))
FAMILIES = {registry.folder for registry in spec.FAMILIES}

# The floor plan: a package may import what stands above it, inside functions as well. Imports that
# only a type checker reads may go anywhere.
FLOORS = (
    ("core",),
    ("kernels", "secure_sum"),
    ("data",),
    ("components",),
    ("experiment",),
    ("privacy",),
    ("simulation",),
    ("report", "deployment"),
    ("device",),
    ("cli",),
    ("__main__",),
)
# The same within the two largest packages.
ROOMS = {
    "simulation": (("engines", "evaluation"), ("runs",), ("sweeps", "audits", "exports")),
    "deployment": (
        ("protocol",),
        ("keys",),
        ("flower",),
        ("metrics",),
        ("guarantee", "settings", "monitoring"),
        ("node",),
        ("gateway",),
        ("server",),
        ("local", "planning"),
    ),
}
# Inside functions: an experiment runs itself.
SANCTIONED = {("experiment", "simulation")}
# Who may import by a name that is not written in an import: nothing can check where that goes.
# foltr.PDGD, registries of components and chapters, users' files
BY_NAME = {
    "__init__.py",
    "core/spec.py",
    "report/chapters/registry.py",
    "experiment/user_files.py",
}


# Files that foltr writes, and the page names
WRITTEN = {"result.json", "environment.json", "measures.json", "failed.json"}


def place(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


TEXTS = {place(file): file.read_text() for file in FILES}


def name_of(place: str) -> str:
    parts = place.removesuffix(".py").split("/")
    return ".".join(part for part in parts if part != "__init__") or "foltr"


MODULES = set(map(name_of, TEXTS))


@cache
def members() -> dict[str, str]:
    """Every component of foltr, and its module."""
    found = {n: cls.__module__ for family in spec.FAMILIES for n, cls in family.members().items()}
    return {name: module for name, module in found.items() if module.startswith("foltr.")}


def nodes(node: ast.AST, when: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All below a node, and when it matters: "late" inside a function, "types" for types only."""
    types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in ast.iter_child_nodes(node):
        inside = when
        if types and child in node.body:
            inside = "types"
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = when or "late"
        yield child, inside
        yield from nodes(child, inside)


def home(path: str) -> str:
    """The module of foltr where `foltr.a.b.c` is found; `foltr.PDGD` and other names that the
    package finds on first use included."""
    parts = path.split(".")[1:]
    for n in range(len(parts), 0, -1):
        if (module := ".".join(parts[:n])) in MODULES:
            return module
    late = {**members(), **foltr._HOMES}.get(parts[0], "foltr") if parts else "foltr"
    return late.removeprefix("foltr.")


@cache
def imports_of(place: str, text: str) -> set[tuple[str, str]]:
    """Every module of foltr that a file imports or reaches through the package, anywhere in it,
    and when: "late" inside a function, "types" for types only."""
    package, everything = ["foltr", *place.split("/")[:-1]], list(nodes(ast.parse(text)))
    found, bound = set(), {}
    for node, late in everything:
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            begins = ".".join([*above, *([node.module] if node.module else [])])
            names = {alias.asname or alias.name: f"{begins}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
        else:
            continue
        ours = {name: path for name, path in names.items() if path.split(".")[0] == "foltr"}
        found |= {(home(path), late) for path in ours.values()}
        for name, path in ours.items():  # `import foltr.core.seeds` makes the name foltr
            bound[name.partition(".")[0]] = "foltr" if "." in name else path
    for node, late in everything:
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in bound:
                found.add((home(".".join([bound[first], *rest])), late))
    return found


def edges(texts: dict[str, str] = TEXTS) -> set[tuple[str, str]]:
    """Who imports whom, without what is sanctioned and what only a type checker reads; not of the
    package itself, which finds names on first use."""
    return {
        (module, other)
        for place, text in texts.items()
        for other, when in imports_of(place, text)
        if "foltr" not in (module := name_of(place), other) and module != other
        if when != "types" and not (when and (module, other.partition(".")[0]) in SANCTIONED)
    }


def floor(name: str, floors: tuple[tuple[str, ...], ...]) -> int:
    (number,) = [i for i, names in enumerate(floors) if name in names]
    return number


def goes_up(module: str, other: str) -> bool:
    package, _, rest = module.partition(".")
    other_package, _, other_rest = other.partition(".")
    if package != other_package:
        return floor(other_package, FLOORS) >= floor(package, FLOORS)
    room, other_room = rest.partition(".")[0], other_rest.partition(".")[0]
    if package not in ROOMS or not room or not other_room or room == other_room:
        return False
    return floor(other_room, ROOMS[package]) > floor(room, ROOMS[package])


def upward(texts: dict[str, str] = TEXTS) -> list[str]:
    """Imports that go up."""
    return [f"{one} imports {other}" for one, other in sorted(edges(texts)) if goes_up(one, other)]


def cycle(texts: dict[str, str] = TEXTS) -> list[str]:
    """A cycle of imports."""
    sorter = TopologicalSorter()
    for module, other in edges(texts):
        sorter.add(module, other)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def by_name(text: str) -> set[str]:
    """What can import by a name that is not written in an import."""
    ways = {"import_module", "__import__", "module_from_spec", "exec_module", "resolve_name"}
    ways |= {"importlib", "runpy", "builtins", "exec", "eval"}
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
    used |= {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return used & (ways | {"sys.modules"})


def test_every_package_has_a_floor():
    entries = {file.stem for file in SOURCE.glob("*.py")}
    entries |= {file.name for file in SOURCE.iterdir() if (file / "__init__.py").is_file()}
    assert entries - {"__init__"} == set().union(*FLOORS)
    assert len(entries - {"__init__", "__main__"}) <= 12


def test_the_picture_of_the_floor_plan_is_what_the_imports_draw():
    place = ROOT / "docs" / "floor_plan.py"
    script = runpy.run_path(str(place))
    assert (ROOT / "docs" / "floor-plan.svg").read_text(encoding="utf-8") == script["picture"]()


def test_the_design_page_names_files_that_exist():
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    for path in re.findall(r"`([\w./-]+\.(?:py|json|svg|toml)|[\w/]+/)`", page):
        places = (SOURCE / path, ROOT / path, ROOT / "tests" / path, ROOT / "tests/unit" / path)
        known = any(place.exists() for place in places)
        assert known or path in WRITTEN, f"docs/design.md names {path}, which does not exist"


def test_pages_and_docstrings_name_modules_that_exist():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    known = [f"/src/foltr/{name}" for name in TEXTS]
    for folder in ("tests", "docs", "benchmarks", "reproduce", "examples"):
        known += [f"/{file.relative_to(ROOT)}" for file in (ROOT / folder).rglob("*.py")]
    for file in [*pages, *FILES]:
        for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", file.read_text(encoding="utf-8")):
            made = file.name == "exporting.md" and name == "ranker.py"  # by `foltr export`
            assert made or any(each.endswith(f"/{name}") for each in known), (file, name)


def test_imports_go_downwards_and_in_no_circle():
    assert upward() == []
    assert cycle() == []


@pytest.mark.parametrize("place", sorted(set(TEXTS) - BY_NAME))
def test_imports_are_written_as_imports(place):
    assert not by_name(TEXTS[place])


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        (
            "core/kinds.py",
            "def late():\n    from foltr.simulation.runs import run",
            "core.kinds imports simulation.runs.run",
        ),
        ("core/metrics.py", "from ..experiment import E", "core.metrics imports experiment"),
        ("core/metrics.py", "from .. import experiment", "core.metrics imports experiment"),
        (
            "core/world/history.py",
            "from ...privacy import guarantee",
            "core.world.history imports privacy.guarantee",
        ),
        ("core/__init__.py", "from foltr.data import cache as c", "core imports data.cache"),
        ("core/metrics.py", "import foltr\nfoltr.experiment.E", "core.metrics imports experiment"),
        ("core/metrics.py", "import foltr as f\nf.experiment", "core.metrics imports experiment"),
        (
            "core/metrics.py",
            "import foltr.core.seeds\nfoltr.simulation.runs.run.Run",
            "core.metrics imports simulation.runs.run",
        ),
        (
            "core/metrics.py",
            "import foltr\nfoltr.load_runs()",
            "core.metrics imports report.results",
        ),
        ("core/metrics.py", "from foltr import Experiment", "core.metrics imports experiment"),
        ("core/kinds.py", "from foltr import PDGD", "core.kinds imports components.learners.pdgd"),
        (
            "core/kinds.py",
            "from foltr import components as c\nc.users",
            "core.kinds imports components.users",
        ),
        # packages of one floor do not know each other
        (
            "kernels/draws.py",
            "import foltr.secure_sum.keys",
            "kernels.draws imports secure_sum.keys",
        ),
        # rooms of one package
        (
            "simulation/engines/local.py",
            "from foltr.simulation.runs import run",
            "simulation.engines.local imports simulation.runs.run",
        ),
        # what is sanctioned is so inside functions and for types
        (
            "experiment/__init__.py",
            "from foltr.simulation.runs.run import Run",
            "experiment imports simulation.runs.run",
        ),
        (
            "experiment/__init__.py",
            "class A:\n    import foltr.simulation.runs.run",
            "experiment imports simulation.runs.run",
        ),
        (
            "experiment/__init__.py",
            "if not TYPE_CHECKING:\n    import foltr.simulation.runs.run",
            "experiment imports simulation.runs.run",
        ),
    ],
)
def test_a_planted_import_upwards_is_found(file, line, told):
    assert told in upward(planted(file, line))


@pytest.mark.parametrize(
    "line",
    [
        "from importlib import import_module as load",
        "import importlib\nimportlib.import_module('foltr.experiment')",
        "import importlib as i",
        "__import__('foltr.experiment')",
        "import sys\nsys.modules['foltr.experiment']",
        "from importlib.util import module_from_spec",
        "exec('import foltr.experiment')",
    ],
)
def test_a_planted_import_by_name_is_found(line):
    assert by_name(line)


def test_a_planted_circle_is_found():
    assert cycle(planted("core/ranking.py", "import foltr.core.metrics"))


def planted(file: str, line: str) -> dict[str, str]:
    return {**TEXTS, file: f"{TEXTS.get(file, '')}\n\n{line}\n"}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_never_import_each_other(family):
    for module, other in edges():
        if module.startswith(f"components.{family}.") and other.startswith("components."):
            assert other.split(".")[1] == family, module


def test_kernels_are_loaded_when_they_are_needed():
    """Outside `kernels` and `engines`, a module imports a kernel inside a function or not at
    all."""
    for place, text in TEXTS.items():
        if not place.startswith(("kernels/", "simulation/engines/")):
            eager = {name for name, late in imports_of(place, text) if not late}
            assert not {name for name in eager if name.partition(".")[0] == "kernels"}, place


def test_compiled_code_depends_only_on_what_its_cache_is_named_by():
    from foltr.kernels import CONSTANTS

    known = {name_of(constants) for constants in CONSTANTS}
    for module, other in edges():
        if module.startswith("kernels."):  # the package itself compiles nothing
            assert other in known or other.partition(".")[0] == "kernels", (module, other)


def banned(file):
    """What a module does that none should."""
    text, family = file.read_text(), file.relative_to(SOURCE).parts[0]
    clockless = {"components", "kernels", "experiment", "privacy"}
    clockless_files = (
        "core/federation.py",
        "core/world/",
        "simulation/engines/",
        "simulation/evaluation.py",
    )
    is_clockless = family in clockless or place(file).startswith(clockless_files)

    def has(pattern):
        return re.search(pattern, text, re.MULTILINE)

    # _published_draws repeats NumPy's own
    if file.name != "_published_draws.py" and has(r"\bnp\.random\.|^\s*import random\b"):
        yield "random numbers without an address"
    if has(r"\bhasattr\("):
        yield "hasattr"
    if is_clockless and has(r"\bimport (time|datetime)\b"):
        yield "a clock: results know none"
    if len(text.splitlines()) > 600:
        yield "more than 600 lines"
    if family != "cli" and has(r"^\s*(import|from) typer\b"):
        yield "typer outside of cli"
    if has(r"^\s*(import|from) click\b"):
        yield "click, which a newer typer does not bring"


def test_nothing_banned():
    assert len(FILES) > 300
    assert [(place(file), what) for file in FILES for what in banned(file)] == []


def test_an_engine_is_what_knows_kernels():
    """`import foltr` and every component load neither numba nor scipy."""
    code = (
        "import sys, foltr\nfrom foltr.core.spec import FAMILIES\n"
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


def test_files_that_are_imported_by_their_bare_names_have_different_names():
    """Tests, benchmarks and studies find their helpers on one path: of two files with one name,
    all would get the one that was imported first."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    files += (ROOT / "reproduce").glob("*.py")
    names = [file.name for file in files if file.name not in ("conftest.py", "__init__.py")]
    assert sorted(names) == sorted(set(names))
