"""Numbers, truths and texts as the annotation of a field wants them."""

from __future__ import annotations

import math
import operator
from typing import Any

from foltr.errors import Mistake, shown

MOST_BITS = 1000  # of an integer: more does not fit a float, and Python writes no integer of thousands of digits
DEEPEST = 50  # tables or lists inside each other


def scalar(value: Any, hint: Any, where: str) -> Any:
    """`value` as a bool, str, int or float, or a Mistake that names both."""
    wrong = Mistake(f"{where}: expected {getattr(hint, '__name__', hint)}, got {shown(value)}")
    if hint is bool or hint is str:
        if type(value) is hint:
            return value
        raise wrong
    if isinstance(value, bool | str | bytes | bytearray):
        raise wrong
    try:
        number = operator.index(value) if hint is int else float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if isinstance(number, int) and number.bit_length() > MOST_BITS:
        raise Mistake(f"{where}: {shown(value)} is too large")
    if isinstance(number, float) and not math.isfinite(number):
        raise Mistake(f"{where}: {shown(value)} is not a finite number")
    return number if hint is int else number + 0.0  # -0.0 equals 0.0 and must print like it


def check_extent(value: Any, depth: int = 0) -> None:
    """Refuses what a file may hold and nobody means, and no message could show: endless integers, lists in lists."""
    if depth > DEEPEST:
        raise ValueError(f"its tables or lists are nested more than {DEEPEST} deep")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"it holds an integer of more than {MOST_BITS} bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_extent(part, depth + 1)
