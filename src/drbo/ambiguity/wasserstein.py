"""Wasserstein balls: the adversary moves mass between contexts and pays for the distance."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from drbo import validation
from drbo._compiled import announce
from drbo._messages import listed
from drbo.ambiguity._transport_solver import cheapest_plan, cheapest_plans_on_line, worst_plans
from drbo.ambiguity.everywhere import PlacedEverywhere, PointEverywhere
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.metric import Metric, PlacedTransport, PointTransport, distances_between
from drbo.ambiguity.placed import (
    NEXT,
    Dual,
    Growth,
    Witness,
    WorstCase,
    in_unit_range,
    peak,
    reference_alone,
)
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["Wasserstein"]

_ALIKE = 3.0
"""Columns without names need a scale if their ranges differ by more than this factor."""


class PlacedWasserstein(PlacedTransport):
    """A Wasserstein set of finite order for a matrix of distances D between n contexts."""

    def __init__(self, metric: Metric, cost: FloatArray) -> None:
        super().__init__(metric, cost)
        self.growth = _growth(metric.order)
        # Relative to the largest distance, powers neither overflow nor lose the scale of the budget.
        self._largest = float(cost.max()) or 1.0
        self._relative = (cost / self._largest) ** self.order

    @functools.cached_property
    def _nearest(self) -> NDArray[np.intp]:
        """The contexts in the order of their distance from each context, (n, n)."""
        return np.argsort(self._relative, axis=1, kind="stable")

    def words(self, radius: float) -> str:
        return f"within a Wasserstein distance of {radius:.3g} of the reference, in {self.metric.units}"

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the best price s (m,) of the budget: at radius 0, max_ij (v_i - v_j) / D_ij^r, i of the support."""
        u, _, scale = in_unit_range(values)
        sources = np.flatnonzero(reference)
        p, cost = reference[sources], self._relative[sources]
        if radius > 0.0:
            budget = min((1.0 + NEXT) * self._budget(radius), 1e100)
            found = np.array([_best_price(row, p, cost, budget) for row in u])
        else:
            with np.errstate(divide="ignore", over="ignore"):
                rate = np.where(cost > 0.0, 1.0 / cost, 0.0)
            home = np.array([np.where(cost == 0.0, row, np.inf).min(axis=1) for row in u])
            found = np.array([((at[:, None] - row) * rate).max(initial=0.0) for at, row in zip(home, u, strict=True)])
        return np.asarray(scale * found / self._largest**self.order)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        announce(cheapest_plan)
        return self._root(cheapest_plan(q, p, self._relative, False))

    def _root(self, least: float) -> float:
        """Return the distance for this least cost of a plan, relative to the largest distance."""
        return self._largest * float(least ** (1.0 / self.order))

    def _to(self, reference: FloatArray, cost: FloatArray) -> FloatArray:
        largest = float(cost.max(initial=0.0)) or 1.0
        return np.asarray(largest * (reference @ (cost / largest) ** self.order) ** (1.0 / self.order))

    def _between(self, first: NDArray[np.intp], second: NDArray[np.intp], n_contexts: int) -> FloatArray:
        del n_contexts
        return np.asarray(self.cost[second, first])

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        budget = self._budget(radius)
        u, lowest, scale = in_unit_range(values)
        announce(worst_plans)
        weights, dual = worst_plans(u, reference, self._relative, self._nearest, budget)
        return weights, lowest + scale * dual

    def _budget(self, radius: float) -> float:
        """Return the budget of a plan, eps^r relative to the largest distance; it may be infinite."""
        with np.errstate(over="ignore"):
            return float(np.float64(radius / self._largest) ** self.order)


