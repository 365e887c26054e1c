"""Specs as text, taken apart and told apart: a table has no room for every field of every
component."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from foltr.spec import opened as taken_apart

opened = lru_cache(maxsize=8192)(
    taken_apart
)  # thousands of runs share their components; nobody writes to one
Change = Callable[[str, Any], Any]  # a field's name and value -> the value it shall have


class Left:
    """A value of a change: the field goes."""


def is_component(value: Any) -> bool:
    """Of a field of an opened spec: whether it is a component's spec. (Text has quotes.)"""
    return isinstance(value, str) and repr(value) == value


def fields_within(spec: str) -> Iterator[tuple[str, Any]]:
    """The fields of a component, and of the components inside it."""
    for name, value in opened(spec).fields.items():
        yield name, value
        if is_component(value):
            yield from fields_within(value)


def rewritten(spec: str, change: Change) -> str:
    """A spec with some fields changed, or left out (`Left`), at any depth."""
    name, fields = opened(spec)
    if not fields:
        return spec
    told = []
    for field, value in fields.items():
        new = change(field, value)
        if new is not Left:
            told.append(f"{field}={rewritten(new, change) if is_component(new) else repr(new)}")
    return f"{name}({', '.join(told)})"


def same(one: str, other: str) -> bool:
    """Whether two specs say the same, however they are spaced."""
    return rewritten(one, lambda _, value: value) == rewritten(other, lambda _, value: value)


def short(spec: str, rivals: Iterable[str]) -> str:
    """A component's name, with the components inside it, and those fields in which it differs from
    rivals of its name: "NNM(Krum)", "LittleIsEnough(knowledge='all')"."""
    name, fields = opened(spec)
    others = [theirs for its, theirs in map(opened, rivals) if its == name]
    told = []
    for field, value in fields.items():
        values = [theirs.get(field) for theirs in others]
        if is_component(value):
            told.append(short(value, [str(each) for each in values if is_component(each)]))
        elif any(repr(each) != repr(value) for each in values):
            told.append(f"{field}={value!r}")
    return f"{name}({', '.join(told)})" if told else name


def in_words(configs: Sequence[dict[str, Any]], always: Sequence[str] = ()) -> list[str]:
    """What tells some configs apart, field by field: "ByLabel(labels=1), MLP, clients=10"; and the
    fields that are `always` told."""
    names = list(dict.fromkeys(name for config in configs for name in config))
    labels = []
    for config in configs:
        told = []
        for name in [*always, *(name for name in names if name not in always)]:
            values, own = [each.get(name) for each in configs], config.get(name)
            if own is not None and (
                name in always or any(repr(each) != repr(own) for each in values)
            ):
                is_spec = isinstance(own, str) and own.endswith(")")
                told.append(
                    short(str(own), [str(each) for each in values]) if is_spec else f"{name}={own}"
                )
        labels.append(", ".join(told))
    return labels
