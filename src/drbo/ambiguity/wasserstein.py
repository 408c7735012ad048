"""Wasserstein balls: the adversary moves mass between contexts and pays for the distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from drbo import validation
from drbo._compiled import announce
from drbo.ambiguity._transport_solver import cheapest_plan, cheapest_plan_on_line, worst_plans
from drbo.ambiguity.contract import AmbiguitySet, Dual, peak
from drbo.ambiguity.divergences import in_unit_range, reference_alone
from drbo.validation import FloatArray


class Wasserstein(AmbiguitySet):
    """All distributions q within eps of the reference p in the Wasserstein distance of order r.

    W_r(q, p) = (min_{pi >= 0} sum_ij pi_ij D_ij^r)^(1/r),  rows of pi summing to p and columns to q.

    D_ij is the distance of context j from context i, so the radius is in the units of the contexts: the mean way that
    mass may travel (order 1), or its root mean square (order 2: the plan costs sum_ij pi_ij D_ij^2 <= eps^2).

    worst case = max_{l >= 0}  -l eps^r + sum_i p_i min_j (v_j + l D_ij^r).

    Mass moves to any context, also to one of zero reference weight. At radius 0 the set is the reference alone, by
    definition; at any larger one mass moves freely between contexts at distance zero of each other. From the radius
    (sum_i p_i D_ij^r)^(1/r) on, j the context of the lowest value, the worst case is the minimum over all contexts.

    Distances are exact up to the rounding of the weights: a parcel of less than 1e-15 counts as not moved.

    Parameters
    ----------
    contexts : (n, d) points, or n numbers on a line; D is then their distance in the norm `norm`
    order : r >= 1
    norm : order of the norm between contexts, 1 or more: 2 is Euclidean, inf the largest coordinate
    cost : (n, n) distances D in place of contexts, D_ij >= 0 for moving from i to j with D_ii = 0; it need neither
        be symmetric nor obey the triangle inequality
    """

    def __init__(
        self,
        contexts: ArrayLike | None = None,
        order: float = 1.0,
        norm: float = 2.0,
        *,
        cost: ArrayLike | None = None,
    ) -> None:
        self.order = validation.finite_float("order", order)
        if self.order < 1.0:
            raise ValueError(f"order must be 1 or more, got {self.order}")
        self.norm = validation.radius(norm, "norm")
        if self.norm < 1.0:
            raise ValueError(f"norm must be 1 or more (inf allowed), got {self.norm}")
        if (contexts is None) == (cost is None):
            raise TypeError("Wasserstein takes either contexts or cost, and not both")
        self.contexts: FloatArray | None = None
        if contexts is not None:
            points = self.contexts = validation.frozen(validation.points("contexts", contexts))
            self.cost = _distances(points, self.norm)
            self._on_line = points[:, 0] if points.shape[1] == 1 else None
        else:
            assert cost is not None
            self.cost = _cost_matrix(cost)
            self._on_line = None
        self.n_contexts = len(self.cost)
        # Relative to the largest, powers of distances neither overflow nor lose the scale of the budget.
        self._largest = float(self.cost.max()) or 1.0
        self._relative = (self.cost / self._largest) ** self.order
        self._nearest = np.argsort(self._relative, axis=1, kind="stable")

    def __repr__(self) -> str:
        return f"Wasserstein({self.n_contexts} contexts, order={self.order:g})"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> Dual | None:
        """Return the dual point of the best s: threshold(c) = max_i m_i - s D(c_i, c)^r, m_i = min_j v_j + s D_ij^r."""
        if radius == 0.0:
            return None
        if self.contexts is None:
            raise TypeError("a Wasserstein set made of a cost matrix knows no further contexts: give it contexts")
        sources = np.flatnonzero(reference)
        p, cost, points_from = reference[sources], self._relative[sources], self.contexts[sources]
        budget = min(self._budget(radius), 1e100)
        offset = float(values.min())
        above = values - offset  # nothing depends on the offset, and numbers near zero round least

        def line(s: float) -> tuple[float, float]:
            prices = above + s * cost
            to = np.argmin(prices, axis=1)
            rows = np.arange(len(to))
            return float(p @ prices[rows, to]) - s * budget, float(p @ cost[rows, to]) - budget

        at_home = np.where(cost == 0.0, above, np.inf).min(axis=1)
        s = peak(line, (float(p @ at_home), -budget))
        lowest = (above + s * cost).min(axis=1)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            reach = (1.0 + 1e-12) * np.linalg.norm(half, self.norm, axis=1)[:, None]
            way = np.maximum(_distances(points, self.norm, points_from) - reach, 0.0) / self._largest
            return offset + (lowest - s * way**self.order).max(axis=1), np.zeros_like(points)

        attained = float(self.worst_case(values, reference, radius).expectation)
        return Dual(min(offset + line(s)[0], attained), 1.0, threshold)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if self._on_line is None:
            least = cheapest_plan(q, p, self._relative)
        else:
            along = np.argsort(self._on_line)
            least = cheapest_plan_on_line(q[along], p[along], self._on_line[along] / self._largest, self.order)
        return self._largest * float(least ** (1.0 / self.order))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        u, lowest, scale = in_unit_range(values)
        announce(worst_plans)
        weights, dual = worst_plans(u, reference, self._relative, self._nearest, self._budget(radius))
        return weights, lowest + scale * dual

    def _budget(self, radius: float) -> float:
        """Return what a plan may cost, eps^r relative to the largest distance; it may be infinite."""
        with np.errstate(over="ignore"):
            return float(np.float64(radius / self._largest) ** self.order)


def _distances(points: FloatArray, norm: float, others: FloatArray | None = None) -> FloatArray:
    to = points if others is None else others
    distances = cdist(points, to, "chebyshev") if np.isinf(norm) else cdist(points, to, "minkowski", p=norm)
    if not np.isfinite(distances).all():
        raise ValueError("contexts must have finite distances, got some that overflow")
    return distances


def _cost_matrix(cost: ArrayLike) -> FloatArray:
    matrix = validation.finite_array("cost", cost, ndim=2)
    if matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"cost must be square, got shape {matrix.shape}")
    if matrix.min() < 0.0:
        raise ValueError(f"cost must not be negative, got {matrix.min()}")
    if np.any(np.diagonal(matrix) != 0.0):
        raise ValueError(f"cost must be zero on the diagonal, got {np.diagonal(matrix).max()}")
    return matrix
