"""Numbers as tables show them."""

from __future__ import annotations

import math
from collections.abc import Iterable

NONE, MINUS = "\u2013", "\u2212"  # a dash where there is no value, -
SHADES = (0.01, 0.03, 0.1, 0.2)  # a loss of nDCG above the first is shaded, above the last most


def decimals_of(means: Iterable[float]) -> int:
    """Three, as is usual for measures up to 1; fewer for large means, more for tiny."""
    largest = max((abs(mean) for mean in means), default=1.0)
    exponent = math.floor(math.log10(largest)) if largest > 0.0 else 0
    return max(0, 3 - exponent) if exponent >= 0 else min(3 - exponent - 1, 9)


def signed(number: float, decimals: int = 3) -> str:
    """+0.012, −0.034; what rounds to nothing has no sign."""
    size = f"{abs(number):.{decimals}f}"
    return size if float(size) == 0.0 else f"{'+' if number > 0 else MINUS}{size}"


def shade(changed: float | None) -> int:
    """How dark the cell of a change is: 0 .. 4."""
    return 0 if changed is None else sum(-changed > loss for loss in SHADES)


def told_p(p: float | None) -> str:
    """ "p < 0.001", "p = 0.013" """
    return "" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
