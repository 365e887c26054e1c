"""The identity of a run, the name of its folder, and how such a folder is recognised.

Which code made a run (its engine, the compiler of the kernels, and the kind of CPU that they were
compiled for) is stored beside the results and is not part of its identity. A finished run that
other code made is found, with a note. An unfinished one is not continued."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake
from foltr.core.system.lock import FILE as LOCK
from foltr.core.world.dataset import Dataset
from foltr.experiment import Experiment
from foltr.experiment.user_files import classes_behind, sources_behind
from foltr.simulation.runs.folder import CONFIG, FAILED, RESULT, RESULTS

RUN_FILES = (CONFIG, RESULT)  # either shows that a folder holds a run
CLASS = r"[^\W\d]\w*"
FOLDER_NAME = re.compile(rf"{CLASS}-{CLASS}(-{CLASS})?-(?P<identity>[0-9a-f]{{16}})")
ENGINE, COMPILED = "engine", "compiled"  # in environment.json
PLAIN = "debug"  # the engine whose clients are plain Python
# what is compared -> how a message calls it. LLVM names the same CPU differently in different
# versions, so a CPU is compared only where the versions are equal.
VERSIONS = {"numba": "numba", "llvmlite": "llvmlite"}
TARGET = {"cpu": "CPU", "settings": "numba's settings:"}
FEATURES = "cpu_features"


def identity(
    e: Experiment, train: Dataset, test: Dataset, validation: Dataset | None = None
) -> str:
    """A hash of the resolved config, the data's content (with that of the validation queries, if
    they are used), all source files that are not foltr's, RESULTS, and the revisions of components
    that have one. It does not depend on threads, paths or the engine."""
    sources = sorted(filter(None, sources_behind(e).values()))
    parts: list[Any] = [RESULTS, e.config(), train.content, test.content, sources]
    if validation is not None:
        parts.append({"validation": validation.content})
    if found := revisions(e):  # an empty one more would be another identity for every run
        parts.append(found)
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


def revisions(e: Experiment) -> dict[str, int]:
    """The revisions of components whose results have changed since their first version: a class
    sets `revision: ClassVar[int]` when its results change, and the CHANGELOG says why."""
    numbers = {cls.__name__: getattr(cls, "revision", 1) for cls in classes_behind(e)}
    return {name: number for name, number in sorted(numbers.items()) if number != 1}


def folder_name(e: Experiment, its_identity: str) -> str:
    """MQ2008-PDGD-Linear-0123456789abcdef, or MQ2008-LeastSquares-0123456789abcdef for a
    baseline."""
    parts = (e.data, e.learner, e.ranker) if e.baseline is None else (e.data, e.baseline)
    return "-".join([*(type(part).__name__ for part in parts), its_identity])


def identity_in(name: str) -> str | None:
    """The identity in a name that `folder_name` made; None for any other name."""
    found = FOLDER_NAME.fullmatch(name)
    return found["identity"] if found else None


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not. Its name may be any: folders are renamed and
    sent to others."""
    return any((folder / file).exists() for file in RUN_FILES)


def folders_with_runs(path: Path) -> list[Path]:
    """The folders directly below `path` that hold a run, whatever their names."""
    return sorted({file.parent for name in RUN_FILES for file in path.glob(f"[!.]*/{name}")})


def folders_of_foltr(path: Path) -> list[Path]:
    """The folders directly below `path` that foltr made for runs: known by their names and their
    content. foltr deletes no other folder."""
    named = [
        folder for folder in path.iterdir() if identity_in(folder.name) and not folder.is_symlink()
    ]
    files = (*RUN_FILES, FAILED, LOCK)
    return sorted(folder for folder in named if any((folder / name).is_file() for name in files))


def made_with(e: Experiment, engine: str) -> dict[str, Any]:
    """The entries of environment.json that say which code makes this run here. A baseline has no
    engine, and the plain engine no compiled code."""
    if e.baseline is not None:
        return {ENGINE: None, COMPILED: None}
    if engine == PLAIN:
        return {ENGINE: engine, COMPILED: None}
    from foltr.kernels.compiler import target, versions  # loads numba

    return {ENGINE: engine, COMPILED: {**versions(), **target()}}


def recorded(environment: Mapping[str, Any]) -> dict[str, str] | None:
    """The compiled code that an environment.json records; None for none. An earlier foltr recorded
    the version of numba and nothing else."""
    if COMPILED in environment:
        found = environment[COMPILED]
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else None
    packages = environment.get("packages")
    version = packages.get("numba") if isinstance(packages, dict) else None
    return {} if version is None else {"numba": str(version)}


def difference(before: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs between the code that made a run and the code here, as in "numba 0.60.0, here
    0.61.2"; empty if nothing does. What either did not record does not count."""
    engines = before.get(ENGINE), here.get(ENGINE)
    if None not in engines and (engines[0] == PLAIN) != (engines[1] == PLAIN):
        return f"the {engines[0]} engine, here {engines[1]}"
    if engines == (PLAIN, PLAIN) and bool(before.get(COMPILED)) != bool(here.get(COMPILED)):
        return "robust rules and attacks by kernels, here plainly"  # until now
    old, new = recorded(before), recorded(here)
    if old is None or new is None:
        return ""
    return code_difference(old, new)


def code_difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The same for two entries that `recorded` gave."""

    def differing(names: Mapping[str, str]) -> list[str]:
        pairs = ((shown, old.get(name), new.get(name)) for name, shown in names.items())
        return [f"{shown} {a}, here {b}" for shown, a, b in pairs if a and b and a != b]

    versions = differing(VERSIONS)
    if versions:
        return versions[0]  # of llvmlite follows from that of numba
    found = differing(TARGET)
    features = [set(each.get(FEATURES, "").split()) for each in (old, new)]
    if not found and all(features) and features[0] != features[1]:
        there, only_here = features[0] - features[1], features[1] - features[0]
        parts = [f"a CPU with {' '.join(sorted(there))}"] if there else []
        parts += [f"one with {' '.join(sorted(only_here))} here"] if only_here else []
        found = [", ".join(parts)]
    return ", ".join(found)


def other_code_note(different: str) -> str:
    """The note of a finished run that other code made."""
    return (
        f"made by other code ({different}): the last bits may differ, and what follows from them;"
        " delete its folder to make it again"
    )


def check_same_code(folder: Path, before: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuses to continue a run that other code began."""
    if different := difference(before, here):
        raise Mistake(
            f"{folder} was begun by other code ({different}), whose rounds may differ from those"
            " made here: continue it with the code that began it, or delete the folder to start"
            " again"
        )


def kinds(environments: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The different kinds of compiled code that made these runs. A run that recorded less than
    another, and nothing else, counts as of its kind."""
    distinct: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for environment in environments:
        if (code := recorded(environment)) is not None:
            distinct.setdefault(tuple(sorted(code.items())), code)
    found: list[dict[str, str]] = []
    for code in sorted(distinct.values(), key=len, reverse=True):
        if code and all(code_difference(code, other) for other in found):
            found.append(code)
    return found


def described(code: Mapping[str, str] | None) -> str:
    """ "numba 0.61.2, llvmlite 0.44.0, CPU znver4" """
    if code is None:
        return "none"
    names = {**VERSIONS, "cpu": "CPU"}
    parts = [f"{shown} {code[name]}" for name, shown in names.items() if name in code]
    return ", ".join(parts) or "not recorded"
