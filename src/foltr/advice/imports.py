"""What to write instead of an import, a name or a member of an earlier foltr, found in the text of
a user's file. Everything is found by reading: no code is run."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from foltr.advice.moved import FAMILIES, MODULES, NAMES
from foltr.advice.other_names import CHANGED, MEMBERS, RENAMED, renamed
from foltr.errors import did_you_mean, near

ROOT = Path(__file__).resolve().parents[1]  # of foltr's own files


def advice(source: bytes | str) -> str:
    """The tail of an error about a user's file: every line of it that is of an earlier foltr, or
    takes from foltr what is not there, with the line to write."""
    try:
        lines = sorted({*outdated_lines(ast.parse(source))})
    except (SyntaxError, ValueError):
        return ""
    if len(lines) == 1:
        return f". Line {lines[0][0]}: {lines[0][1]}"
    return "".join(["."[: len(lines)], *(f"\n  line {at}: {text}" for at, text in lines)])


def advice_on(error: BaseException) -> str:
    """The same, where only the error is known: the file is the last one that Python was in."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    files = [file for file in files if not file.startswith("<")]
    try:
        return advice(Path(files[-1]).read_bytes()) if files else ""
    except OSError:
        return ""


def outdated_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "foltr":
                found = [_moved_package(alias) for alias in node.names]
            elif node.module.startswith("foltr."):
                found = [_from(node.module, node.names)]
            else:
                continue
        elif isinstance(node, ast.Import):
            found = [_imported(alias) for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found = [_reached(node)]
        elif isinstance(node, ast.ClassDef):
            yield from _of_class(node)
            continue
        else:
            continue
        yield from ((node.lineno, text) for text in found if text)


def _from(module: str, aliases: list[ast.alias]) -> str:
    """What to write for `from module import ...`; empty if every name is still there."""
    have = names_of(module)
    if have is not None and all(alias.name in have or alias.name == "*" for alias in aliases):
        return ""
    homes: dict[str, list[str]] = {}
    notes = []
    for alias in aliases:
        home = (module, alias.name)
        if have is None or alias.name not in have:
            found = home_of(module, alias.name)
            if found is None:
                notes.append(_unknown(module, alias.name))
                continue
            home = found
            if home[1] != alias.name and not alias.asname:
                notes.append(f"{alias.name} is called {home[1]} now")
        text = f"{home[1]} as {alias.asname}" if alias.asname else home[1]
        homes.setdefault(home[0], []).append(text)
    lines = [f"from {home} import {', '.join(names)}" for home, names in homes.items()]
    old = f"from {module} import {', '.join(alias.name for alias in aliases)}"
    instead = [f"write `{'`, `'.join(lines)}` instead of `{old}`"] if lines else []
    return "; ".join([*instead, *notes])


def _unknown(module: str, name: str) -> str:
    """A name that is nowhere: it is misspelt, or gone."""
    have = names_of(module)
    if have is not None and (close := near(name, have)):
        return f"{module} has no {name}: did you mean {close!r}?"
    now = module_now(module)
    if now is not None and now != module:
        held = f"what {module} held is in {now} now"
        return f"foltr has no such name any more as {name}: {held}"
    if have is not None:
        return f"{module} has no {name}"
    return f"foltr has no module {module}: {did_you_mean(module, modules())}"


def _moved_package(alias: ast.alias) -> str:
    """`from foltr import policies`."""
    old = f"foltr.{alias.name}"
    now = module_now(old)
    if names_of(old) is not None or now is None:
        return ""
    package, _, name = now.rpartition(".")
    return f"write `from {package} import {name} as {alias.asname or alias.name}`"


def _imported(alias: ast.alias) -> str:
    """`import foltr.policies`."""
    if not alias.name.startswith("foltr.") or names_of(alias.name) is not None:
        return ""
    now = module_now(alias.name)
    if now is None:
        return f"foltr has no module {alias.name}: {did_you_mean(alias.name, modules())}"
    if alias.asname:
        return f"write `import {now} as {alias.asname}`"
    return f"write `import {now}`, and {now} for {alias.name} below"


def _reached(node: ast.Attribute) -> str:
    """`foltr.policies` after `import foltr`; a member whose name is of an earlier foltr."""
    whole = ast.unparse(node)
    if isinstance(node.value, ast.Name) and node.value.id == "foltr":
        now = module_now(whole)
        if now is not None and names_of(whole) is None:
            return f"write {now} for {whole}"
    known = MEMBERS.get(node.attr)
    if known is not None and known.sure and isinstance(node.ctx, ast.Load):
        return f"{node.attr} is now {known.now}"
    return ""


def _of_class(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Members of before that a component defines."""
    for mark in node.decorator_list:
        family = ast.unparse(mark).rpartition(".")[2].replace("_", " ")
        names = RENAMED.get(family, {})
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                if part.name in names:
                    yield part.lineno, renamed(part.name, names[part.name], False)
                change = CHANGED.get((family, part.name))
                given = [each.arg for each in part.args.args]
                if change is not None and change.is_old(given):
                    yield part.lineno, change.told(part.name)
            elif isinstance(part, ast.Assign | ast.AnnAssign):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                for target in targets:
                    if isinstance(target, ast.Name) and target.id in names:
                        is_field = isinstance(part, ast.AnnAssign)
                        yield part.lineno, renamed(target.id, names[target.id], is_field)


def module_now(module: str) -> str | None:
    """The module that has most of what a module of before had; itself if it did not move; None
    if there never was one."""
    short = module.removeprefix("foltr.")
    if short in MODULES:
        return f"foltr.{MODULES[short]}"
    if short.partition(".")[0] in FAMILIES:
        below = f"foltr.components.{short}"
        return below if names_of(below) is not None else None
    return module if names_of(module) is not None else None


def home_of(module: str, name: str) -> tuple[str, str] | None:
    """The module that defines now what a module of before had under that name, and its name
    there."""
    known = NAMES.get(f"{module}.{name}".removeprefix("foltr."))
    if known is not None:
        home, _, called = known.rpartition(".")
        return f"foltr.{home}", called
    now = module_now(module)
    if now is not None and name in (names_of(now) or ()):
        return now, name
    # a name that the module had from another one: only if nothing else is called so
    homes = [home for home in modules() if name in _defined(home)]
    return (homes[0], name) if len(homes) == 1 else None


@lru_cache(None)
def modules() -> tuple[str, ...]:
    """The modules of foltr, without kernels and private ones."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        private = file.stem.startswith("_") and file.stem != "__init__"
        if "kernels" not in parts and not private:
            found.append(name)
    return tuple(found)


def _file(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split(".")[1:])
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if module != "foltr" and file.is_file():
            return file
    return None


@lru_cache(None)
def _defined(module: str) -> frozenset[str]:
    file = _file(module)
    return frozenset() if file is None else frozenset(_names(ast.parse(file.read_bytes()), False))


@lru_cache(None)
def names_of(module: str) -> frozenset[str] | None:
    """What `from module import` finds in a module of foltr; None if there is no such module."""
    file = _file(module)
    if file is None:
        return None
    found = set(_names(ast.parse(file.read_bytes()), True))
    if file.name == "__init__.py":
        found |= {each.stem for each in file.parent.iterdir()} - {"__init__", "__pycache__"}
    return frozenset(found)


def _names(tree: ast.Module, imported: bool) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom) and imported:
            yield from (alias.asname or alias.name for alias in node.names)
