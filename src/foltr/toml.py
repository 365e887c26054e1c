"""Experiments as TOML: one key per field, components as their specs."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.experiment import Experiment
from foltr.user_files import files_behind

BESIDE = ("use",)  # keys of a file that are no field of an experiment


def written(experiment: Experiment) -> str:
    """A file that `read` turns into an equal experiment."""
    lines = [f"{name} = {_value(value)}" for name, value in experiment.config().items()]
    if used := sorted(files_behind(experiment)):
        lines.append(f"use = {_value(used)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """JSON is TOML here, but for two things: characters beyond 16 bits as pairs, and an unescaped DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read(path: str | Path) -> dict[str, Any]:
    """The keys and values of a config file, each key known."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{path} is not TOML: {error}") from None
    known = [*(field.name for field in fields(Experiment)), *BESIDE]
    for name in content:
        if name in ("threads", "out", "engine"):
            raise Mistake(f"{path}: {name} is no part of an experiment: give it as an option, --{name}")
        if name not in known:
            raise Mistake(f"{path}: unknown key {name!r}: {did_you_mean(name, known)}")
    return content


def used_files(content: dict[str, Any], path: Path | None) -> list[Path]:
    """Takes `use` out of a file's content; relative paths are meant from the file."""
    used = content.pop("use", [])
    if not isinstance(used, list) or not all(isinstance(name, str) for name in used):
        raise Mistake(f"{path}: use must be a list of paths, got {used!r}")
    return [Path(path or ".").parent / name for name in used]
