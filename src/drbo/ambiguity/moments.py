"""Means within given distances of the reference's means: a set in the units of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo._messages import listed, printable
from drbo.ambiguity.linear import ROUNDING, Linear, PlacedLinear
from drbo.ambiguity.placed import Growth
from drbo.spaces.space import Column, named
from drbo.validation import FloatArray

__all__ = ["Moments"]


class PlacedMoments(PlacedLinear["Moments"]):
    """Bounds on means, on contexts."""

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        if isinstance(self.family.widths, dict):
            widths = {f"mean {printable(name)}": width for name, width in self.family.widths.items()}
        elif len(self.family.widths) == 1:
            widths = {"mean": self.family.widths[0]}
        else:
            widths = {f"mean of column {i}": width for i, width in enumerate(self.family.widths) if width < math.inf}
        return "whose " + " and ".join(
            f"{what} is within {radius * width:.3g} of the reference's" for what, width in widths.items()
        )

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the shift of the means with the contexts, in widths; 0 for columns without a width."""
        shift = reference @ (self._features(points) - self.features)
        return float((np.abs(shift) / self._widths).max())

    def bounds(self, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        mean = reference @ self.features
        reach = radius * self._widths
        return mean - reach, mean + reach

    def ceiling(self, points: FloatArray, half: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return y'x(c) itself, which is affine; for a logarithmic column its tangent and the error of the tangent."""
        level, slope = self._features(points) @ y, np.zeros_like(points)
        for (column, _), price in zip(self.family.chosen, y, strict=True):
            i = column.first
            if column.logarithmic:
                # exp(x) <= exp(a) (1 + (x - a) + exp(h) - 1 - h) for |x - a| <= h, and exp(x) >= exp(a) (1 + x - a)
                at = np.exp(points[:, i])
                slope[:, i] += price * at
                level += max(price, 0.0) * at * (np.expm1(half[:, i]) - half[:, i])
            else:
                slope[:, i] += price
        return level, slope

    def _features(self, points: FloatArray) -> FloatArray:
        return np.stack([column.numbers(points) for column, _ in self.family.chosen], axis=1)

    @property
    def _widths(self) -> FloatArray:
        return np.array([width for _, width in self.family.chosen])

    def _apart(self, weights: FloatArray, reference: FloatArray) -> FloatArray:
        """Return the distances of the means of weights (..., n) from the reference's, in widths (...,)."""
        features = self.features - reference @ self.features
        shift = np.abs((weights - reference) @ features) - ROUNDING * np.ptp(features, axis=0)
        return np.asarray((np.maximum(shift, 0.0) / self._widths).max(axis=-1))

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(self._apart(p, q))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return self._apart(np.eye(len(reference)), reference)


class Moments(Linear):
    """All distributions whose mean of each named column is within a given width of the reference's mean.

    `Moments(outdoor=2.0)`: "the mean outdoor temperature is within 2 degrees of the reference's". Only the means are
    bounded: mass may move to any context.

    |sum_i q_i x_j(c_i) - sum_i p_i x_j(c_i)| <= eps width_j,   x_j(c) the number in column j

    The radius eps is a factor on the widths, 1 by default: 0.5 halves them, 0 means equal means. distance(q, p) = max_j
    |mean_j(q) - mean_j(p)| / width_j. The distance is symmetric, and zero for equal means; means that differ by less
    than 1e-12 of the column's range count as equal.

    Parameters
    ----------
    widths : a mapping from columns to widths, for names that are not Python identifiers. For contexts without names, a
        number for the only column, or one number per column (inf: no bound on that mean)
    named : the widths by the names of the columns, positive, in the units of each column
    """

    growth = Growth(
        own=1.0,
        from_reference=False,
        convex=True,
        means="The radius is a factor on the widths: 1 is the set as stated, 0 asks for equal means.",
    )
    follows_reference = True

    def __init__(
        self, widths: Mapping[str, float] | float | list[float] | tuple[float, ...] | None = None, /, **named: float
    ) -> None:
        given = validation.by_name(widths)
        self.widths: dict[str, float] | tuple[float, ...]
        if named or isinstance(given, Mapping):
            if given is not None and not isinstance(given, Mapping):
                raise TypeError("Moments takes either names or plain numbers, and not both")
            if given is not None and (twice := set(given) & set(named)):
                raise TypeError(f"Moments must be given each column once, got {listed(twice)} twice")
            by_name = {**(given or {}), **named}
            self.widths = {str(key): _width(f"Moments[{key!r}]", value) for key, value in by_name.items()}
        elif given is None:
            self.widths = {}
        else:
            numbers = np.atleast_1d(np.asarray(given, dtype=object)).tolist()
            self.widths = tuple(_width(f"Moments[{i}]", value) for i, value in enumerate(numbers))
        widest = self.widths.values() if isinstance(self.widths, dict) else self.widths
        if not any(math.isfinite(width) for width in widest):
            raise TypeError("Moments needs the width of a column, such as Moments(outdoor=2.0) or Moments(2.0)")
        self.chosen: tuple[tuple[Column, float], ...] = ()

    def __repr__(self) -> str:
        if isinstance(self.widths, dict):
            inside = ", ".join(f"{printable(name)}={width:g}" for name, width in self.widths.items())
        else:
            inside = ", ".join(f"{width:g}" for width in self.widths)
            inside = f"[{inside}]" if len(self.widths) > 1 else inside
        return f"Moments({inside})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `from_arguments`."""
        return {"widths": self.widths}

    @classmethod
    def from_arguments(cls, widths: Any) -> Self:
        """Return the set of these widths."""
        return cls(widths)

    def _choose(self, columns: tuple[Column, ...]) -> None:
        if isinstance(self.widths, dict):
            chosen = [(named(name, columns), width) for name, width in self.widths.items()]
        elif len(self.widths) == len(columns):
            chosen = [(column, width) for column, width in zip(columns, self.widths, strict=True)]
        else:
            raise ValueError(f"Moments must have one width per column, which are {listed(columns)}, got {self!r}")
        for column, width in chosen:
            if column.labels is not None and width < math.inf:
                raise ValueError(
                    f"Moments needs a column of numbers, but {printable(column)} holds labels: use drbo.Shares"
                )
        self.chosen = tuple((column, width) for column, width in chosen if width < math.inf)

    def _at(self, points: FloatArray) -> PlacedMoments:
        return PlacedMoments(self, points)


def _width(name: str, value: Any) -> float:
    width = validation.radius(value, name)
    if width == 0.0:
        raise ValueError(f"{name} must be positive; for equal means use radius=0")
    return width
