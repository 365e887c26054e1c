"""Experiments as TOML files: one key per field. A component is given as its spec, or field by
field (learner.sessions = 4). `base = "other.toml"` takes all other keys from another file."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, did_you_mean, shown
from foltr.core.spec import coerce, hints_of, opened
from foltr.core.system.files import check_extent
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code, files_behind
from foltr.simulation.runs.folder import CONFIG, Folder
from foltr.simulation.runs.identity import RUN_FILES, holds_run

Values = dict[str, Any]  # dotted field -> value
BESIDE_LISTS = ("title", "zip", "method")  # keys of a [sweep] table that are no fields


def written(experiment: Experiment) -> str:
    """A file that `read` turns into an equal experiment."""
    lines = [f"{name} = {_value(value)}" for name, value in experiment.config().items()]
    if used := sorted(files_behind(experiment)):
        lines.append(f"use = {_value(used)}")
    return "\n".join(lines) + "\n"


def fields_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value of a config and, if it is a component, its fields by dotted names."""
    yield name, value
    for inner, part in opened(value).fields.items():
        yield from fields_of(f"{name}.{inner}", part)


def _value(value: Any) -> str:
    """JSON is TOML here, but for two things: characters beyond 16 bits as pairs, and an unescaped
    DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read(path: str | Path, beside: tuple[str, ...] = ("use",)) -> dict[str, Any]:
    """The content of a file. Each key is a field of `Experiment` or one of `beside`."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{path} is not TOML: {error}") from None
    try:
        check_extent(content)
    except ValueError as error:
        raise Mistake(f"{path}: {error}") from None
    known = [*(field.name for field in fields(Experiment)), "base", *beside]
    for name in content:
        if name == "sweep" and name not in beside:
            raise Mistake(f"{path} has a [sweep] table: `foltr sweep {path}` runs it")
        if name in ("threads", "out", "engine"):
            raise Mistake(
                f"{path}: {name} is not a field of an experiment: give the option --{name} instead"
            )
        if name not in known:
            raise Mistake(f"{path}: unknown key {name!r}: {did_you_mean(name, known)}")
    return content


def experiment(values: dict[str, Any]) -> Experiment:
    """From values by (dotted) name: whole components first, then all fields of each at once, so
    that no incomplete combination is checked."""
    made = {name: value for name, value in values.items() if "." not in name}
    inner: dict[str, Any] = {}
    for name, value in values.items():
        if "." in name:
            here = inner
            *path, last = name.split(".")
            for part in path:
                here = here.setdefault(part, {})
                if not isinstance(here, dict):
                    raise Mistake(
                        f"{name}: {part} is given both as a whole ({shown(here)}) and field by"
                        " field: keep one"
                    )
            here[last] = value
    defaults = {field.name: field.default for field in fields(Experiment)}
    for name, table in inner.items():
        if name not in defaults:
            raise Mistake(
                f"{name}: Experiment has no field {name!r}: {did_you_mean(name, defaults)}"
            )
        whole: Any = defaults[name]
        if name in made:
            whole = coerce(made[name], hints_of(Experiment)[name], f"Experiment.{name}")
        made[name] = with_fields(whole, table, name)
    return Experiment(**made)


def with_fields(thing: Any, table: dict[str, Any], path: str) -> Any:
    """A component with other values of some of its fields."""
    known = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    for name in table:
        if not isinstance(name, str):
            raise Mistake(f"{path}: names of fields must be text, got {shown(table)}")
        if thing is None:
            raise Mistake(f"{path}.{name}: no {path} is set: give {path} as a whole first")
        if name not in known:
            hint = f": {did_you_mean(name, known)}" if known else ""
            raise Mistake(f"{path}.{name}: {type(thing).__name__} has no field {name!r}{hint}")
    parts = dict(table)
    for name, value in table.items():
        if isinstance(value, dict):
            parts[name] = with_fields(getattr(thing, name), value, f"{path}.{name}")
    return replace(thing, **parts) if parts else thing


def load(path: Path | None, code: Code, sweep: bool = False) -> dict[str, Any]:
    """The content of a file and its base, once the code of its components is loaded; nothing
    without a file. With `sweep`, there may be a sweep table."""
    content: dict[str, Any] = {}
    named: list[Path] = []
    if path is not None:
        content, named = _with_base(path, ("use", "sweep") if sweep else ("use",), ())
        if "sweep" in content and not sweep:
            raise Mistake(f"the base of {path} has a [sweep] table: `foltr sweep {path}` runs it")
    code.load(path, named)
    return content


