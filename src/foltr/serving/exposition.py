"""Metrics in the text format that Prometheus reads (version 0.0.4), without a package for it.

    # HELP foltr_failures_total Answers that were left out.
    # TYPE foltr_failures_total counter
    foltr_failures_total{kind="late"} 3

Reference: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from foltr.errors import require

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


@dataclass(frozen=True)
class Sample:
    """One line: a value, its labels, and what follows the family's name (`_bucket`)."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True)
class Family:
    """The samples of one metric. The name of a counter ends with `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        require(NAME.fullmatch(self.name) is not None, f"{self.name!r} is no name of a metric")
        for sample in self.samples:
            for label in sample.labels:
                require(LABEL.fullmatch(label) is not None, f"{label!r} is no name of a label")

    def lines(self) -> Iterable[str]:
        yield f"# HELP {self.name} {_help(self.help)}"
        yield f"# TYPE {self.name} {self.kind}"
        for sample in self.samples:
            pairs = ",".join(f'{name}="{_value(text)}"' for name, text in sample.labels.items())
            labels = f"{{{pairs}}}" if pairs else ""
            yield f"{self.name}{sample.suffix}{labels} {number(sample.value)}"


def gauge(name: str, help: str, value: float, **labels: str) -> Family:
    return Family(name, "gauge", help, (Sample(value, labels),))


def counter(name: str, help: str, value: float, **labels: str) -> Family:
    return Family(name, "counter", help, (Sample(value, labels),))


def by_label(
    name: str,
    kind: Literal["counter", "gauge"],
    help: str,
    label: str,
    values: Mapping[str, float],
) -> Family:
    """A metric with one label: a value for each of its texts."""
    samples = (Sample(value, {label: text}) for text, value in sorted(values.items()))
    return Family(name, kind, help, tuple(samples))


class Histogram:
    """Counts of observed values, by upper bounds. It can be used from several threads."""

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        if math.isfinite(value):
            with self._lock:
                self._counts[bisect_left(self.bounds, value)] += 1
                self._sum += value

    def family(self, name: str, help: str) -> Family:
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        texts = [*map(number, self.bounds), "+Inf"]
        buckets = [
            Sample(count, {"le": text}, "_bucket")
            for text, count in zip(texts, counts, strict=True)
        ]
        both = Sample(total, suffix="_sum"), Sample(counts[-1], suffix="_count")
        return Family(name, "histogram", help, (*buckets, *both))


def exposition(families: Iterable[Family]) -> str:
    """The text of all metrics. Metrics without samples are left out."""
    lines = [line for family in families if family.samples for line in family.lines()]
    return "".join(f"{line}\n" for line in lines)


def number(value: float) -> str:
    """A number as the format writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _help(text: str) -> str:
    """Text that is valid in UTF-8, in one line."""
    whole = text.encode("utf-8", "backslashreplace").decode().replace("\r", r"\r")
    return whole.replace("\\", r"\\").replace("\n", r"\n")


def _value(text: str) -> str:
    return _help(text).replace('"', r"\"")