class PointWasserstein(PointTransport, PlacedWasserstein):
    """A Wasserstein set of finite order of points with known positions."""

    def __init__(self, metric: Metric, points: FloatArray) -> None:
        super().__init__(metric, points)
        self._steps = self._positions.steps
        self._on_line: tuple[NDArray[np.intp], FloatArray] | None = None
        if points.shape[1] == 1:
            along = points[:, 0] / self._steps[0]
            order = np.argsort(along, kind="stable")
            # small differences of large positions keep their digits
            self._on_line = order, (along[order] - along.min()) / self._largest

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the shares s of the mass that may move.

        W_r^r is convex in s, so W_r <= s^(1/r) W_r(s = 1), with equality for r = 1 and for labels at equal distances.
        If several short steps cost less than a long one, a larger share may move.
        """
        distance = self.moved(reference, points)
        if distance <= radius:
            return 0.0, 1.0
        safe = (radius / distance) ** self.order
        if self.order == 1.0 or safe == 0.0:
            return 0.0, safe
        p, both = self._positions.both(reference, points)
        placed, start = type(self)(self.metric, both), np.append(p, np.zeros(len(p)))

        def excess(share: float) -> float:
            return placed.distance(np.append((1.0 - share) * p, share * p), start) - radius

        if excess(safe) >= -1e-9 * radius:
            return 0.0, safe
        share = float(brentq(excess, safe, 1.0, xtol=1e-12, rtol=1e-10))
        return 0.0, share if excess(share) <= 1e-9 * radius else safe

    def witness(self, reference: FloatArray, radius: float, arrived: FloatArray) -> Witness | None:
        """Return a function of slope 1: along the shift of the mean, or the distance (or its negative) to the mean.

        E_q h <= E_p h + eps for every q of the set, as |h(a) - h(b)| <= ||a - b|| and no distance of order r is below
        that of order 1 (Kantorovich and Rubinstein). The function returned is the one of these three that best
        separates the contexts that arrived.
        """
        if not math.isfinite(radius):
            return None
        used = reference > 0.0
        steps = self._steps
        p, atoms, came = reference[used], self.contexts[used] / steps, arrived / steps
        mean = p @ atoms
        way = came.mean(axis=0) - mean
        dual_norm = np.inf if self.metric.norm == 1.0 else 1.0 / (1.0 - 1.0 / self.metric.norm)
        slope = way / (float(np.linalg.norm(way, dual_norm)) or 1.0)

        def functions(points: FloatArray) -> FloatArray:
            far = distances_between(points, self.metric.norm, mean[None, :])[:, 0]
            return np.stack([points @ slope, far, -far])

        known = functions(np.concatenate([atoms, came]))
        low, high = known.min(axis=1, keepdims=True), known.max(axis=1, keepdims=True)
        most = known[:, : len(p)] @ p + radius
        best = int(np.argmax(known[:, len(p) :].mean(axis=1) - most))
        return Witness(
            # a truncated function keeps its slope
            lambda points: np.clip(functions(points / steps), low, high)[best],
            float(most[best]),
            float(low[best, 0]),
        )

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point of the best s: threshold(c) = max_i m_i - s D(c_i, c)^r, m_i = min_j v_j + s D_ij^r."""
        if radius == 0.0:
            return None
        sources = np.flatnonzero(reference)
        p, cost = reference[sources], self._relative[sources]
        budget = min(self._budget(radius), 1e100)
        lowest = float(values.min())
        v = values - lowest  # bounds are rounded relative to the range of the values
        s = _best_price(v, p, cost, budget)
        prices = (v + s * cost).min(axis=1)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            far = self._positions.to(points, sources) - self._positions.lengths(half)
            way = np.maximum(far, 0.0) / self._largest
            return lowest + (prices[:, None] - s * way**self.order).max(axis=0), np.zeros_like(points)

        return Dual(min(lowest + (float(p @ prices) - s * budget), float(worst.expectation)), 1.0, threshold)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if self._on_line is not None:
            return float(self._distances(p[None, :], q[None, :])[0])
        announce(cheapest_plan)
        return self._root(cheapest_plan(q, p, self._relative, self.order == 1.0))

    def _distances(self, first: FloatArray, second: FloatArray) -> FloatArray:
        if self._on_line is None:
            return super()._distances(first, second)
        order, along = self._on_line
        least = cheapest_plans_on_line(second[:, order], first[:, order], along, self.order)
        return np.array([self._root(one) for one in least])


