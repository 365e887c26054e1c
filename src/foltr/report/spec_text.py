"""Specs of components as text: compare them, change them, and shorten them to labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from foltr.core.spec import Registry
from foltr.core.spec import opened as parsed

# thousands of runs share their components, and nobody changes a parsed one
opened = lru_cache(maxsize=8192)(parsed)
Change = Callable[[str, Any], Any]  # the name and the value of a field -> its new value


def says(family: Registry, spec: str, member: str) -> Any:
    """What a component says of itself: a member of its protocol. None for a component that is not
    known here, or cannot be built."""
    try:
        return _said(family.members()[opened(spec).name], family, spec, member)
    except Exception:  # noqa: BLE001  # of a user's component: a report must not end by it
        return None


@lru_cache(maxsize=8192)
def _said(cls: type, family: Registry, spec: str, member: str) -> Any:
    """By class, so that an answer ends with the registration that gave it."""
    return getattr(family.build(spec), member)


class LeftOut:
    """The new value of a field that a change removes."""


def is_component(value: Any) -> bool:
    """Whether a field of a parsed spec is a component's spec. (A text has quotes.)"""
    return isinstance(value, str) and repr(value) == value


def fields_within(spec: str) -> Iterator[tuple[str, Any]]:
    """The fields of a component, and of the components inside it."""
    for name, value in opened(spec).fields.items():
        yield name, value
        if is_component(value):
            yield from fields_within(value)


def changed(spec: str, change: Change) -> str:
    """A spec with some fields changed or removed (`LeftOut`), at any depth."""
    name, fields = opened(spec)
    if not fields:
        return spec
    parts = []
    for field, value in fields.items():
        new = change(field, value)
        if new is not LeftOut:
            parts.append(f"{field}={changed(new, change) if is_component(new) else repr(new)}")
    return f"{name}({', '.join(parts)})"


def equal(one: str, other: str) -> bool:
    """Whether two specs are equal apart from spaces."""
    return changed(one, lambda _, value: value) == changed(other, lambda _, value: value)


def short_label(spec: str, rivals: Iterable[str]) -> str:
    """A component's name, the components inside it, and the fields in which it differs from rivals
    of the same name: "NNM(Krum)", "LittleIsEnough(knowledge='all')"."""
    name, fields = opened(spec)
    others = [theirs for its, theirs in map(opened, rivals) if its == name]
    parts = []
    for field, value in fields.items():
        values = [theirs.get(field) for theirs in others]
        if is_component(value):
            parts.append(short_label(value, [str(each) for each in values if is_component(each)]))
        elif any(repr(each) != repr(value) for each in values):
            parts.append(f"{field}={value!r}")
    return f"{name}({', '.join(parts)})" if parts else name


def config_labels(configs: Sequence[dict[str, Any]], always: Sequence[str] = ()) -> list[str]:
    """A label for each config, of the fields in which the configs differ:
    "ByLabel(labels=1), MLP, clients=10". `always`: fields that are shown in any case."""
    names = list(dict.fromkeys(name for config in configs for name in config))
    labels = []
    for config in configs:
        parts = []
        for name in [*always, *(name for name in names if name not in always)]:
            values, own = [each.get(name) for each in configs], config.get(name)
            differs = any(repr(each) != repr(own) for each in values)
            if own is None or not (differs or name in always):
                continue
            if isinstance(own, str) and own.endswith(")"):  # a spec
                parts.append(short_label(own, [str(each) for each in values]))
            else:
                parts.append(f"{name}={own}")
        labels.append(", ".join(parts))
    return labels


def without(config: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A config without some fields."""
    return {name: value for name, value in config.items() if name not in names}


def config_key(config: dict[str, Any]) -> str:
    """A text that is equal for equal configs, whatever the order of their fields."""
    return repr(sorted((name, repr(value)) for name, value in config.items()))
