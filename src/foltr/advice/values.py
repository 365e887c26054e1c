"""What error messages say of a value that a component gave: what it is, what is due instead, and
which component made numbers that are not finite."""

from __future__ import annotations

import numpy as np

from foltr.errors import Mistake, shown, with_article

# A component that makes numbers that are not finite, of numbers up to this size, is wrong. Larger
# ones have grown from round to round: the steps are too large.
MODERATE = 1e9


def kind(value: object) -> str:
    """What a component returned, in a few words."""
    if value is None:
        return "nothing (is `return` missing?)"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} values"
    if shape := np.shape(value):  # type: ignore[call-overload]
        return f"{with_article(type(value).__name__)} of shape {tuple(shape)}"
    return shown(value)


def unlike(given: object, shape: tuple[int, ...], dtype: str) -> str:
    """What was given, what is due instead, and how to make that of it."""
    due = f"{kind(given)}, not {dtype} of shape {shape}"
    if isinstance(given, tuple | list):
        return f"{due}: write np.array(..., np.{dtype})"
    if not isinstance(given, np.ndarray):
        return f"{due}: write .detach().numpy()" if "detach" in dir(given) else due  # torch
    if given.size != int(np.prod(shape)) or given.dtype.kind not in "fiub":
        return due
    sizes = ", ".join(map(str, shape)) if len(shape) > 1 else "-1"
    reshaped = "" if given.shape == shape else f".reshape({sizes})"
    retyped = f".astype(np.{dtype})" if given.dtype.char not in "df" else ""
    return f"{due}: write {reshaped}{retyped}"


def not_finite(made: str, given: np.ndarray, **of: np.ndarray) -> Exception:
    """The error for numbers that are not finite, with their count and the size of what they were
    made `of`: a mistake of the component that made them, unless those were large already."""
    bad = [
        f"{count:,} {word}"
        for word, count in (("NaN", np.isnan(given).sum()), ("infinite", np.isinf(given).sum()))
        if count
    ]
    sizes = {name: float(np.abs(part).max(initial=0.0)) for name, part in of.items()}
    sources = " and ".join(f"{name} of up to {size:.3g}" for name, size in sizes.items())
    text = f"{made} that are not finite: {' and '.join(bad)} of {given.size:,}"
    text += f", from {sources}" if sources else ""
    grown = not all(size <= MODERATE for size in sizes.values())
    return FloatingPointError(text) if grown else Mistake(text)