def _with_base(
    path: Path, beside: tuple[str, ...], above: tuple[Path, ...]
) -> tuple[dict[str, Any], list[Path]]:
    """The content of a file and of its base, and the Python files that they name. `above` are the
    files whose base it is."""
    own = read(path, beside)
    used, base = own.pop("use", []), own.pop("base", None)
    if not isinstance(used, list) or not all(isinstance(u, str) and "\0" not in u for u in used):
        raise Mistake(f"{path}: use must be a list of paths, got {used!r}")
    named = [path.parent / name for name in used]
    if base is None:
        return own, named
    if not isinstance(base, str) or not base or "\0" in base:
        raise Mistake(f"{path}: base must be the path of a TOML file, got {shown(base)}")
    file, chain = path.parent / base, (*above, path)
    if any(os.path.realpath(file) == os.path.realpath(other) for other in chain):
        raise Mistake(f"{path}: a base includes itself: {' -> '.join(map(str, (*chain, file)))}")
    if not file.is_file():
        raise Mistake(
            f"{path}: there is no file {file}, its base: a relative path starts at the folder of"
            f" {path.name}"
        )
    content, more = _with_base(file, ("use", "sweep"), chain)
    try:
        return inherited(own, content, str(file)), [*more, *named]
    except Mistake as mistake:
        raise Mistake(f"{path}: {mistake}") from None


def load_experiment(
    path: Path | None, code: Code, given: dict[str, Any] | None = None
) -> Experiment:
    """The experiment of a file; values that are `given` replace those of the file."""
    return experiment(overridden(flat(load(path, code)), given or {}))


def load_finished(folder: Path, code: Code) -> Experiment:
    """The experiment of a finished run, loaded with the files that the run was made with."""
    if not holds_run(folder):
        files = " nor ".join(RUN_FILES)
        raise Mistake(f"{folder} is not the folder of a run: it has neither {files}")
    file = folder / CONFIG
    if Folder(folder).final() is None:
        raise Mistake(
            f"{folder} is not finished: `foltr run {file} --out {folder.parent}` continues it"
        )
    hashes = Folder(folder).environment().get("files")
    known = hashes if isinstance(hashes, dict) else {}
    return load_experiment(file, replace(code, hashes=known))


def flat(table: dict[str, Any], before: str = "") -> Values:
    """Nested tables with dotted names: {"learner": {"sessions": 4}} becomes {"learner.sessions":
    4}."""
    found: Values = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def overridden(values: Values, given: Values) -> Values:
    """`values`, replaced by those that are `given`. A given component also replaces the values of
    its fields."""
    return {**without(values, given), **given}


def without(values: Values, given: Iterable[str]) -> Values:
    """`values` without those of the fields that are `given`, or that lie inside of them."""
    return {name: value for name, value in values.items() if replaced_by(name, given) is None}


def replaced_by(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` whose value replaces that of the field `name`: the field itself, or
    the component that it lies in."""
    return next((o for o in others if name == o or name.startswith(f"{o}.")), None)


def lists_of(table: dict[str, Any]) -> Values:
    """The lists of a [sweep] table, by dotted names."""
    return flat({name: value for name, value in table.items() if name not in BESIDE_LISTS})


def methods_of(table: dict[str, Any]) -> dict[str, Values]:
    """The fields that each named method of a [sweep] table sets. Tables that are no methods are
    passed over: who reads the sweep refuses them."""
    tables = table.get("method", [])
    methods = [each for each in tables if isinstance(each, dict)] if tables else []
    return {
        str(method.get("name")): flat({n: v for n, v in method.items() if n != "name"})
        for method in methods
    }


def inherited(own: dict[str, Any], base: dict[str, Any], named: str) -> dict[str, Any]:
    """The content of a file with that of its base, called `named`. Each key replaces the same key
    of the base: a field, a list of [sweep], its title, zip or method. A single value replaces a
    list of the base, and a list a single value. Several [[sweep]] tables are one thing."""
    own, base = dict(own), dict(base)
    ours, theirs = own.pop("sweep", None), base.pop("sweep", None)
    values, before = flat(own), flat(base)
    if isinstance(theirs, dict) and (ours is None or isinstance(ours, dict)):
        table, lists = ours or {}, lists_of(ours or {})
        methods = {} if "method" in table else methods_of(theirs)
        _check_effect(values, methods, without(lists_of(theirs), lists), named)
        kept = without(lists_of(theirs), values)
        beside = {n: v for n, v in {**theirs, **table}.items() if n in BESIDE_LISTS}
        sweep: Any = {**beside, **overridden(kept, lists)}
    else:
        lists = lists_of(ours) if isinstance(ours, dict) else {}
        sweep = theirs if ours is None else ours
    found = overridden(without(before, lists), values)
    return found if sweep is None else {**found, "sweep": sweep}


def _check_effect(values: Values, methods: dict[str, Values], lists: Values, base: str) -> None:
    """Refuse a value that methods or a list of the base would replace in every experiment."""
    for name in values:
        if methods and all(replaced_by(name, sets) for sets in methods.values()):
            raise Mistake(
                f"{name} has no effect: every method of the base {base} sets it. Give methods of"
                " your own ([[sweep.method]])"
            )
        if (listed := replaced_by(name, lists)) and listed != name:
            raise Mistake(
                f"{name} has no effect: the base {base} gives a list of whole components,"
                f" {listed}. Give {listed}, or a list of your own"
            )
