"""JSON text that every parser reads."""

from __future__ import annotations

import json
import math
from typing import Any


def strict_json(content: Any) -> str:
    """JSON text in ASCII, in one line. Infinities and NaN, which JSON does not have, become
    null; an object that JSON does not know becomes its text."""
    return json.dumps(_finite(content), allow_nan=False, separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
