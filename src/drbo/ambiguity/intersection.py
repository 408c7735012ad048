"""The distributions of a ball that also satisfy bounds on means or shares.

    worst case = min <w, v>  over  w in the ball with  lower <= F'w <= upper,   F (n, k) the features of the bounds

The ball has its own solver, and the bounds are few. For any multipliers y, no such w has an expectation below

    (worst case of v - F y in the ball) + sum_j (y_j lower_j if y_j > 0 else y_j upper_j).                         (*)

The best y is found by column generation (Dantzig and Wolfe). Distributions of the ball are collected. The best mixture
of them that satisfies the bounds is a small linear program, whose multipliers are the next y. The ball's worst case for
v - F y is the next distribution. The mixture is feasible, and (*) certifies it. The gap closes after a few steps.

The sensitivity is the ball's sensitivity for v - F y at the best y (envelope theorem; the bounds do not depend on the
radius).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import announce
from drbo.ambiguity.any_of import AnyOf
from drbo.ambiguity.family import AmbiguitySet, among
from drbo.ambiguity.linear import ROUNDING, Linear, PlacedLinear, ScaledBounds, solve_rows, support, usable
from drbo.ambiguity.metric import Metric
from drbo.ambiguity.placed import (
    GAP_TOLERANCE,
    Dual,
    PlacedSet,
    WorstCase,
    in_unit_range,
    on_range,
    shifting,
    with_slopes,
)
from drbo.ambiguity.shares import Shares
from drbo.kernels import Kernel
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["Intersection"]

_STEPS = 400
"""Largest number of collected distributions; a gap that remains is an error."""
_CLOSE = 0.2 * GAP_TOLERANCE
"""The gap at which the search stops, as a share of the range of the values."""
_HUGE = 1e6
"""Cost of the artificial distribution; real ones cost from 0 to 1."""
_BEYOND = 1e-5
"""Distance beyond a radius, as a share of its unit, at which right derivatives are taken: closer by, the worst cases
on both sides of a kink differ by less than the gap.
"""
_KEEPS = 1e-9
"""Tolerance of a bound, as a share of its range."""


class PlacedIntersection(PlacedSet):
    """The distributions of the ball `inner` that satisfy the bounds `limits`, on contexts."""

    def __init__(self, inner: PlacedSet, limits: tuple[PlacedLinear[Any], ...]) -> None:
        self.inner, self.limits = inner, limits
        self.n_contexts = limits[0].n_contexts
        means = "The radius is that of the ball. The bounds hold as stated, and a shift that breaks one is outside."
        self.growth = replace(inner.growth, means=means)

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, (self.inner, *self.limits)))})"

    def words(self, radius: float) -> str:
        return " and ".join([self.inner.words(radius), *(one.words(_own(one)) for one in self.limits)])

    @property
    def everything(self) -> str:
        return f"{self.inner.everything} that keeps the bounds"

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the ball's distance of moved contexts (n, d) from the reference; inf if they violate a bound."""
        kept = self._kept(reference, points)
        return float("inf") if kept is None or kept[1] < 1.0 else shifting(self.inner).moved(reference, points)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the shares of the mass that may move within the ball and all bounds."""
        kept, inside = self._kept(reference, points), shifting(self.inner).shares_inside(reference, points, radius)
        return None if kept is None or inside is None else _common([kept, inside])

    def _kept(self, reference: FloatArray, points: FloatArray) -> tuple[float, float] | None:
        """Return the shares of moving mass for which all bounds hold; None if there are none."""
        every = [one.shares_inside(reference, points, _own(one) + _KEEPS) for one in self.limits]
        return _common([one for one in every if one is not None]) if all(every) else None

    def extended(self, further: FloatArray) -> PlacedIntersection:
        """Return the set with further contexts (k, d)."""
        inner = on_range(self.inner).extended(further)
        return PlacedIntersection(inner, tuple(one.extended(further) for one in self.limits))

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the ball's dual for v - F y, with the prices y of the bounds added to its thresholds."""
        lowest = float(values.min())
        v = values - lowest  # bounds are rounded relative to the range of the values
        bounds = self._bounds(reference)
        y = self._search(v[None], reference, radius, bounds).multipliers[0]
        shifted = v - bounds.features @ y
        alone = self.inner.certified(shifted[None], reference, radius)[0]
        dual = on_range(self.inner).dual(shifted, reference, radius, alone)
        if dual is None:
            return None
        prices = [y[part] for part in bounds.parts]

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = dual.threshold(points, half)
            for one, price in zip(self.limits, prices, strict=True):
                more, steeper = one.ceiling(points, half, price)
                level, slope = level + more, slope + steeper
            return lowest + level, slope

        bound = lowest + (dual.bound + float(support(y, bounds.lower, bounds.upper)))
        return Dual(min(bound, float(worst.expectation)), dual.share, threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the ball's sensitivities (m,) for v - F y, with the prices y of the bounds."""
        bounds = self._bounds(reference)
        v = values - values.min(axis=1, keepdims=True)
        y = self._search(v, reference, radius + _BEYOND * self.growth.unit, bounds).multipliers
        return with_slopes(self.inner).slopes(v - y @ bounds.features.T, reference, radius)

    def _bounds(self, reference: FloatArray) -> _BoundRows:
        """Return the bounds around a reference, as rows of one linear program."""
        ends = [one.bounds(reference, _own(one)) for one in self.limits]
        features = np.concatenate([one.features for one in self.limits], axis=1)
        lower, upper = (np.concatenate([pair[side] for pair in ends]) for side in (0, 1))
        edges = np.cumsum([0, *(len(pair[0]) for pair in ends)])
        return _BoundRows(features, lower, upper, tuple(slice(a, b) for a, b in itertools.pairwise(edges)))

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if any(one.distance(p, q) > _own(one) + _KEEPS for one in self.limits):
            return float("inf")
        return self.inner.distance(p, q)

    def _diameter(self, reference: FloatArray) -> float:
        return self.inner._diameter(reference)

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        return self.inner._diameter_in(reference, hull)

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        bounds = self._bounds(reference)
        alone = self.inner.certified(values, reference, radius)
        weights, lower_bound = alone.weights, alone.lower_bound.copy()
        means = weights @ bounds.features
        slack = ROUNDING * np.ptp(bounds.features, axis=0)
        outside = ((means < bounds.lower - slack) | (means > bounds.upper + slack)).any(axis=1)
        if outside.any():  # elsewhere the ball's worst distribution satisfies the bounds: it is the answer
            found = self._search(values[outside], reference, radius, bounds)
            weights[outside], lower_bound[outside] = found.weights, found.lower_bound
        return weights, lower_bound

    def _search(self, values: FloatArray, reference: FloatArray, radius: float, bounds: _BoundRows) -> _Mixtures:
        """Return the worst mixtures of the ball's distributions that satisfy the bounds, with their multipliers."""
        rows = ScaledBounds.of(bounds.features, bounds.lower, bounds.upper)
        if rows.impossible:
            self._refuse(radius)
        u, lowest, span = in_unit_range(values)
        weights, multipliers = np.zeros_like(u), np.zeros((len(u), len(rows.sizes)))
        lower_bound, y = np.full(len(u), -np.inf), np.zeros_like(multipliers)
        first = [reference] if self.inner.distance(reference, reference) <= radius else []
        collected = [first.copy() for _ in u]
        unfinished, lacking = np.arange(len(u)), np.zeros(len(u), dtype=bool)
        announce(solve_rows)
        for _ in range(_STEPS):
            inner = self.inner.certified(u[unfinished] - y[unfinished] @ rows.features.T, reference, radius)
            bound = inner.lower_bound + support(y[unfinished], rows.lower, rows.upper)
            still = []
            for i, found, certified in zip(unfinished, inner.weights, bound, strict=True):
                if certified > lower_bound[i]:
                    lower_bound[i], multipliers[i] = certified, y[i]
                if certified > 1.0 + 1e-6:  # above every value, so no distribution satisfies the bounds
                    self._refuse(radius)
                collected[i].append(found)
                weights[i], y[i], lacking[i] = _mixture(np.array(collected[i]), u[i], rows)
                if lacking[i] or weights[i] @ u[i] - lower_bound[i] > _CLOSE:
                    still.append(i)
            unfinished = np.array(still, dtype=np.intp)
            if not len(unfinished):
                break
        if lacking.any():
            self._refuse(radius)
        return _Mixtures(weights, lowest + span * lower_bound, multipliers * span[:, None] / rows.sizes)

    def _refuse(self, radius: float) -> None:
        raise ValueError(
            f"{self!r} holds no distribution at radius {radius:.3g}: no distribution of the ball satisfies the bounds. "
            "Give a larger radius, or wider bounds"
        )


class Intersection(AmbiguitySet):
    """The distributions of a ball that also satisfy bounds: `Intersection(MMD(), Moments(outdoor=2.0))`.

    The radius is that of the ball. `Moments` and `Shares(..., free_inside=True)` are bounds, which hold as stated. If
    all sets are bounds, the first one is the ball, with its radius.

    distance(q, p) is the ball's distance if q satisfies the bounds around p, otherwise inf. If the reference violates
    the shares, the set may be empty at a small radius, which raises an error.

    Parameters
    ----------
    sets : one ball, and any number of bounds
    """

    def __init__(self, *sets: AmbiguitySet) -> None:
        for one in sets:
            if not isinstance(one, AmbiguitySet):
                raise TypeError(f"Intersection takes ambiguity sets, got {one!r}")
            if isinstance(one, AnyOf | Intersection):
                raise TypeError(
                    f"Intersection takes a ball and bounds, got {one!r}: put the intersection inside, as in "
                    "AnyOf(scenarios, within=Intersection(...)), and give all bounds at once"
                )
        if len(sets) < 2:
            raise TypeError(f"Intersection needs a ball and at least one bound, got {len(sets)} set(s)")
        balls = [one for one in sets if not _is_bound(one)]
        if len(balls) > 1:
            names = " and ".join(map(repr, balls))
            raise TypeError(
                f"Intersection takes one ball, and Moments or Shares(..., free_inside=True) as bounds, got {names}"
            )
        self.inner = balls[0] if balls else sets[0]
        self.limits: tuple[Linear, ...] = tuple(
            one for one in sets if one is not self.inner and isinstance(one, Linear)
        )
        self.growth = self.inner.growth

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, (self.inner, *self.limits)))})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `from_arguments`."""
        return {"sets": (self.inner, *self.limits)}

    @classmethod
    def from_arguments(cls, sets: Sequence[AmbiguitySet]) -> Self:
        """Return the intersection of these sets."""
        return cls(*sets)

    @property
    def n_contexts(self) -> int | None:
        return self.inner.n_contexts

    def with_columns(self, columns: Sequence[Column]) -> Intersection:
        return Intersection(*(one.with_columns(columns) for one in (self.inner, *self.limits)))

    def among(self, rows: NDArray[np.intp]) -> Intersection:
        """Return the family for some of the contexts (k,)."""
        return Intersection(among(self.inner, rows), *self.limits)

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel | Metric] | None:
        if any(one.follows_reference for one in self.limits):
            return None
        return self.inner.compression(points, scales)

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedIntersection:
        limits = tuple(one._place(points, scales) for one in self.limits)
        return PlacedIntersection(self.inner.on(points, scales), limits)


@dataclass(frozen=True, eq=False)
class _BoundRows:
    """All bounds around a reference: lower <= F'w <= upper; `parts` holds the rows of each set."""

    features: FloatArray
    lower: FloatArray
    upper: FloatArray
    parts: tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class _Mixtures:
    """Worst-case weights (m, n), certified lower bounds (m,), and the multipliers (m, k) that certify them."""

    weights: FloatArray
    lower_bound: FloatArray
    multipliers: FloatArray


