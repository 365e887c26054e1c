"""How raw features become the features that a ranker was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake, require, shown

PER_QUERY, PER_FEATURE = "min-max per query", "shift and scale"  # kinds, in files


@dataclass(frozen=True)
class PerQuery:
    """Min-max within each query, over all of its documents: (x - min) / (max - min), and 0 where
    a feature is constant. `normalize=True` of the data sources."""

    def __call__(self, docs: Array) -> Array:
        """Raw features (m, f) of all documents of one query -> normalised ones, float32."""
        if not len(docs):
            return docs.astype(np.float32)
        low = docs.min(axis=0).astype(np.float64)
        span = docs.max(axis=0) - low
        scaled = (docs - low) / np.where(span > 0.0, span, 1.0)
        return scaled.astype(np.float32)

    def widened(self, features: int) -> PerQuery:
        """This normalisation with so many more features. It does not change features that are 0 in
        some documents of a query and 1 in the others, or 0 in all."""
        return self

    def plain(self) -> dict[str, Any]:
        """The normalisation as plain values, for files."""
        return {"kind": PER_QUERY}


@dataclass(frozen=True)
class PerFeature:
    """A fixed shift and scale of each feature: (x - shift) / scale, and 0 where the scale is 0.
    With mean and standard deviation this is standardisation; with minimum and maximum - minimum it
    is min-max. The numbers are rounded to float32, because search plugins hold them so."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("shift", "scale"):
            try:
                with np.errstate(over="ignore"):
                    numbers = np.asarray(getattr(self, name), np.float64).astype(np.float32)
            except (ValueError, TypeError):
                raise Mistake(f"{name} must be one number per feature") from None
            fits = numbers.ndim == 1 and bool(np.isfinite(numbers).all())
            require(fits, f"{name} must be one number of float32 per feature")
            object.__setattr__(self, name, tuple(numbers.tolist()))
        shifts, scales = len(self.shift), len(self.scale)
        require(shifts == scales, f"there are {shifts} shifts and {scales} scales")
        require(min(self.scale, default=0.0) >= 0.0, "scale must be >= 0 for every feature")

    def __call__(self, docs: Array) -> Array:
        """Raw features (m, f) of any documents -> normalised ones, float32."""
        scale = np.array(self.scale)
        scaled = (docs - np.array(self.shift)) / np.where(scale > 0.0, scale, np.inf)
        with np.errstate(over="ignore"):
            return scaled.astype(np.float32)

    def widened(self, features: int) -> PerFeature:
        """This normalisation with so many more features, which it does not change."""
        return PerFeature(
            (*self.shift, *(0.0 for _ in range(features))),
            (*self.scale, *(1.0 for _ in range(features))),
        )

    def plain(self) -> dict[str, Any]:
        """The normalisation as plain values, for files."""
        return {"kind": PER_FEATURE, "shift": list(self.shift), "scale": list(self.scale)}


Normalisation = PerQuery | PerFeature


def normalisation_of(plain: Any, features: int) -> Normalisation:
    """The normalisation that `plain` wrote. Raises a Mistake for other values, or for another
    number of features."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if kind == PER_QUERY and len(plain) == 1:
        return PerQuery()
    if kind == PER_FEATURE and set(plain) == {"kind", "shift", "scale"}:
        made = PerFeature(plain["shift"], plain["scale"])
        check_width(made, features)
        return made
    known = f"{PER_QUERY!r} and {PER_FEATURE!r}"
    raise Mistake(f"{shown(plain)} is no known normalisation: this foltr knows {known}")


def check_width(normalisation: Normalisation, features: int) -> None:
    if isinstance(normalisation, PerFeature):
        has = f"the normalisation is of {len(normalisation.shift)} features"
        require(len(normalisation.shift) == features, f"{has}, and the ranker has {features}")
