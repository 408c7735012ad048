"""Sets stated by columns: distributions whose means of some features of the contexts lie between bounds.

    worst case = min <w, v>  s.t.  w >= 0, sum w = 1, lower_j <= sum_i w_i f_j(c_i) <= upper_j

is a linear program with few constraints. Certificate: for any multipliers y, no such w has an expectation below

    min_i (v_i - sum_j y_j f_j(c_i)) + sum_j (y_j lower_j if y_j > 0 else y_j upper_j).

The same y prices every other context: threshold(c) = min_i (v_i - y'f(c_i)) + y'f(c).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from drbo import validation
from drbo._compiled import announce
from drbo.ambiguity._simplex import solve_rows
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import EPSILON, NEXT, Dual, PlacedSet, WorstCase, in_unit_range
from drbo.spaces.columns import Column, unnamed_columns
from drbo.validation import FloatArray

ROUNDING = 1e-12
"""Means of a feature that differ by less than this share of its range count as equal."""


Words = TypeVar("Words", bound="Linear")


class PlacedLinear(PlacedSet, Generic[Words]):
    """Distributions with bounds on the means of features; the bounds depend on the reference and the radius.

    Attributes
    ----------
    family : the set as it was stated, for contexts with known columns
    contexts : (n, d) in the user's units
    features : (n, k) of the contexts
    """

    n_contexts: int

    def __init__(self, family: Words, contexts: FloatArray, features: FloatArray | None = None) -> None:
        self.family, self.growth = family, family.growth
        self.contexts, self.n_contexts = validation.frozen(contexts), len(contexts)
        self.features = validation.frozen(self._features(contexts) if features is None else features)

    def __repr__(self) -> str:
        return repr(self.family)

    def extended(self, further: FloatArray) -> Self:
        """Return the set with further contexts (k, d)."""
        features = np.concatenate([self.features, self._features(further)])
        return type(self)(self.family, np.concatenate([self.contexts, further]), features)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the shares s for which the means (1 - s) E f(c) + s E f(moved c) lie between the bounds."""
        here = reference @ self.features
        way = reference @ self._features(points) - here
        lower, upper = self.bounds(reference, radius)
        still = np.abs(way) <= ROUNDING * np.abs(here)
        rate = np.where(still, 1.0, way)
        ends = np.sort([(lower - here) / rate, (upper - here) / rate], axis=0)
        never = still & ((here < lower) | (here > upper))
        least = max(0.0, float(np.where(still, -np.inf, ends[0]).max()))
        most = min(1.0, float(np.where(still, np.inf, ends[1]).min()))
        return (least, most) if least <= most and not never.any() else None

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point: threshold(c) = min_i (v_i - y'f(c_i)) + y'f(c)."""
        lowest = float(values.min())
        v = values - lowest  # bounds are rounded relative to the range of the values
        lower, upper = self.bounds(reference, radius)
        y = self.solved(v[None], self.features, lower, upper)[1][0]
        base = float((v - self.features @ y).min())

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = self.ceiling(points, half, y)
            return lowest + (base + level), slope

        bound = lowest + (base + float(support(y, lower, upper)))
        return Dual(min(bound, float(worst.expectation)), 1.0, threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return -sum_j y_j b_j' (m,): y the multipliers, b_j' the derivative of bound j in the radius."""
        y = self._multipliers(values, reference, radius + NEXT * (1.0 + radius))
        (lower, upper), (lower_at_1, upper_at_1) = (self.bounds(reference, eps) for eps in (0.0, 1.0))
        return 0.0 - support(y, lower_at_1 - lower, upper_at_1 - upper)

    def _multipliers(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the multipliers (m, k) of the bounds for values (m, n)."""
        return self.solved(values, self.features, *self.bounds(reference, radius))[1]

    @abstractmethod
    def bounds(self, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower (k,) and upper (k,) bounds on the means of the features."""

    @abstractmethod
    def ceiling(self, points: FloatArray, half: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return levels (m,) and slopes (m, d) of affine upper bounds on y'f in the cells |c - point| <= half."""

    @abstractmethod
    def _features(self, points: FloatArray) -> FloatArray:
        """Return the features (n, k) of points (n, d)."""

    def solved(
        self, values: FloatArray, features: FloatArray, lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return worst-case weights (m, n) and multipliers (m, k) for values (m, n) and features (n, k)."""
        u, _, scale = in_unit_range(values)
        rows = Rows.of(features, lower, upper)
        announce(solve_rows)
        weights, y, lacking = solve_rows(u, np.ascontiguousarray(rows.features.T), rows.lower, rows.upper)
        if rows.impossible or (lacking > 1e-9).any():
            self.refuse(features, lower, upper)
        return weights, usable(y, rows.lower, rows.upper) * scale[:, None] / rows.sizes

    def refuse(self, features: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
        """Raise an error with the reason why no distribution on contexts of these features satisfies the bounds."""
        del features, lower, upper
        raise ValueError(f"ambiguity {self!r} holds no distribution on these contexts")

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        lower, upper = self.bounds(reference, radius)
        weights, y = self.solved(values, self.features, lower, upper)
        return weights, certificate(values, self.features, y, lower, upper)


class Linear(AmbiguitySet):
    """The family of a set that is stated by columns."""

    follows_reference: bool = False
    """Whether the bounds move with the reference."""
    _columns: tuple[Column, ...] | None = None

    def with_columns(self, columns: Sequence[Column]) -> Self:
        """Return the set for contexts with these columns."""
        made = copy.copy(self)
        made._columns = tuple(columns)
        made._choose(made._columns)
        return made

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedLinear[Any]:
        del scales
        return (self if self._columns is not None else self.with_columns(unnamed_columns(points)))._at(points)

    @abstractmethod
    def _choose(self, columns: tuple[Column, ...]) -> None:
        """Set the columns that the set refers to; raise if a named column is missing."""

    @abstractmethod
    def _at(self, points: FloatArray) -> PlacedLinear[Any]:
        """Return the set on points (n, d) with the chosen columns."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Bounds on means in units of the features' ranges, so that one tolerance fits all.

    Attributes
    ----------
    features : (n, k) from -1 to 1; zero if constant over the contexts
    lower, upper : (k,) bounds on their means; infinite if constant
    sizes : (k,) half the range of each feature
    impossible : whether a constant feature violates its bounds
    """

    features: FloatArray
    lower: FloatArray
    upper: FloatArray
    sizes: FloatArray
    impossible: bool

    @classmethod
    def of(cls, features: FloatArray, lower: FloatArray, upper: FloatArray) -> Self:
        """Return the bounds lower and upper (k,) on the means of features (n, k)."""
        centre = 0.5 * (features.max(axis=0) + features.min(axis=0))
        half = 0.5 * np.ptp(features, axis=0)
        flat = half <= 4.0 * EPSILON * np.abs(centre)
        slack = ROUNDING * (1.0 + np.abs(centre))
        outside = (centre < lower - slack) | (centre > upper + slack)
        sizes = np.where(flat, 1.0, half)
        rounding = 8.0 * EPSILON * np.abs(centre)  # of a mean: bounds that differ by less count as equal
        return cls(
            np.where(flat, 0.0, (features - centre) / sizes),
            np.where(flat, -np.inf, (lower - rounding - centre) / sizes),
            np.where(flat, np.inf, (upper + rounding - centre) / sizes),
            sizes,
            bool((flat & outside).any()),
        )


def usable(y: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return multipliers y (..., k) without rounding residues on infinite bounds."""
    return np.where(np.isfinite(np.where(y > 0.0, lower, upper)), y, 0.0)


def support(y: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the least y'm over means m between the bounds, for multipliers y (..., k); zeros use no bound."""
    ends = np.where(y == 0.0, 0.0, np.where(y > 0.0, lower, upper))
    return np.asarray((y * ends).sum(axis=-1))


def certificate(
    values: FloatArray, features: FloatArray, y: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """Return the lower bounds (m,) that multipliers y (m, k) certify for values (m, n).

    Values and features are centred on their ranges, so that rounding is relative to the ranges.
    """
    lowest = values.min(axis=1)
    centre = 0.5 * (features.max(axis=0) + features.min(axis=0))
    base = ((values - lowest[:, None]) - y @ (features - centre).T).min(axis=1)
    return np.asarray(lowest + (base + support(y, lower - centre, upper - centre)))
