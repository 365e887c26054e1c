"""Components in a user's own file: `--use my_rule.py`, `use = ["my_rule.py"]` in a TOML, `foltr.use("my_rule.py")`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from foltr.errors import Mistake
from foltr.spec import FAMILIES

_contents: dict[str, str] = {}  # module name -> hash of the file


def use(path: str | Path) -> None:
    """Load a Python file that registers components; the same content is loaded once, a changed file anew."""
    file = Path(path).resolve()
    try:
        content = _hash(file)
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    name = _module(file)
    if _contents.get(name) == content:
        return
    for family in FAMILIES:
        family.members()  # ours first, so that a clash of names is told of the user's file
        family.forget(name)
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Mistake(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Mistake:
        raise
    except (Exception, SystemExit) as error:
        raise Mistake(f"{path} could not be loaded: {type(error).__name__}: {error}") from error
    _contents[name] = content


def use_only(paths: Iterable[str | Path]) -> None:
    """`use` those, and forget all others: a worker that serves many sweeps may meet one name in two files."""
    files = [Path(path).resolve() for path in paths]
    for name in set(_contents) - {_module(file) for file in files}:
        for family in FAMILIES:
            family.forget(name)
        del _contents[name]
    for file in files:
        use(file)


def _module(file: Path) -> str:
    return f"foltr_user_{file.stem}_{blake2b(str(file).encode(), digest_size=4).hexdigest()}"


def files_behind(thing: Any) -> dict[str, str]:
    """The files given to `use` whose components `thing` is made of: path -> hash of the content."""
    modules = [cls.__module__ for cls in _classes(thing) if cls.__module__ in _contents]
    return {str(sys.modules[name].__file__): _contents[name] for name in modules}


def sources_behind(thing: Any) -> dict[str, str | None]:
    """Every source file that is not foltr's whose components `thing` is made of, a script or an installed package among
    them: name -> hash of the content, None where there is no file (a notebook, a prompt)."""
    found: dict[str, str | None] = {}
    for cls in _classes(thing):
        name, file = cls.__module__, getattr(sys.modules.get(cls.__module__), "__file__", None)
        if name in _contents:
            found[Path(str(file)).name] = _contents[name]
        elif name.partition(".")[0] not in ("foltr", "builtins"):
            source = Path(file or "")
            found[source.name or cls.__name__] = _hash(source) if source.is_file() else None
    return found


def _classes(thing: Any) -> Iterator[type]:
    """Of a component and of all components inside."""
    yield type(thing)
    parts = [getattr(thing, field.name) for field in fields(thing)] if is_dataclass(thing) else []
    for part in thing if isinstance(thing, tuple) else parts:
        yield from _classes(part)


def _hash(file: Path) -> str:
    return blake2b(file.read_bytes(), digest_size=16).hexdigest()
