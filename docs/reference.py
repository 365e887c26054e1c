"""Makes the reference pages from the code when the site is built, so that they cannot rot (a hook
of mkdocs)."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from importlib import import_module
from io import StringIO
from itertools import groupby, pairwise
from types import ModuleType, UnionType
from typing import Any, get_args

import typer

import foltr
from foltr.cli.app import app
from foltr.cli.components import around_fields, described
from foltr.core import kinds, spec
from foltr.core import types as core
from foltr.core.advice import verbs
from foltr.core.spec import FAMILIES
from foltr.core.world import measures, protocols
from foltr.experiment import Experiment

# What the public functions give, and what is asked for in experiments and components
GIVEN = (
    "foltr.report.comparison.Comparison",
    "foltr.report.results.Runs",
    "foltr.report.results.Recorded",
    "foltr.core.system.tables.Tidy",
    "foltr.simulation.runs.result.Progress",
    "foltr.core.world.dataset.Dataset",
    "foltr.core.scoring.PerQuery",
    "foltr.core.scoring.PerFeature",
    "foltr.core.scoring.Layer",
    "foltr.core.scoring.Layered",
)
PAGES = {"source": "dataset", "click_model": "user"}  # of docs/howto, where the name differs


def on_page_markdown(markdown: str, **_: Any) -> str:
    for mark, make in {
        "<!-- every command -->": commands,
        "<!-- every component -->": components,
        "<!-- the public names -->": public,
        "<!-- what they give -->": given,
        "<!-- every family -->": families,
        "<!-- short names -->": aliases,
        "<!-- the words of a round -->": lambda: classes(core),
        "<!-- the words of a simulation -->": lambda: classes(protocols),
        "<!-- every kind -->": lambda: classes(kinds),
        "<!-- every kind of measure -->": lambda: classes(measures),
    }.items():
        if mark in markdown:
            markdown = markdown.replace(mark, "\n".join(make()))
    return markdown


def commands() -> Iterator[str]:
    """Every command with its help, arguments and options."""
    for name, command in named(typer.main.get_command(app), "foltr"):
        params = command.get_params(typer.Context(command))
        arguments = [param for param in params if param.param_type_name == "argument"]
        options = [param for param in params if param.param_type_name == "option"][:-1]  # --help
        usage = [name, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])]
        yield f"\n## {name}\n\n{inspect.cleandoc(command.help or '')}\n\n"
        yield f"```text\n{' '.join(usage)}\n```\n"
        yield from _table("argument", ((_argument(param), _meaning(param)) for param in arguments))
        yield from _table("option", ((_option(param), _meaning(param)) for param in options))


def named(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands below a command, each with all words of its name."""
    inner = getattr(command, "commands", None)  # of a group
    if inner is None:
        yield name, command
    for word, part in (inner or {}).items():
        yield from named(part, f"{name} {word}")


def _argument(param: Any) -> str:
    shown = (param.metavar or param.name).upper().strip("[]")
    return shown if param.required else f"[{shown}]"


def _option(param: Any) -> str:
    names = [*param.opts, *param.secondary_opts]
    return ", ".join(names) + (f" {param.metavar}" if param.metavar else "")


def _meaning(param: Any) -> str:
    said, default = " ".join((param.help or "").split()), param.default
    known = (
        param.required
        or default is None
        or default == []
        or isinstance(default, bool)
        or "Default:" in said
    )
    return said if known else f"{said} Default: {default}"