def _mixture(collected: FloatArray, u: FloatArray, rows: ScaledBounds) -> tuple[FloatArray, FloatArray, bool]:
    """Return the best mixture (n,) of distributions (j, n) within the bounds, its multipliers (k,), and if none exists.

    While no mixture satisfies the bounds, an artificial distribution that does, at a huge cost, is part of the mixture.
    """
    means, costs = collected @ rows.features, collected @ u
    fictitious = np.clip(means.mean(axis=0), rows.lower, rows.upper)
    A = np.concatenate([means, fictitious[None]]).T
    shares, y, _ = solve_rows(np.append(costs, _HUGE)[None], np.ascontiguousarray(A), rows.lower, rows.upper)
    real = shares[0, :-1]
    lacking = bool(shares[0, -1] > 1e-12)
    total = float(real.sum())
    mixture = real @ collected / total if total > 0.0 else collected[-1]
    return mixture, usable(y[0], rows.lower, rows.upper), lacking


def _common(intervals: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the intersection of intervals; None if it is empty."""
    least, most = max(low for low, _ in intervals), min(high for _, high in intervals)
    return (least, most) if least <= most else None


def _is_bound(one: AmbiguitySet) -> bool:
    return isinstance(one, Linear) and not (isinstance(one, Shares) and not one.free_inside)


def _own(one: PlacedSet) -> float:
    """Return the radius at which a bound holds as stated."""
    assert one.growth.own is not None
    return one.growth.own
