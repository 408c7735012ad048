"""Sets stated by columns: distributions whose means of some features of the contexts lie between bounds.

    worst case = min <w, v>  s.t.  w >= 0, sum w = 1, lower_j <= sum_i w_i f_j(c_i) <= upper_j

is a linear program with few constraints. Certificate: for any multipliers y, no such w has an expectation below

    min_i (v_i - sum_j y_j f_j(c_i)) + sum_j (y_j lower_j if y_j > 0 else y_j upper_j).

The same y prices every other context: threshold(c) = min_i (v_i - y'f(c_i)) + y'f(c).

The program is solved by a compiled dual simplex method, `solve_rows`. The rows become A w - s = 0 with slacks
lower <= s <= upper, so a basis has k + 1 columns. All mass on the lowest value, with every slack in the basis, is dual
feasible: the method starts there, and there is no first phase. It stops at the first basis whose w and s satisfy their
bounds; y are the multipliers of this basis.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._compiled import announce, in_order
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import EPSILON, NEXT, Dual, PlacedSet, WorstCase, in_unit_range
from drbo.spaces.space import Column, columns_of
from drbo.validation import FloatArray

ROUNDING = 1e-12
"""Means of a feature that differ by less than this share of its range count as equal."""
_FEASIBLE = 1e-14
"""Feasibility tolerance of a basic variable. Rows of A are of size one."""
_PIVOT = 1e-10
"""Smaller pivots count as zero."""
_TIE = 1e-9
"""Accuracy of reduced costs; among nearly equal ratios the largest pivot wins."""

Words = TypeVar("Words", bound="Linear")


class PlacedLinear(PlacedSet, Generic[Words]):
    """Distributions with bounds on the means of features (n, k) of contexts (n, d), in the user's units."""

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

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual:
        """Return the dual point: threshold(c) = min_i (v_i - y'f(c_i)) + y'f(c)."""
        lowest = float(values.min())
        v = values - lowest  # bounds are rounded relative to the range of the values
        lower, upper = self.bounds(reference, radius)
        u, features = self._reduced(v[None], reference)
        y = self.solved(u, features, lower, upper)[1][0]
        base = float((u[0] - features @ y).min())

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = self.ceiling(points, half, y)
            return lowest + (base + level), slope

        bound = lowest + (base + float(support(y, lower, upper)))
        return Dual(min(bound, float(worst.expectation)), 1.0, threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return -sum_j y_j b_j' (m,): y the multipliers, b_j' the derivative of bound j in the radius."""
        u, features = self._reduced(values, reference)
        y = self.solved(u, features, *self.bounds(reference, radius + NEXT * (1.0 + radius)))[1]
        (lower, upper), (lower_at_1, upper_at_1) = (self.bounds(reference, eps) for eps in (0.0, 1.0))
        return 0.0 - support(y, lower_at_1 - lower, upper_at_1 - upper)

    def _reduced(self, values: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values (m, k) and the features of the variables of the linear program: by default the contexts."""
        del reference
        return values, self.features

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
        rows = ScaledBounds.of(features, lower, upper)
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
        made = copy.copy(self)
        made._columns = tuple(columns)
        made._choose(made._columns)
        return made

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedLinear[Any]:
        del scales
        return (self if self._columns is not None else self.with_columns(columns_of(points)))._at(points)

    @abstractmethod
    def _choose(self, columns: tuple[Column, ...]) -> None:
        """Set the columns that the set refers to; raise if a named column is missing."""

    @abstractmethod
    def _at(self, points: FloatArray) -> PlacedLinear[Any]:
        """Return the set on points (n, d) with the chosen columns."""


@dataclass(frozen=True, eq=False)
class ScaledBounds:
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
    """Return the lower bounds (m,) that multipliers y (m, k) certify for values (m, n), centred against rounding."""
    lowest = values.min(axis=1)
    centre = 0.5 * (features.max(axis=0) + features.min(axis=0))
    base = ((values - lowest[:, None]) - y @ (features - centre).T).min(axis=1)
    return np.asarray(lowest + (base + support(y, lower - centre, upper - centre)))


@in_order
def solve_rows(
    costs: FloatArray, A: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each row of costs (m, n) the minimiser (m, n), multipliers (m, k) and infeasibility (m,)."""
    m, n = costs.shape
    k = len(A)
    columns = np.ones((n, k + 1))
    columns[:, 1:] = A.T
    x = np.zeros((m, n))
    y = np.zeros((m, k))
    lacking = np.zeros(m)
    for row in range(m):
        lacking[row] = _solve(costs[row], columns, lower, upper, x[row], y[row])
    return x, y, lacking


@in_order
def _solve(
    c: FloatArray, columns: FloatArray, lower: FloatArray, upper: FloatArray, x: FloatArray, multipliers: FloatArray
) -> float:
    """Write the minimiser (n,) and the multipliers (k,); return the infeasibility that no pivot removes."""
    n, size = columns.shape
    k = size - 1
    basis = np.empty(size, dtype=np.int64)
    basis[0] = np.argmin(c)
    basis[1:] = n + np.arange(k)
    basic = np.zeros(n + k, dtype=np.bool_)
    basic[basis] = True
    at_upper = np.zeros(k, dtype=np.bool_)
    B, inverse = np.empty((size, size)), np.empty((size, size))
    lacking = 0.0
    for _ in range(100 + 20 * (n + size)):  # the walk may visit all corners of the convex hull of the contexts
        cost, right = np.zeros(size), np.zeros(size)
        right[0] = 1.0
        for i in range(k):
            if not basic[n + i]:
                right[1 + i] = upper[i] if at_upper[i] else lower[i]
        for i in range(size):
            if basis[i] < n:
                B[:, i] = columns[basis[i]]
                cost[i] = c[basis[i]]
            else:
                B[:, i] = 0.0
                B[1 + basis[i] - n, i] = -1.0
        if not _invert(B, inverse):
            return np.inf
        values = _product(inverse, right)
        values += _product(inverse, right - _product(B, values))  # one step of refinement
        y = _product(inverse.T, cost)
        y += _product(inverse.T, cost - _product(B.T, y))

        leaving, lacking, rises = -1, _FEASIBLE, True
        for i in range(size):
            if basis[i] < n:
                below, above = -values[i], -np.inf
            else:
                below, above = lower[basis[i] - n] - values[i], values[i] - upper[basis[i] - n]
            if below > lacking:
                leaving, lacking, rises = i, below, True
            if above > lacking:
                leaving, lacking, rises = i, above, False
        if leaving >= 0:
            entering = _entering(c, columns, lower, upper, basic, at_upper, inverse[leaving], y, rises)
        if leaving < 0 or entering < 0:
            if leaving < 0:
                lacking = 0.0
            break
        left = basis[leaving]
        basic[left], basic[entering] = False, True
        basis[leaving] = entering
        if left >= n:
            at_upper[left - n] = not rises
    total = 0.0
    for i in range(size):
        if basis[i] < n:
            x[basis[i]] = max(values[i], 0.0)
            total += x[basis[i]]
    x /= total
    multipliers[:] = y[1:]
    return lacking


@in_order
def _entering(
    c: FloatArray,
    columns: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    basic: NDArray[np.bool_],
    at_upper: NDArray[np.bool_],
    row: FloatArray,
    y: FloatArray,
    rises: bool,
) -> int:
    """Return the variable that enters the basis when the one of `row` of the inverse leaves; -1 if none can.

    Harris: of the ratios that are equal up to the rounding of the reduced costs, the one with the largest pivot.
    """
    n, size = columns.shape
    least = np.inf
    sign = 1.0 if rises else -1.0
    pivots, ratios = np.zeros(n + size - 1), np.full(n + size - 1, np.inf)
    for j in range(n + size - 1):
        if basic[j]:
            continue
        if j < n:
            pivot, reduced = 0.0, c[j]
            for i in range(size):
                pivot += row[i] * columns[j, i]
                reduced -= y[i] * columns[j, i]
        else:
            i = j - n
            if lower[i] == upper[i]:
                continue
            pivot, reduced = -row[1 + i], y[1 + i]
            if at_upper[i]:
                pivot, reduced = -pivot, -reduced
        pivot *= -sign
        if pivot > _PIVOT:
            pivots[j], ratios[j] = pivot, max(reduced, 0.0) / pivot
            least = min(least, (max(reduced, 0.0) + _TIE) / pivot)
    entering, largest = -1, 0.0
    for j in range(n + size - 1):
        if ratios[j] <= least and pivots[j] > largest:
            entering, largest = j, pivots[j]
    return entering


@in_order
def _product(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Return the product of a small matrix and a vector, with the same bits on every machine."""
    found = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for j in range(len(vector)):
            found[i] += matrix[i, j] * vector[j]
    return found


@in_order
def _invert(matrix: FloatArray, inverse: FloatArray) -> bool:
    """Write the inverse of a small matrix, by elimination with partial pivoting; return whether it exists."""
    n = len(matrix)
    left = matrix.copy()
    inverse[:] = 0.0
    for i in range(n):
        inverse[i, i] = 1.0
    for i in range(n):
        best = i
        for r in range(i + 1, n):
            if abs(left[r, i]) > abs(left[best, i]):
                best = r
        if abs(left[best, i]) == 0.0:
            return False
        for j in range(n):
            left[i, j], left[best, j] = left[best, j], left[i, j]
            inverse[i, j], inverse[best, j] = inverse[best, j], inverse[i, j]
        pivot = left[i, i]
        for j in range(n):
            left[i, j] /= pivot
            inverse[i, j] /= pivot
        for r in range(n):
            factor = left[r, i]
            if r != i and factor != 0.0:
                for j in range(n):
                    left[r, j] -= factor * left[i, j]
                    inverse[r, j] -= factor * inverse[i, j]
    return True
