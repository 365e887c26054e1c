"""Experiments as TOML: one key per field, components as their specs or by fields of theirs
(learner.sessions = 4)."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, did_you_mean, shown
from foltr.experiment import Experiment
from foltr.runs.folder import Folder
from foltr.runs.user_files import files_behind, use_given
from foltr.spec import coerce, hints_of
from foltr.system.files import check_extent


def written(experiment: Experiment) -> str:
    """A file that `read` turns into an equal experiment."""
    lines = [f"{name} = {_value(value)}" for name, value in experiment.config().items()]
    if used := sorted(files_behind(experiment)):
        lines.append(f"use = {_value(used)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """JSON is TOML here, but for two things: characters beyond 16 bits as pairs, and an unescaped
    DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read(path: str | Path, beside: tuple[str, ...] = ("use",)) -> dict[str, Any]:
    """The keys and values of a config file, each key a field of an experiment or one of those
    `beside`."""
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
    known = [*(field.name for field in fields(Experiment)), *beside]
    for name in content:
        if name == "sweep" and name not in beside:
            raise Mistake(f"{path} has a [sweep]: `foltr sweep {path}` runs it")
        if name in ("threads", "out", "engine"):
            raise Mistake(
                f"{path}: {name} is no part of an experiment: give it as an option, --{name}"
            )
        if name not in known:
            raise Mistake(f"{path}: unknown key {name!r}: {did_you_mean(name, known)}")
    return content


def flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as dotted names: learner.sessions = 4 in a TOML is {"learner": {"sessions":
    4}}."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found.update(
            flat(value, f"{before}{name}.")
            if isinstance(value, dict)
            else {f"{before}{name}": value}
        )
    return found


def overridden(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`values` with those that are `given` instead; a whole component replaces what was said of
    its fields."""
    kept = {
        name: value
        for name, value in values.items()
        if not any(name.startswith(f"{other}.") for other in given)
    }
    return {**kept, **given}


def experiment(values: dict[str, Any]) -> Experiment:
    """From values by (dotted) name: whole components first, then all fields of each at once, so
    that no combination is judged before it is complete."""
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
                        f"{name}: {part} is given as a whole ({shown(here)}) and by a field of it:"
                        " keep one"
                    )
            here[last] = value
    defaults, hints = (
        {field.name: field.default for field in fields(Experiment)},
        hints_of(Experiment),
    )
    for name, table in inner.items():
        if name not in defaults:
            raise Mistake(
                f"{name}: Experiment has no field {name!r}: {did_you_mean(name, defaults)}"
            )
        whole = (
            coerce(made[name], hints[name], f"Experiment.{name}")
            if name in made
            else defaults[name]
        )
        made[name] = with_fields(whole, table, name)
    return Experiment(**made)


def with_fields(thing: Any, table: dict[str, Any], path: str) -> Any:
    """A component with other values of some of its fields."""
    known = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    for name in table:
        if not isinstance(name, str):
            raise Mistake(f"{path}: fields have names, got {shown(table)}")
        if thing is None:
            raise Mistake(
                f"{path}.{name}: there is no {path} that could have one: give a whole one first"
            )
        if name not in known:
            hint = f": {did_you_mean(name, known)}" if known else ""
            raise Mistake(f"{path}.{name}: {type(thing).__name__} has no field {name!r}{hint}")
    parts = {
        name: (
            with_fields(getattr(thing, name), value, f"{path}.{name}")
            if isinstance(value, dict)
            else value
        )
        for name, value in table.items()
    }
    return replace(thing, **parts) if parts else thing


def used_files(content: dict[str, Any], path: Path | None) -> list[Path]:
    """Takes `use` out of a file's content; relative paths are meant from the file."""
    used = content.pop("use", [])
    if not isinstance(used, list) or not all(
        isinstance(name, str) and "\0" not in name for name in used
    ):
        raise Mistake(f"{path}: use must be a list of paths, got {used!r}")
    return [Path(path or ".").parent / name for name in used]


def read_finished(folder: Path, given: list[Path], quiet: bool) -> Experiment:
    """The experiment of a finished run, by `read_given`, if the `given` files are those that it
    was made with."""
    config = folder / "config.toml"
    if not config.is_file():
        raise Mistake(f"{folder} is not the folder of a run: it has no config.toml")
    if Folder(folder).final() is None:
        raise Mistake(
            f"{folder} is not finished: `foltr run {config} --out {folder.parent}` goes on with it"
        )
    files = Folder(folder).environment().get("files")
    return read_given(config, given, quiet, files if isinstance(files, dict) else {})


def read_given(
    path: Path, given: list[Path], quiet: bool, hashes: dict[str, Any] | None = None
) -> Experiment:
    """The experiment of a file that may be somebody else's: no code is loaded but that of the
    `given` files."""
    content = read(path)
    use_given(path, used_files(content, path), given, quiet, hashes)
    return experiment(flat(content))
