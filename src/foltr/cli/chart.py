"""Learning curves with a logarithmic horizontal axis: as text for a terminal and as SVG. No
plotting library is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np

from foltr.core import Array


@dataclass(frozen=True)
class Series:
    label: str
    x: Array
    y: Array


@dataclass(frozen=True)
class Panel:
    title: str
    series: tuple[Series, ...]


COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
MARKS = "●○◆◇"
CHART, AXIS = 34, 6  # columns of a chart in a terminal, and of its vertical axis


def bounds(panels: list[Panel]) -> tuple[float, float, float, float]:
    """Ranges of log10(x) and y over all panels."""
    xs = np.log10(np.concatenate([s.x for p in panels for s in p.series] or [np.array([1.0])]))
    ys = np.concatenate([s.y for p in panels for s in p.series] or [np.array([0.0])])
    low, high = float(np.nanmin(ys)), float(np.nanmax(ys))
    margin = 0.05 * (high - low) or 0.05
    return (
        float(xs.min()),
        max(float(xs.max()), float(xs.min()) + 1.0),
        low - margin,
        high + margin,
    )


def text_chart(
    panel: Panel, box: tuple[float, float, float, float], width: int = CHART, height: int = 9
) -> str:
    """One panel as lines of characters. Where two curves meet, the later one is visible."""
    x0, x1, y0, y1 = box
    grid = [[" "] * width for _ in range(height)]
    for mark, s in zip(MARKS, panel.series, strict=False):
        for x, y in zip(np.log10(s.x), s.y, strict=True):
            column = round((x - x0) / (x1 - x0) * (width - 1))
            row = round((y1 - y) / (y1 - y0) * (height - 1))
            grid[row][column] = mark
    labels = [
        f"{y1 - (y1 - y0) * i / (height - 1):.2f}" if i % 4 == 0 else "    " for i in range(height)
    ]
    lines = [f"{label} ┤{''.join(row)}" for label, row in zip(labels, grid, strict=True)]
    return "\n".join([f"{panel.title:^{width + AXIS}}", *lines, f"     └{'─' * width}"])


def svg_chart(title: str, x_label: str, y_label: str, panels: list[Panel]) -> str:
    """A row of panels with shared axes and one legend; readable on light and dark pages."""
    width, height, left, top = 270, 200, 54, 58
    box = bounds(panels)
    total = left + len(panels) * (width + 18) + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {top + height + 52}"'
            ' role="img" font-family="system-ui, sans-serif"'
            f' font-size="12"><title>{escape(title)}</title>'
        ),
        f'<rect width="{total}" height="{top + height + 52}" rx="8" fill="#ffffff"/>',
        (
            f'<text x="{left}" y="22" font-size="15" font-weight="600"'
            f' fill="#111827">{escape(title)}</text>'
        ),
        *_legend([s.label for s in panels[0].series], total),
    ]
    for i, panel in enumerate(panels):
        parts += _panel(
            panel, box, left + i * (width + 18), top, width, height, with_labels=i == 0
        )
    parts.append(_label(x_label, left + (total - left) / 2, top + height + 42))
    parts.append(
        _label(y_label, 14, top + height / 2, f'transform="rotate(-90 14 {top + height / 2:.0f})"')
    )
    return "\n".join([*parts, "</svg>", ""])


def _label(text: str, x: float, y: float, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="#374151"'
        f" {more}>{escape(text)}</text>"
    )


def _legend(labels: list[str], total: int) -> list[str]:
    parts, x = [], total - 12.0
    for colour, label in reversed(list(zip(COLOURS, labels, strict=False))):
        x -= 7.0 * len(label) + 28
        parts.append(
            f'<line x1="{x:.0f}" y1="18" x2="{x + 18:.0f}" y2="18" stroke="{colour}"'
            ' stroke-width="3"/>'
        )
        parts.append(f'<text x="{x + 23:.0f}" y="22" fill="#111827">{escape(label)}</text>')
    return parts


def _panel(
    panel: Panel,
    box: tuple[float, float, float, float],
    left: float,
    top: float,
    width: float,
    height: float,
    with_labels: bool,
) -> list[str]:
    x0, x1, y0, y1 = box

    def px(x: float) -> float:
        return left + (math.log10(x) - x0) / (x1 - x0) * width

    def py(y: float) -> float:
        return top + (y1 - y) / (y1 - y0) * height

    parts = [_label(panel.title, left + width / 2, top - 8)]
    for y in ticks(y0, y1):
        parts.append(
            f'<line x1="{left}" x2="{left + width}" y1="{py(y):.1f}" y2="{py(y):.1f}"'
            ' stroke="#e5e7eb"/>'
        )
        if with_labels:
            parts.append(
                f'<text x="{left - 6}" y="{py(y) + 4:.1f}" text-anchor="end"'
                f' fill="#374151">{y:.2f}</text>'
            )
    for x in (10.0**i for i in range(math.ceil(x0 - 1e-9), math.floor(x1 + 1e-9) + 1)):
        parts.append(
            f'<line x1="{px(x):.1f}" x2="{px(x):.1f}" y1="{top}" y2="{top + height}"'
            ' stroke="#e5e7eb"/>'
        )
        parts.append(_label(_short(x), px(x), top + height + 18))
    for colour, s in zip(COLOURS, panel.series, strict=False):
        points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(s.x, s.y, strict=True))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    return parts


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between low and high."""
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _short(x: float) -> str:
    return f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}"
