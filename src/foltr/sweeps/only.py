"""`--only 'seed=1|2, data.fold=1'`: the experiments of a sweep that have these values."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.experiment import Experiment
from foltr.spec import brief, coerce, hints_of, opened

# dotted field, or `method` -> values, any of which fits
Conditions = Mapping[str, Sequence[Any]]
Candidate = tuple[Experiment, str | None]  # with the name of its method
METHOD = "method"
LACKS = object()  # the value of a field that an experiment does not have
SHOWN = 12  # values in a message
LONGEST = 100  # part of a file name


def narrowed(candidates: Sequence[Candidate], only: Conditions) -> list[int]:
    """The places of the candidates that fulfil all conditions. Raises a Mistake for an unknown
    field, for a value that no candidate has, and if none is left."""
    left = list(range(len(candidates)))
    for name, wanted in only.items():
        values = [value_of(candidate, name) for candidate in candidates]
        if all(value is LACKS for value in values):
            known = {n for experiment, _ in candidates for n in names_in(experiment)}
            known |= {METHOD for _, method in candidates if method is not None}
            raise Mistake(
                f"--only: no experiment has a field {name!r}: {did_you_mean(name, known)}"
            )
        fits = _fitting(name, values, candidates)
        for value in wanted:
            if not any(fits(i, value) for i in range(len(candidates))):
                raise Mistake(
                    f"--only '{name}={value}' leaves no experiment: {name} is {_shown(values)}"
                )
        left = [i for i in left if any(fits(i, value) for value in wanted)]
    if not left:
        raise Mistake(
            f"--only leaves no experiment: each of these values is in the sweep, but not together:"
            f" {in_words(only)}"
        )
    return left


def value_of(candidate: Candidate, name: str) -> Any:
    """The value of a field by its dotted name, or LACKS."""
    experiment, method = candidate
    if name == METHOD:
        return LACKS if method is None else method
    thing: Any = experiment
    for part in name.split("."):
        if not is_dataclass(thing) or part not in [field.name for field in fields(thing)]:
            return LACKS
        thing = getattr(thing, part)
    return thing


def names_in(thing: Any, before: str = "") -> Iterator[str]:
    """The dotted names of all fields of a component, and of the components inside it."""
    for field in fields(thing):
        name, value = f"{before}{field.name}", getattr(thing, field.name)
        yield name
        if is_dataclass(value):
            yield from names_in(value, f"{name}.")


def _fitting(name: str, values: Sequence[Any], candidates: Sequence[Candidate]) -> Any:
    """A function that tells whether candidate i has a wanted value. Many candidates have equal
    values, and are compared once."""
    known: dict[tuple[Hashable, str], bool] = {}

    def fits(i: int, wanted: Any) -> bool:
        key = values[i], repr(wanted)
        if key not in known:
            known[key] = values[i] is not LACKS and _equal(candidates[i], name, values[i], wanted)
        return known[key]

    return fits


def _equal(candidate: Candidate, name: str, value: Any, wanted: Any) -> bool:
    if name == METHOD:
        return bool(value == str(wanted))
    if value is None or wanted is None:
        return value is None and str(wanted).casefold() == "none"
    if is_dataclass(value) and wanted == opened(repr(value)).name:
        return True  # a component by its name alone, whatever its fields
    above, _, last = name.rpartition(".")
    owner: Hashable = value_of(candidate, above) if above else candidate[0]
    hint = hints_of(type(owner)).get(last)
    try:
        meant = coerce(wanted, hint, name)
    except Mistake:
        return False
    return bool(meant == value)


def _shown(values: Sequence[Any]) -> str:
    """The values that a field takes, as they are given to --only."""
    texts = list(
        dict.fromkeys(
            brief(value) if is_dataclass(value) else "none" if value is None else repr(value)
            for value in values
            if value is not LACKS
        )
    )
    more = f" or one of {len(texts) - SHOWN} others" if len(texts) > SHOWN else ""
    *first, last = texts[:SHOWN]
    if more or not first:
        return ", ".join([*first, last]) + more
    return f"{', '.join(first)} or {last}"


def in_words(only: Conditions) -> str:
    return ", ".join(
        f"{name} = {' or '.join(map(str, values))}" for name, values in sorted(only.items())
    )


def as_file_name(only: Conditions) -> str:
    """A part of the name of the narrowed sweep's record: seed=1+2,data.fold=1. Where it cannot
    hold everything, a hash makes it unique."""
    parts = [(name, list(map(str, values))) for name, values in sorted(only.items())]
    told = ",".join(f"{name}={'+'.join(values)}" for name, values in parts)
    plain = all(re.fullmatch(r"[\w.-]+", value) for _, values in parts for value in values)
    if plain and len(told) <= LONGEST:
        return told
    short = re.sub(r"[^\w.,=+-]+", "_", told)[:LONGEST].rstrip("._")
    return f"{short}.{blake2b(repr(parts).encode(), digest_size=4).hexdigest()}"