def _table(kind: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    told = [f"| `{name}` | {_escaped(text)} |" for name, text in rows]
    if told:
        yield "\n".join([f"| {kind} | |", "|---|---|", *told, ""])


def _escaped(text: str) -> str:
    """Plain text as Markdown that shows it so; what stands between backticks is left alone."""
    parts = " ".join(text.split()).split("`")
    return "`".join(
        part if i % 2 else re.sub(r"([\\|*_])", r"\\\1", part).replace("<", "&lt;")
        for i, part in enumerate(parts)
    )


def components() -> Iterator[str]:
    """Every component of every family: what it computes, its fields, where it was published."""
    for family in FAMILIES:
        yield f"\n## {family.folder}\n"
        for name, cls in family.members().items():
            yield f"\n### {name}\n"
            before, after = around_fields(cls)
            yield from _paragraphs(before)
            yield from _table("field", described(cls))
            yield from _paragraphs(after)


def _paragraphs(text: str) -> Iterator[str]:
    """A docstring as Markdown: prose, and indented lines as text blocks."""
    for part in filter(None, text.split("\n\n")):
        lines = part.splitlines()
        for indented, group in groupby(lines, key=lambda line: line.startswith("    ")):
            block = "\n".join(group)
            yield f"```text\n{block}\n```\n" if indented else f"{_escaped(block)}\n"


def public() -> Iterator[str]:
    """What `import foltr` has, but for components: classes first."""
    things = {name: getattr(foltr, name) for name in foltr._HOMES}
    for name, thing in sorted(things.items(), key=lambda each: not isinstance(each[1], type)):
        made = _class if isinstance(thing, type) else _function
        yield from made(thing, f"foltr.{name}")


def given() -> Iterator[str]:
    for path in GIVEN:
        module, _, name = path.rpartition(".")
        yield from _class(getattr(import_module(module), name), path)


def families() -> Iterator[str]:
    """Where a component of each family goes."""
    yield "| family | register by | what it has | part of an experiment | how to |"
    yield "|---|---|---|---|---|"
    decorators = {getattr(spec, name).__self__: name for name in _decorators()}
    parts = {
        its: name for name, hint in spec.hints_of(Experiment).items() for its in _either(hint)
    }
    for family in FAMILIES:
        name, its = decorators[family], family.protocol
        protocol, page = f"[`{its.__name__}`](#{its.__name__.lower()})", PAGES.get(name, name)
        where = f"`foltr.core.spec.{name}` | {protocol} | `{parts.get(its, family.folder)}`"
        yield f"| {family.family} | {where} | [add one](howto/{page}.md) |"
    yield ""


def _either(hint: Any) -> tuple[Any, ...]:
    """The kinds of a field that may be of several."""
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def _decorators() -> Iterator[str]:
    for name, thing in vars(spec).items():
        if getattr(thing, "__func__", None) is spec.Registry.register:
            yield name


def aliases() -> Iterator[str]:
    """Short names of types in `foltr.core`."""
    source = inspect.getsource(core)
    node = ast.parse(source)
    said = _comments(source, node)
    chosen = [part for part in node.body if isinstance(part, ast.Assign)]
    yield from _table("short for", ((_written(part), _about(part, said)) for part in chosen))


def classes(module: ModuleType) -> Iterator[str]:
    """The public classes of a module, in the order of its source."""
    for name, thing in vars(module).items():
        if isinstance(thing, type) and thing.__module__ == module.__name__ and name[0] != "_":
            yield from _class(thing, name)


def _function(thing: Any, title: str) -> Iterator[str]:
    node = ast.parse(inspect.getsource(thing)).body[0]
    assert isinstance(node, ast.FunctionDef)
    yield f"\n### {title}\n"
    yield f"```python\n{_signature(node, title, 90)}\n```\n"
    yield from _paragraphs(inspect.getdoc(thing) or "")


def _class(cls: type, title: str) -> Iterator[str]:
    """What it is, its fields, and what it can do, as its source tells it."""
    source, node = _parsed(cls)
    said = _comments(source, node)
    if cls.__module__ in (kinds.__name__, measures.__name__):  # it means what the protocol says
        said = {**_of_protocol(cls), **{name: text for name, text in said.items() if text}}
    yield f"\n### {title}\n"
    above = [base.__name__ for base in cls.__bases__ if base.__module__ == cls.__module__]
    if shown := [f"[`{name}`](#{name.lower()})" for name in above if not name.startswith("_")]:
        yield f"Inherits {', '.join(shown)}.\n"
    yield from _paragraphs(inspect.cleandoc(ast.get_docstring(node) or ""))
    parts = [part for part in node.body if not _name(part).startswith("_") or _is_call(part)]
    chosen = [part for part in parts if isinstance(part, ast.AnnAssign)]
    declared = ((_written(part), _about(part, said)) for part in chosen)
    yield from _table("field", described(cls) if cls is Experiment else declared)
    chosen = [part for part in parts if isinstance(part, (ast.FunctionDef, ast.Assign))]
    yield from _table("member", ((_written(part), _about(part, said)) for part in chosen))


def _parsed(cls: type) -> tuple[str, ast.ClassDef]:
    source = textwrap.dedent(inspect.getsource(cls))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef)
    return source, node


