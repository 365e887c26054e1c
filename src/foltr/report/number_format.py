"""How numbers are written in tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable

NONE, MINUS = "\u2013", "\u2212"  # a dash where there is no value; a minus sign
SHADES = (0.01, 0.03, 0.1, 0.2)  # a cell is shaded by how many of these losses of nDCG it exceeds


def decimals_of(means: Iterable[float]) -> int:
    """How many decimals a table shows: three for measures up to 1, fewer for large means, more
    for tiny ones."""
    largest = max((abs(mean) for mean in means), default=1.0)
    exponent = math.floor(math.log10(largest)) if largest > 0.0 else 0
    return max(0, 3 - exponent) if exponent >= 0 else min(3 - exponent - 1, 9)


def signed(number: float, decimals: int = 3) -> str:
    """ "+0.012", "−0.034"; a number that rounds to 0 has no sign"""
    size = f"{abs(number):.{decimals}f}"
    return size if float(size) == 0.0 else f"{'+' if number > 0 else MINUS}{size}"


def shade(change: float | None) -> int:
    """How dark the cell of a change of nDCG is: 0 (no shade) .. 4."""
    return 0 if change is None else sum(-change > loss for loss in SHADES)


def p_value(p: float | None) -> str:
    """ "p < 0.001", "p = 0.013" """
    return "" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def count(n: int, noun: str) -> str:
    """ "1 run", "1,200 runs" """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
