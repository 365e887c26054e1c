"""The metrics of a process, in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

import math
import platform
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

import foltr
from foltr.core.errors import Mistake
from foltr.core.system.process import Usage, usage
from foltr.deployment import INSTALL

try:
    from prometheus_client import Metric, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise Mistake(f"prometheus-client is not installed ({error}): {INSTALL}") from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DURATION_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


def gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value)


def counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value)


def gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    """A metric with one label: a value for each of its texts."""
    return _labelled(GaugeMetricFamily(name, help, labels=[label]), values)


def counters(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    """A counter with one label, as `gauges`."""
    return _labelled(CounterMetricFamily(name, help, labels=[label]), values)


def _labelled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]
) -> Metric:
    for text, value in sorted(values.items()):
        plain = text.encode("utf-8", "backslashreplace").decode()  # nodes may have chosen it
        family.add_metric([plain], value)
    return family


class Histogram:
    """Counts of observed values, by upper bounds. It can be used from several threads."""

    def __init__(self, bounds: tuple[float, ...] = DURATION_BOUNDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        if math.isfinite(value):
            with self._lock:
                self._counts[bisect_left(self.bounds, value)] += 1
                self._sum += value

    def family(self, name: str, help: str) -> Metric:
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        texts = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        buckets = list(zip(texts, map(float, counts), strict=True))
        return HistogramMetricFamily(name, help, buckets=buckets, sum_value=total)


def process_metrics(used: Usage, prefix: str = "process") -> Iterator[Metric]:
    """What a process uses, under the standard names of Prometheus."""
    if used.cpu_seconds is not None:
        help = "User and system processor time."
        yield counter(f"{prefix}_cpu_seconds_total", help, used.cpu_seconds)
    for name, help, value in (
        ("resident_memory_bytes", "Memory that is not swapped out.", used.resident_bytes),
        ("start_time_seconds", "When the process started, since 1970.", used.started),
        ("open_fds", "Open files and sockets.", used.open_files),
    ):
        if value is not None:
            yield gauge(f"{prefix}_{name}", help, value)


def of_process(families: Iterable[Metric], healthy: bool) -> str:
    """The text of a process's own metrics, and of those that every process of foltr has."""
    build = GaugeMetricFamily(
        "foltr_build_info", "The version of foltr; always 1.", labels=["version", "python"]
    )
    build.add_metric([foltr.__version__, platform.python_version()], 1.0)
    able = gauge("foltr_healthy", "1 while the process is healthy.", float(healthy))
    return exposition([*families, able, *process_metrics(usage()), build])


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        return (family for family in self.families if family.samples)


def exposition(families: Iterable[Metric]) -> str:
    """The text of all metrics. Metrics without samples are left out."""
    return generate_latest(_Collected(families)).decode()