class Wasserstein(AmbiguitySet):
    """All distributions q within eps of the reference p in the Wasserstein distance of order r.

    W_r(q, p) = (min_{pi >= 0} sum_ij pi_ij D_ij^r)^(1/r),  rows of pi summing to p and columns to q.

    D_ij is the distance of context j from context i, so the radius is in the units of the contexts: the mean distance
    that mass may travel (order 1), its root mean square (order 2: the plan costs sum_ij pi_ij D_ij^2 <= eps^2), or the
    largest distance (order inf: every day moves by at most the radius).

    worst case = max_{l >= 0}  -l eps^r + sum_i p_i min_j (v_j + l D_ij^r),
    worst case = sum_i p_i min {v_j : D_ij <= eps}   for order inf.

    With order 1 the adversary sends a few days far, often to the corner of the worst values; with order 2 far moves
    cost more; with order inf all days move. Order inf on a finite set is a step function of the radius, without a
    sensitivity. A single outlier decides W_inf between two samples, so no rule learns its radius, and `watch` refuses
    it.

    Mass moves to any context, also to one of zero reference weight. At radius 0 the set is the reference alone, by
    definition; at any larger radius mass moves freely between contexts at distance zero. From the radius (sum_i p_i
    D_ij^r)^(1/r) on, j the context of the lowest value, the worst case is the minimum over all contexts.

    Distances are exact up to the rounding of the weights: mass below 1e-15 is ignored.

    Parameters
    ----------
    contexts : (n, d) points, or n numbers on a line; D is then their distance in the norm `norm`. Without contexts and
        cost an optimizer places the set on its own contexts
    order : r >= 1; `math.inf`: every day moves by at most the radius
    norm : order of the norm between contexts, 1 or more: 2 is Euclidean, inf the largest coordinate
    scale : the length of one step in each column: a mapping from column names, `scale={"outdoor": 3.0, "load": 0.1}`,
        or one number per column. Distances and the radius are then in these steps. Two or more named columns need a
        scale, as their units differ; so do columns without names whose ranges differ by more than a factor of 3. The
        default step is one unit of the contexts
    cost : (n, n) distances D instead of contexts, D_ij >= 0 for moving from i to j with D_ii = 0; symmetry and the
        triangle inequality are not required
    """

    def __init__(
        self,
        contexts: ArrayLike | None = None,
        order: float = 1.0,
        norm: float = 2.0,
        *,
        cost: ArrayLike | None = None,
        scale: Mapping[str, float] | ArrayLike | None = None,
    ) -> None:
        power = validation.radius(order, "order")
        if power < 1.0:
            raise ValueError(f"order must be 1 or more (inf allowed), got {power}")
        length = validation.radius(norm, "norm")
        if length < 1.0:
            raise ValueError(f"norm must be 1 or more (inf allowed), got {length}")
        if contexts is not None and cost is not None:
            raise TypeError("Wasserstein takes either contexts or cost, and not both")
        if cost is not None and scale is not None:
            raise TypeError("Wasserstein takes either cost or scale, and not both: a cost is a distance already")
        self.order = power
        self._metric = Metric(power, length, _scale(scale))
        self._read = False
        self._placed: PlacedWasserstein | PlacedEverywhere | None = None
        if contexts is not None:
            self._placed = _at(self._metric, validation.points("contexts", contexts))
        elif cost is not None:
            self._placed = _of_cost(self._metric, _cost_matrix(cost))
        self.growth = PlacedEverywhere.growth if math.isinf(power) else _growth(power)

    def __repr__(self) -> str:
        return f"Wasserstein({self._metric})" if self._placed is None else repr(self._placed)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        own, placed = self._metric, self._placed
        contexts = placed.contexts if isinstance(placed, PointWasserstein | PointEverywhere) else None
        cost = placed.cost if placed is not None and contexts is None else None
        return {"contexts": contexts, "cost": cost, "order": own.order, "norm": own.norm, "scale": own.scale}

    def with_columns(self, columns: Sequence[Column]) -> Wasserstein:
        """Return the set for contexts with these columns; raise if their units differ and there is no scale."""
        names, scale = [column.name for column in columns if column.name is not None], self._metric.scale
        if self._placed is not None:
            return self
        if not names:
            spans = [column.span for column in columns if column.span > 0.0]
            if scale is None and spans and max(spans) > _ALIKE * min(spans):
                self._refuse(
                    f"Wasserstein needs a scale for columns whose ranges differ by more than a factor of {_ALIKE:g}, "
                    f"from {min(spans):.3g} to {max(spans):.3g}: what counts as one step in each. Their deviations are "
                    f"a start: scale=[{', '.join(f'{column.step or 1.0:.3g}' for column in columns)}]"
                )
            return self
        if isinstance(scale, dict) and set(scale) != set(names):
            raise ValueError(f"scale must name {listed(names)}, got {listed(scale)}")
        if isinstance(scale, tuple):
            raise TypeError(f"scale must be a mapping from the columns {listed(names)}, got {scale}")
        if scale is None and len(names) > 1:
            steps = ", ".join(f"{column.name!r}: {column.step:.3g}" for column in columns)
            self._refuse(
                f"Wasserstein needs a scale for the columns {listed(names)}, whose units differ: what counts as one "
                f"step in each. Their deviations are a start: scale={{{steps}}} (labels are 1 apart)"
            )
        made = copy.copy(self)
        made._metric = replace(self._metric, columns=tuple(columns))
        return made

    def _refuse(self, why: str) -> None:
        """Raise; warn for the set of a file, which an older version may have accepted."""
        if not self._read:
            raise ValueError(why)
        warnings.warn(f"{why}. The loaded run continues without a scale, as before", UserWarning, stacklevel=2)

    @classmethod
    def from_arguments(cls, **arguments: Any) -> Self:
        """Return the set of a file."""
        made = cls(**arguments)
        made._read = True
        return made

    def among(self, rows: NDArray[np.intp]) -> Wasserstein:
        """Return the family for some of its contexts (k,); this family if it was constructed without contexts."""
        placed = self._placed
        if placed is None or len(rows) == self.n_contexts:
            return self
        made = copy.copy(self)
        if isinstance(placed, PointWasserstein | PointEverywhere):
            made._placed = _at(placed.metric, placed.contexts[rows])
        else:
            made._placed = _of_cost(placed.metric, placed.cost[np.ix_(rows, rows)])
        return made

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Metric] | None:
        del scales
        if self._placed is not None or math.isinf(self.order):
            return None
        return points / self._metric.steps(points.shape[1]), self._metric

    def _place(self, points: FloatArray, scales: FloatArray) -> PointWasserstein | PointEverywhere:
        del scales
        return _at(self._metric, points)