def _of_protocol(cls: type) -> dict[str, str]:
    """What each member means by the protocol that a base class is made for: the one with which it
    has the most members in common."""
    shared = {each.protocol: len(set(verbs(each.protocol)) & set(dir(cls))) for each in FAMILIES}
    protocol = max(shared, key=lambda each: shared[each])
    if not shared[protocol]:
        return {}
    source, node = _parsed(protocol)
    said = _comments(source, node)
    found = {_name(part): _about(part, said) for part in node.body}
    return {name: text for name, text in found.items() if text}


def _name(part: ast.stmt) -> str:
    """Of a field, an attribute, a method; "_" of other statements."""
    if isinstance(part, ast.Assign):
        return ast.unparse(part.targets[0])
    named = part.target if isinstance(part, ast.AnnAssign) else None
    return ast.unparse(named) if named else getattr(part, "name", "_")


def _is_call(part: ast.stmt) -> bool:
    return isinstance(part, ast.FunctionDef) and part.name == "__call__"


def _written(part: ast.stmt) -> str:
    """A field, an attribute, a property or a method as one writes it."""
    if not isinstance(part, ast.FunctionDef):
        return re.sub(r" = field\(.*", " = ...", ast.unparse(part))
    if {"property", "cached_property"} & set(map(ast.unparse, part.decorator_list)):
        return f"{part.name}: {ast.unparse(part.returns)}" if part.returns else part.name
    return _signature(part, part.name)


def _about(part: ast.stmt, said: dict[str, str]) -> str:
    """Its docstring, or what stands beside it; and whether a class of that kind must write it."""
    told = said.get(_name(part), "")
    if isinstance(part, ast.FunctionDef):
        told = ast.get_docstring(part) or told
        if "abstractmethod" in map(ast.unparse, part.decorator_list):
            told = f"To be written. {told}"
    return told


def _signature(node: ast.FunctionDef, name: str, width: int = 1000) -> str:
    """Without self; if it is wider than `width`, with a line for each argument."""
    told = list(map(ast.unparse, node.args.args))
    for i, default in enumerate(reversed(node.args.defaults), 1):
        told[-i] += f" = {ast.unparse(default)}"
    told = [each for each in told if each not in ("self", "cls")]
    told += [f"*{ast.unparse(node.args.vararg)}"] if node.args.vararg else []
    told += [f"**{ast.unparse(node.args.kwarg)}"] if node.args.kwarg else []
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if len(line := f"{name}({', '.join(told)}){returns}") <= width:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in told), f"){returns}"])


def _comments(source: str, node: ast.ClassDef | ast.Module) -> dict[str, str]:
    """What stands beside each field, method or assignment. A comment on lines of its own belongs
    to what follows, unless that has one already: then it goes on with the one before."""
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    found = {each.start[0]: each for each in tokens if each.type == tokenize.COMMENT}
    said: dict[str, list[str]] = {}
    for part in node.body:
        inside = range(part.lineno, (part.end_lineno or part.lineno) + 1)
        whole = all(isinstance(each, ast.Expr) for each in getattr(part, "body", ()))
        said[_name(part)] = [found[n].string for n in inside if whole and n in found]
    for before, after in pairwise(node.body):
        between = range((before.end_lineno or before.lineno) + 1, after.lineno)
        whose = before if said[_name(after)] else after
        said[_name(whose)] += [found[n].string for n in between if n in found]
    return {name: " ".join(text.lstrip("# ") for text in told) for name, told in said.items()}