def _at(metric: Metric, points: FloatArray) -> PointWasserstein | PointEverywhere:
    """Return the set on points (n, d)."""
    return PointEverywhere(metric, points) if math.isinf(metric.order) else PointWasserstein(metric, points)


def _of_cost(metric: Metric, cost: FloatArray) -> PlacedWasserstein | PlacedEverywhere:
    """Return the set of distances (n, n)."""
    return PlacedEverywhere(metric, cost) if math.isinf(metric.order) else PlacedWasserstein(metric, cost)


def _growth(order: float) -> Growth:
    return Growth(convex=order == 1.0, power=order)  # for a higher order the worst case is convex in eps^r


def _best_price(v: FloatArray, p: FloatArray, cost: FloatArray, budget: float) -> float:
    """Return the s >= 0 that maximises sum_i p_i min_j (v_j + s cost_ij) - s budget: v (n,), p (k,), cost (k, n)."""

    def line(s: float) -> tuple[float, float]:
        prices = v + s * cost
        to = np.argmin(prices, axis=1)
        rows = np.arange(len(to))
        return float(p @ prices[rows, to]) - s * budget, float(p @ cost[rows, to]) - budget

    at_home = np.where(cost == 0.0, v, np.inf).min(axis=1)
    return peak(line, (float(p @ at_home), -budget))


def _scale(scale: Any) -> dict[str, float] | tuple[float, ...] | None:
    """Return a scale by names, or as numbers."""
    given = validation.by_name(scale)
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(name): validation.positive_float(f"scale[{name!r}]", step) for name, step in given.items()}
    return tuple(validation.positive_float("scale", step) for step in np.atleast_1d(np.asarray(given, dtype=object)))


def _cost_matrix(cost: ArrayLike) -> FloatArray:
    matrix = validation.finite_array("cost", cost, ndim=2)
    if matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"cost must be square, got shape {matrix.shape}")
    if matrix.min() < 0.0:
        raise ValueError(f"cost must not be negative, got {matrix.min()}")
    if np.any(np.diagonal(matrix) != 0.0):
        raise ValueError(f"cost must be zero on the diagonal, got {np.diagonal(matrix).max()}")
    return matrix
